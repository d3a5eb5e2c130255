"""The task `detection`, beside what test_tasks.py asks of all: pictures with boxes in COCO's format."""

import json

import numpy
import pytest
from conftest import refused, run, run_json
from live_run import lines_of
from PIL import Image

pytestmark = pytest.mark.thorough

DETECTION = ["train", "--task", "detection", "--size", "tiny"]
LITTLE = [*DETECTION, "--detection.side", 24, "--detection.width", 8, "--detection.channels", 8]
SHORT = [*LITTLE, "--workers", 3, "--steps", 6, "--batch", 7, "--evaluate-every", 3]


def write_coco(folder, train, test, kinds=("png", "jpg")):
    """Pictures with one white square each on black, to train on and for the test."""
    draw = numpy.random.default_rng(1)
    (folder / "annotations").mkdir(parents=True)
    for part, count, kind in [("train2017", train, kinds[0]), ("val2017", test, kinds[1])]:
        (folder / part).mkdir()
        images, annotations = [], []
        for number in range(count):
            width, height = (int(side) for side in draw.integers(40, 80, 2))
            left, top, side = (int(place) for place in draw.integers(4, 20, 3))
            pixels = numpy.zeros((height, width, 3), numpy.uint8)
            pixels[top : top + side, left : left + side] = 255
            name = f"{number:012}.{kind}"
            Image.fromarray(pixels).save(folder / part / name)
            images.append({"id": 100 + number, "file_name": name, "width": width, "height": height})
            box = {"bbox": [left, top, side, side], "iscrowd": 0, "area": side * side, "segmentation": [[1, 2, 3, 4]]}
            annotations.append({"id": number, "image_id": 100 + number, "category_id": 17, **box})
        categories = [{"id": 17, "name": "square"}, {"id": 90, "name": "unseen"}]
        document = {"info": {}, "images": images, "annotations": annotations, "categories": categories}
        (folder / "annotations" / f"instances_{part}.json").write_text(json.dumps(document))
    return folder


def test_pictures_of_coco_are_read_and_learned(torch, tmp_path):
    folder = write_coco(tmp_path / "coco", train=40, test=12)
    result = run_json(*LITTLE, "--data", folder, "--workers", 2, "--steps", 120, "--batch", 8, "--evaluate-every", 120)
    assert result["figures"]["mAP@0.5"] > 0.3
    assert result["replicas_equal"]


def test_files_that_cannot_be_trusted_are_told_across_the_border_of_the_object(torch, tmp_path):
    folder = write_coco(tmp_path / "coco", train=4, test=2)
    picture = folder / "val2017" / f"{1:012}.jpg"
    picture.write_bytes(picture.read_bytes()[:300])
    annotations = folder / "annotations" / "instances_val2017.json"
    for path, leaves, make_worse in [
        (picture, ["metrics.jsonl"], lambda: annotations.write_text('{"images": [')),  # found when the run has begun
        (annotations, [], annotations.unlink),
    ]:
        out = tmp_path / f"from_{path.name}"
        refused(*SHORT, "--data", folder, "--out", out, names=f"flockstep: {path} is no", code=1)
        assert [file.name for file in out.glob("*.json*")] == leaves
        make_worse()
    refused(*SHORT, "--data", folder, names=f"{folder} holds no annotations/instances_val*.json", code=1)


def test_a_picture_that_turns_out_bad_leaves_a_run_that_can_go_on(torch, tmp_path):
    folder = write_coco(tmp_path / "coco", train=20, test=2)
    train = [*LITTLE, "--data", folder, "--workers", 2, "--steps", 30, "--batch", 2, "--checkpoint-every", 2]
    whole = run_json(*train, "--out", tmp_path / "whole")
    picture = folder / "train2017" / f"{3:012}.png"
    good = picture.read_bytes()
    picture.write_bytes(good[:60])
    out = tmp_path / "out"
    refused(*train, "--out", out, names=f"{picture} is no PNG image that can be read: ", code=1)
    assert not (out / "summary.json").exists()
    assert lines_of(out)
    picture.write_bytes(good)
    assert run_json(*train, "--resume", "--out", out)["model_hash"] == whole["model_hash"]


def test_a_comparison_goes_on_although_training_and_test_pictures_have_the_same_names(torch, tmp_path):
    folder = write_coco(tmp_path / "coco", train=4, test=2, kinds=["png", "png"])
    little = [*LITTLE[1:], "--workers", 2, "--steps", 2, "--batch", 2, "--data", folder]
    compare = ["compare", *little, "--algorithms", "mean", "--seeds", 1, "--out", tmp_path / "out"]
    for _ in range(2):
        assert run(*compare).returncode == 0
    (folder / "val2017" / "another.png").write_bytes(b"")
    refused(*compare, names=f"holds a run with {folder}/val2017 a folder from ")
