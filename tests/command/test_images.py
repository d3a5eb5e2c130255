"""The task `images`, its data, and workers that err on purpose, through the command."""

import json
import shutil

import pytest
from conftest import run, run_json
from paths import ROOT

SHIPPED = ROOT / "data" / "fashion-mnist"
IMAGES = ["train", "--task", "images", "--workers", 4]
SHORT = [*IMAGES, "--steps", 40, "--images.hidden", 16]


def test_averaging_learns_to_tell_the_classes_apart():
    result = run_json(*IMAGES, "--steps", 300)
    assert result["metric"] == "accuracy"
    assert not result["lower_is_better"]
    assert result["quality"] > 0.77  # training the last layer alone stays below 0.75


def test_every_engine_gives_the_same_model(needs):
    needs("mpi", "sim")
    train = ["train", "--task", "images", "--steps", 10, "--bucket-kib", 64, "--batch", 50, "--faulty", "1:noise:2"]
    results = [
        run_json(*train, "--workers", 4, "--engine", "threads"),
        run_json(*train, "--workers", 4, "--engine", "threads", "--deterministic"),
        run_json(*train, "--workers", 4, "--engine", "sim"),
        run_json(*train, workers=4),
    ]
    assert len({result["model_hash"] for result in results}) == 1
    assert len({result["quality"] for result in results}) == 1
    assert all(result["replicas_equal"] for result in results)


def test_the_shipped_files_are_small_and_are_what_is_built_in():
    assert sum(file.stat().st_size for file in SHIPPED.iterdir()) <= 3_000_000
    built_in, read = run_json(*SHORT), run_json(*SHORT, "--data", SHIPPED)
    assert read["task_settings"]["data"] == str(SHIPPED)
    assert built_in["model_hash"] == read["model_hash"]
    assert run_json(*SHORT, "--images.data", SHIPPED)["model_hash"] == read["model_hash"]


def test_compare_takes_data_and_faults_and_hands_them_to_its_children(needs):
    needs("sim")
    compared = ["compare", *SHORT[1:], "--algorithms", "mean", "--data", SHIPPED, "--faulty", "3:scale:-5"]
    here, there = (
        run_json(*compared, "--engine", engine)["cases"][0]["rows"][0]["quality"] for engine in ("threads", "sim")
    )
    assert here == there
    assert here["mean"] < run_json(*SHORT)["quality"]


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda folder: (folder / "train-labels-idx1-ubyte.gz").unlink(), "holds neither train-labels-idx1-ubyte nor"),
        (lambda folder: (folder / "t10k-images-idx3-ubyte.gz").write_bytes(b""), "t10k-images-idx3-ubyte.gz is empty"),
        (
            lambda folder: shutil.copy(folder / "t10k-labels-idx1-ubyte.gz", folder / "train-labels-idx1-ubyte.gz"),
            "train-labels-idx1-ubyte.gz holds 1300 labels for the 5350 images of",
        ),
        (
            lambda folder: (folder / "train-images-idx3-ubyte.gz").write_bytes(
                (SHIPPED / "train-images-idx3-ubyte.gz").read_bytes()[:100_000]
            ),
            "train-images-idx3-ubyte.gz is cut short",
        ),
    ],
    ids=["missing", "empty", "counts", "truncated"],
)
def test_files_that_cannot_be_trusted_fail_the_run_in_one_sentence(tmp_path, needs, spoil, sentence):
    folder = tmp_path / "data"
    shutil.copytree(SHIPPED, folder)
    spoil(folder)
    done = run(*SHORT, "--data", folder)
    assert done.returncode == 1
    assert sentence in done.stderr
    assert done.stderr.startswith("flockstep: ")
    assert done.stderr.count("\n") == 1


WRONG = [
    (
        ["--task", "linear", "--data", "/"],
        "the task linear takes no --data: leave it out, or use --task images or vision",
    ),
    (["--task", "images", "--size", "tiny"], "the task images takes no --size: leave it out, or use --task vision"),
    (["--task", "images", "--images.shard", "skewd"], "takes iid or skewed, not 'skewd'"),
    (["--task", "images", "--images.noisy_workers", "5"], "takes a whole number from 0 to 4, not '5'"),
    (["--task", "images", "--batch", "3"], "a batch of 3 leaves some of 4 workers without a sample"),
    (["--faulty", "4:zeros"], "--faulty names worker 4, but workers are 0 to 3"),
    (["--faulty", "3:copies:4"], "--faulty names worker 4, but workers are 0 to 3"),
    (
        ["--faulty", "3:scal:2"],
        "unknown fault 'scal' (did you mean scale?); there are scale, noise, zeros, nan, copies",
    ),
    (["--faulty", "3:scale"], "--faulty takes the form 3:scale:-5 for scale, not '3:scale'"),
    (["--faulty", "zeros"], "--faulty takes the form 3:scale:-5, not 'zeros'"),
]


@pytest.mark.parametrize("command", ["train", "compare"])
@pytest.mark.parametrize(
    ("arguments", "sentence"), WRONG, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_a_wrong_call_gets_one_sentence(command, arguments, sentence):
    done = run(command, *arguments)
    assert done.returncode == 2, done.stderr
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_a_nan_skips_the_step_that_is_named():
    result = run_json(*SHORT, "--faulty", "3:nan:7")
    assert result["guards"]["skipped_steps"] == 4  # on each of four workers
    # One that nobody has looked at, and the patience of five; then that worker is left out.
    assert run_json(*SHORT, "--faulty", "3:nan")["guards"]["skipped_steps"] == 24
    patient = run_json(*SHORT, "--faulty", "3:nan", "--mean.non_finite_patience", 0)
    assert patient["guards"]["skipped_steps"] == 160


def test_a_copy_sends_the_same_gradient_as_the_worker_it_copies():
    two = ["train", "--task", "images", "--steps", 20, "--workers", 2, "--batch", 32]
    one = ["train", "--task", "images", "--steps", 20, "--workers", 1, "--batch", 16]
    assert run_json(*two, "--faulty", "1:copies:0")["model_hash"] == run_json(*one)["model_hash"]


def test_faults_belong_to_the_identity_of_a_run(tmp_path):
    out = tmp_path / "run"
    train = ["train", "--steps", 10, "--checkpoint-every", 5, "--out", out]
    run_json(*train, "--faulty", "3:scale:-5,2:nan:4")
    assert json.loads((out / "summary.json").read_text())["faulty"] == "3:scale:-5,2:nan:4"
    done = run(*train, "--resume", "--faulty", "3:scale:-4")
    assert done.returncode == 2
    assert 'holds a run with faulty "3:scale:-5,2:nan:4"' in done.stderr


def test_the_learning_rate_has_a_short_flag():
    train = ["train", "--task", "images", "--workers", 2, "--steps", 5]
    assert run_json(*train, "--lr", 0.3)["model_hash"] == run_json(*train, "--images.learning_rate", 0.3)["model_hash"]
    refused = run("train", "--task", "linear", "--lr", 0.1)
    assert refused.returncode == 2
    assert "the task linear takes no --lr: leave it out, or use --task images" in refused.stderr
