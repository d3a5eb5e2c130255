"""The task `vision` on folders of pictures, as those of ImageNet."""

import numpy
import pytest
from conftest import refused, run, run_json
from PIL import Image

pytestmark = pytest.mark.thorough

VISION = ["train", "--task", "vision", "--vision.side", 16, "--vision.norm", "group", "--workers", 2]
EASY = ["--lr", 0.05, "--vision.warmup", 5, "--vision.augment", "yes"]
CLASSES = 12  # more than sets in memory have


def write_pictures(folder, count, classes=CLASSES):
    """Each class is a colour, with noise on it."""
    draw = numpy.random.default_rng(count)
    for label in range(classes):
        (folder / f"class{label:02}").mkdir(parents=True)
        for number in range(count):
            height, width = (int(side) for side in draw.integers(20, 40, 2))
            colour = [80 * (label % 4), 80 * (label // 4), 128]
            pixels = numpy.clip(colour + draw.normal(0, 20, (height, width, 3)), 0, 255).astype(numpy.uint8)
            Image.fromarray(pixels).save(folder / f"class{label:02}" / f"{number:03}.jpg")
    return folder


@pytest.mark.parametrize("is_split", [True, False])
def test_pictures_of_any_number_of_classes_are_learned(torch, tmp_path, is_split):
    if is_split:
        write_pictures(tmp_path / "train", 12)
        write_pictures(tmp_path / "val", 3)
    else:
        write_pictures(tmp_path, 15)
    result = run_json(*VISION, "--data", tmp_path, "--steps", 120, "--batch", 24, *EASY)
    assert result["quality"] > 0.75
    assert result["replicas_equal"]


def test_bad_folders_and_pictures_get_one_sentence(torch, tmp_path):
    write_pictures(tmp_path, 5, classes=1)
    train = [*VISION, "--data", tmp_path, "--steps", 4, "--batch", 4]
    names = f"{tmp_path} holds one folder of pictures: each is a class, and there must be two of them at least"
    refused(*train, names=names, code=1)
    (tmp_path / "other").mkdir()
    refused(*train, names=f"{tmp_path}/other holds no picture", code=1)
    picture = tmp_path / "other" / "broken.jpg"
    picture.write_bytes(next(tmp_path.glob("*/000.jpg")).read_bytes()[:300])
    refused(*train, "--shard", "skewed", names=f"{picture} is no JPEG image that can be read: ", code=1)


def test_a_comparison_notices_when_pictures_come(torch, tmp_path):
    folder = write_pictures(tmp_path / "data", 5, classes=2)
    compare = ["compare", *VISION[1:], "--steps", 2, "--batch", 4, "--data", folder, "--algorithms", "mean"]
    compare += ["--seeds", 1, "--out", tmp_path / "out"]
    for _ in range(2):
        assert run(*compare).returncode == 0
    (folder / "class01" / "new.jpg").write_bytes(b"")
    refused(*compare, names=f"holds a run with {folder}/class01 a folder from ")
