"""The task `images`, its data, and workers that err on purpose, through the command."""

import shutil

from conftest import refused, run_json
from paths import ROOT

SHIPPED = ROOT / "data" / "fashion-mnist"
IMAGES = ["train", "--task", "images", "--workers", 4]
SHORT = [*IMAGES, "--steps", 40, "--images.hidden", 16]


def test_averaging_learns_to_tell_the_classes_apart():
    result = run_json(*IMAGES, "--steps", 300)
    assert result["metric"] == "accuracy"
    assert not result["lower_is_better"]
    assert result["quality"] > 0.77  # training the last layer alone stays below 0.75


def test_the_shipped_files_are_small_and_are_what_is_built_in():
    assert sum(file.stat().st_size for file in SHIPPED.iterdir()) <= 3_000_000
    built_in, read = run_json(*SHORT), run_json(*SHORT, "--data", SHIPPED)
    assert read["task_settings"]["data"] == str(SHIPPED)
    assert built_in["model_hash"] == read["model_hash"]
    assert run_json(*SHORT, "--images.data", SHIPPED)["model_hash"] == read["model_hash"]


def test_compare_takes_data_and_faults_and_hands_them_to_its_children():
    compared = ["compare", *SHORT[1:], "--algorithms", "mean", "--data", SHIPPED, "--faulty", "3:scale:-5"]
    here, there = (
        run_json(*compared, "--engine", engine)["cases"][0]["rows"][0]["quality"] for engine in ("threads", "sim")
    )
    assert here == there
    assert here["mean"] < run_json(*SHORT)["quality"]


def test_a_file_that_is_cut_short_fails_the_run(tmp_path):
    folder = shutil.copytree(SHIPPED, tmp_path / "data")
    images = folder / "train-images-idx3-ubyte.gz"
    images.write_bytes(images.read_bytes()[:100_000])
    refused(*SHORT, "--data", folder, names="train-images-idx3-ubyte.gz is cut short", code=1)


def test_the_learning_rate_has_a_short_flag():
    train = ["train", "--task", "images", "--workers", 2, "--steps", 5]
    assert run_json(*train, "--lr", 0.3)["model_hash"] == run_json(*train, "--images.learning_rate", 0.3)["model_hash"]
