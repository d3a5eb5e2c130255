"""The task `vision`: what it learns, the same bits everywhere, and torch in an object of its own."""

import os
import resource
import subprocess

import pytest
from conftest import COMMAND, run, run_json
from paths import HANG_S, ROOT

from engines import expect_one_model_on_every_engine

SHIPPED = ROOT / "data" / "fashion-mnist"
VISION = ["train", "--task", "vision", "--size", "tiny"]
SHORT = [*VISION, "--workers", 3, "--steps", 6, "--batch", 20, "--evaluate-every", 3]


def test_tiny_learns(torch):
    result = run_json(*VISION, "--workers", 4)
    assert result["metric"] == "accuracy"
    assert result["quality"] > 0.8  # 0.83 to 0.84 with three seeds
    assert result["validation"] > 0.77
    assert result["replicas_equal"]


def test_every_engine_gives_the_same_model(torch, needs):
    needs("mpi", "sim")
    expect_one_model_on_every_engine(*VISION, "--steps", 6, "--batch", 20, "--bucket-kib", 8, "--vision.augment", "yes")


@pytest.mark.parametrize("algorithm", ["adacons", "local_sgd", "wagma", "flock", "adpsgd", "sgp"])
def test_every_kind_of_algorithm_trains_it(torch, algorithm):
    train = [*VISION, "--workers", 4, "--steps", 100, "--algorithm", algorithm, "--deterministic"]
    result = run_json(*train, "--compute-ms", 10, "--jitter", "lognormal:0.3")
    assert result["quality"] > 0.6  # a guess finds 0.1
    assert result["replicas_equal"]  # the running statistics as well


@pytest.mark.parametrize(
    "algorithm",
    [["mean"], ["local_sgd"], ["wagma", "--wagma.activation", "quorum", "--wagma.quorum", 3]],
    ids=lambda words: words[0],
)
def test_a_resumed_run_ends_on_the_same_bits(torch, tmp_path, algorithm):
    train = [*SHORT, "--algorithm", *algorithm, "--vision.schedule", "constant", "--checkpoint-every", 3]
    whole = run_json(*train, "--out", tmp_path / "whole")
    run_json(*train, "--steps", 3, "--out", tmp_path / "parts")
    resumed = run_json(*train, "--resume", "--out", tmp_path / "parts")
    assert resumed["steps"] == 6
    assert resumed["model_hash"] == whole["model_hash"]


def test_options_of_the_task_have_short_flags(torch):
    short = run_json(*SHORT, "--shard", "skewed", "--noisy-workers", 1, "--data", SHIPPED)
    long = run_json(*SHORT, "--vision.shard", "skewed", "--vision.noisy_workers", 1)
    assert short["model_hash"] == long["model_hash"] != run_json(*SHORT)["model_hash"]
    assert short["task_settings"]["noisy_workers"] == "1"


def cifar(folder, images):
    folder.mkdir()
    names = [f"data_batch_{number}.bin" for number in range(1, 6)] + ["test_batch.bin"]
    for seed, name in enumerate(names):
        records = (bytes([i % 10]) + bytes((seed + i * 7 + j) % 256 for j in range(3072)) for i in range(images))
        (folder / name).write_bytes(b"".join(records))
    return folder


def test_colour_images_are_read_and_bad_files_are_told_across_the_border_of_the_object(torch, tmp_path):
    folder = cifar(tmp_path / "cifar", 20)
    assert run_json(*SHORT, "--data", folder)["replicas_equal"]
    (folder / "data_batch_2.bin").write_bytes(b"\x01" * 3000)
    done = run(*SHORT, "--data", folder)
    assert done.returncode == 1
    assert done.stderr == (
        f"flockstep: {folder}/data_batch_2.bin is no file of CIFAR-10, or cut short: it holds 3000 bytes, and not a "
        "multiple of 3073\n"
    )


def test_torch_is_loaded_only_for_tasks_that_need_it(torch):
    def loads_torch(*arguments):
        done = subprocess.run(
            [COMMAND, *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=HANG_S,
            env={**os.environ, "LD_DEBUG": "files"},
        )
        assert done.returncode == 0
        return "libtorch_cpu" in done.stderr

    assert not loads_torch("tasks")
    assert not loads_torch("train", "--steps", 2)
    assert loads_torch(*SHORT)


def test_wrong_calls_get_one_sentence(torch):
    for arguments, sentence in [
        (["--size", "huge"], "--vision.size takes tiny, small or paper, not 'huge'"),
        (["--vision.depth", "9"], "--vision.depth takes 18, 34, 50, 101 or 152, or 8, 14, 20, ... in steps of six"),
        (["--batch", "7"], "a batch of 7 leaves some of 4 workers with fewer than 2 samples: use at least 8"),
    ]:
        done = run("train", "--task", "vision", *arguments)
        assert done.returncode == 2
        assert sentence in done.stderr
        assert done.stderr.count("\n") == 1


def test_what_torch_cannot_do_is_one_sentence(torch):
    def with_little_memory():
        resource.setrlimit(resource.RLIMIT_AS, (1 << 32, 1 << 32))

    call = ["train", "--task", "vision", "--vision.width", 4096, "--vision.depth", 152, "--workers", 1]
    done = run(*call, preexec_fn=with_little_memory)
    assert done.returncode == 1
    assert done.stderr.startswith("flockstep: torch failed: ")
    assert "allocate memory" in done.stderr
    assert done.stderr.count("\n") == 1


def test_without_torch_the_task_says_how_to_get_it(has_torch):
    if has_torch:
        pytest.skip("torch is built")
    done = run(*VISION)
    assert done.returncode == 1
    assert done.stderr == "flockstep: the task vision needs torch: build with -DFLOCKSTEP_TORCH=ON\n"
