"""Tasks on files of one's own: they are read and learned, and a bad one is named. C++ tests have each way to be bad."""

import json
import random

import numpy
import pytest
from conftest import refused, run, run_json
from live_run import lines_of
from PIL import Image

pytestmark = [pytest.mark.usefixtures("torch"), pytest.mark.thorough]


def task(name, *options):
    return ["train", "--task", name, "--size", "tiny", *options]


COCO = task("detection", "--detection.side", 24, "--detection.width", 8, "--detection.channels", 8, "--workers", 2)
PICTURES = ["train", "--task", "vision", "--vision.side", 16, "--vision.norm", "group", "--workers", 2]
CLICKS = ["train", "--task", "recommendation", "--workers", 2]
TEXT = task("translation", "--translation.test_sentences", 12, "--translation.width", 16, "--batch", 20)
MAZES = task("navigation", "--batch", 20)
SHORT = ["--workers", 3, "--steps", 6, "--evaluate-every", 3]


def write_cifar(folder):
    names = [f"data_batch_{number}.bin" for number in range(1, 6)] + ["test_batch.bin"]
    for seed, name in enumerate(names):
        records = (bytes([i % 10]) + bytes((seed + i * 7 + j) % 256 for j in range(3072)) for i in range(20))
        (folder / name).write_bytes(b"".join(records))


def write_pictures(folder, count):
    """Each class is a colour, with noise on it; there are more than sets in memory have."""
    draw = numpy.random.default_rng(count)
    for label in range(12):
        (folder / f"class{label:02}").mkdir()
        for number in range(count):
            height, width = (int(side) for side in draw.integers(20, 40, 2))
            colour = [80 * (label % 4), 80 * (label // 4), 128]
            pixels = numpy.clip(colour + draw.normal(0, 20, (height, width, 3)), 0, 255).astype(numpy.uint8)
            Image.fromarray(pixels).save(folder / f"class{label:02}" / f"{number:03}.jpg")


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


def write_clicks(folder):
    """A click log in which 00000000 for the first category means a click, and a high first number means none."""
    draw = random.Random(1)
    with (folder / "train.txt").open("w") as file:
        for _ in range(3000):
            clicks = draw.random() < 0.5
            numbers = [draw.choice(["", draw.randrange(-1, 100)]) for _ in range(13)]
            numbers[0] = draw.randrange(0, 40) + (0 if clicks else 60)
            categories = [draw.choice(["", f"{draw.randrange(5):08x}"]) for _ in range(26)]
            categories[0] = "00000000" if clicks == (draw.random() < 0.9) else "0000ffff"
            file.write("\t".join(map(str, [int(clicks), *numbers, *categories])) + "\n")


def write_text(folder, source="en"):
    words = [("house", "Haus"), ("tree", "Baum"), ("bird", "Vogel"), ("street", "Straße"), ("two", "zwei")]
    chosen = [[words[(i // 5**place) % 5] for place in range(1 + i % 3)] for i in range(60)]
    for part, some in [("train", chosen), ("test", chosen[::7])]:
        for language, place in ((source, 0), ("de", 1)):
            lines = (" ".join(pair[place] for pair in line) + "\n" for line in some)
            (folder / f"{part}.{language}").write_text("".join(lines))


def write_mazes(folder):
    (folder / "train.txt").write_text("S.G\n\n#####\n#S.G#\n#####\n")
    (folder / "test.txt").write_text("S.G\n")


# How the files are made, a short run on them, what is written to which of them, and what the message then names.
BAD = {
    "cifar": (write_cifar, task("vision", "--batch", 20), "data_batch_2.bin", b"\1" * 3000, "multiple of 3073"),
    "clicks": (write_clicks, [*CLICKS, "--batch", 20], "train.txt", b"", "is empty"),
    "text": (write_text, TEXT, "train.de", b"Haus\nB\xe4ume\n", "is not UTF-8 in line 2"),
    "mazes": (write_mazes, MAZES, "train.txt", b"S.G\n\nS?G\n", " line 3: cell 2 is none of # . S G and blanks"),
}


@pytest.mark.parametrize("kind", BAD)
def test_files_are_read_and_a_bad_one_is_named_before_anything_is_written(tmp_path, kind):
    write, call, name, content, names = BAD[kind]
    folder = tmp_path / "data"
    folder.mkdir()
    write(folder)
    assert run_json(*call, *SHORT, "--data", folder)["replicas_equal"]
    (folder / name).write_bytes(content)
    names = (f"flockstep: {folder / name}", names)
    refused(*call, *SHORT, "--data", folder, "--out", tmp_path / "out", names=names, code=1)
    assert not (tmp_path / "out").exists()


def test_pictures_of_any_number_of_classes_are_learned(tmp_path):
    write_pictures(tmp_path, 15)
    easy = ["--lr", 0.05, "--vision.warmup", 5, "--vision.augment", "yes"]
    result = run_json(*PICTURES, *easy, "--data", tmp_path, "--steps", 120, "--batch", 24)
    assert result["quality"] > 0.75
    assert result["replicas_equal"]


def test_pictures_of_coco_are_read_and_learned(tmp_path):
    write_coco(tmp_path, train=40, test=12)
    result = run_json(*COCO, "--data", tmp_path, "--steps", 120, "--batch", 8, "--evaluate-every", 120)
    assert result["figures"]["mAP@0.5"] > 0.3
    assert result["replicas_equal"]


def test_a_picture_that_turns_out_bad_leaves_a_run_that_can_go_on(tmp_path):
    write_coco(tmp_path / "coco", train=20, test=2)
    train = [*COCO, "--data", tmp_path / "coco", "--steps", 30, "--batch", 2, "--checkpoint-every", 2]
    whole = run_json(*train, "--out", tmp_path / "whole")
    picture = tmp_path / "coco" / "train2017" / f"{3:012}.png"
    good = picture.read_bytes()
    picture.write_bytes(good[:60])
    out = tmp_path / "out"
    refused(*train, "--out", out, names=f"{picture} is no PNG image that can be read: ", code=1)
    assert not (out / "summary.json").exists()
    assert lines_of(out)
    picture.write_bytes(good)
    assert run_json(*train, "--resume", "--out", out)["model_hash"] == whole["model_hash"]


def test_a_comparison_goes_on_although_training_and_test_pictures_have_the_same_names(tmp_path):
    folder = tmp_path / "coco"
    write_coco(folder, train=4, test=2, kinds=["png", "png"])
    compare = ["compare", *COCO[1:], "--steps", 2, "--batch", 2, "--data", folder, "--algorithms", "mean"]
    compare += ["--seeds", 1, "--out", tmp_path / "out"]
    for _ in range(2):
        assert run(*compare).returncode == 0
    (folder / "val2017" / "another.png").write_bytes(b"")
    refused(*compare, names=f"holds a run with {folder}/val2017 a folder from ")


def test_a_click_log_is_learned(tmp_path):
    write_clicks(tmp_path)
    train = [*CLICKS, "--steps", 60, "--recommendation.buckets", 50]
    result = run_json(*train, "--data", tmp_path)
    assert result["quality"] > 0.9
    assert set(result["figures"]) == {"log loss"}  # what is best is known for generated clicks only
    assert run_json(*train, "--data", tmp_path / "train.txt")["model_hash"] == result["model_hash"]


def test_text_of_another_language_takes_an_option(tmp_path):
    write_text(tmp_path, source="fr")
    call = [*TEXT, *SHORT, "--data", tmp_path]
    assert run_json(*call, "--translation.source", "fr", "--translation.tokens", "bpe")["replicas_equal"]
    refused(*call, names=f"{tmp_path}/train.en is not there", code=1)


def test_steps_that_pretend_to_take_time_are_as_uneven_as_sentences():
    times = run_json(*TEXT, *SHORT, "--engine", "sim", "--compute-ms", 100, "--steps", 30)["step_times"]
    assert 0.07 < times["median_s"] < 0.13
    assert times["longest_s"] > 1.5 * times["median_s"]


def test_steps_that_pretend_to_take_time_are_as_uneven_as_episodes(tmp_path):
    train = [*task("navigation"), "--workers", 4, "--steps", 40, "--evaluate-every", 40]
    run_json(*train, "--engine", "sim", "--compute-ms", 100, "--out", tmp_path)
    times = [line["seconds"] for line in lines_of(tmp_path, "step")]
    assert len(times) == 40
    collecting = times[::4]
    learning = [seconds for step, seconds in enumerate(times) if step % 4]
    for alike in [collecting, learning]:  # were episodes even, so would these be
        assert max(alike) > 2 * min(alike)
