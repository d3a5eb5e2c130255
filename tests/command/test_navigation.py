"""The task `navigation`: what it learns, the same bits everywhere, uneven episodes, and files of mazes."""

import json

import pytest
from conftest import run, run_json

from engines import expect_one_model_on_every_engine

NAVIGATION = ["train", "--task", "navigation", "--size", "tiny"]
SHORT = [*NAVIGATION, "--workers", 3, "--steps", 7, "--batch", 20, "--evaluate-every", 7]

# What no agent reaches that sees only the cell where it stands: 0.66 to 0.74 with three seeds.
BLIND = 0.78


def test_tiny_learns(torch):
    result = run_json(*NAVIGATION, "--workers", 4)
    assert result["metric"] == "SPL"
    assert result["quality"] > 0.8 > BLIND  # 0.88 to 0.90 with three seeds
    assert result["validation"] > 0.75
    assert result["figures"]["success"] > result["quality"]
    assert result["replicas_equal"]


@pytest.mark.parametrize(
    ("broken", "bound"),
    [
        (["--navigation.view", 1], BLIND),
        (["--noisy-workers", 4, "--steps", 100], 0.1),
        (["--steps", 1], 0.1),
    ],
    ids=["blind", "with_random_rewards", "untrained"],
)
def test_what_is_broken_does_not_come_close(torch, broken, bound):
    assert run_json(*NAVIGATION, "--workers", 4, *broken)["quality"] < bound


def test_every_engine_gives_the_same_model(torch, needs):
    needs("mpi", "sim")
    expect_one_model_on_every_engine(*NAVIGATION, "--steps", 6, "--batch", 20, "--bucket-kib", 8)


@pytest.mark.parametrize("algorithm", ["adacons", "wagma", "flock", "adpsgd"])
def test_every_kind_of_algorithm_trains_it(torch, algorithm):
    train = [*NAVIGATION, "--workers", 4, "--steps", 200, "--algorithm", algorithm, "--deterministic"]
    result = run_json(*train, "--compute-ms", 10, "--evaluate-every", 200)
    assert result["quality"] > 0.4  # an untrained policy has 0.02
    assert result["replicas_equal"]


@pytest.mark.parametrize("algorithm", ["mean", "local_sgd"])
def test_a_resumed_run_ends_on_the_same_bits_in_the_middle_of_a_rollout(torch, tmp_path, algorithm):
    train = [*SHORT, "--algorithm", algorithm, "--navigation.schedule", "constant", "--checkpoint-every", 3]
    whole = run_json(*train, "--out", tmp_path / "whole")
    run_json(*train, "--steps", 3, "--out", tmp_path / "parts")  # a rollout is for four
    resumed = run_json(*train, "--resume", "--out", tmp_path / "parts")
    assert resumed["steps"] == 7
    assert resumed["model_hash"] == whole["model_hash"]


def test_a_run_goes_on_with_fewer_workers(torch, tmp_path):
    run_json(*SHORT, "--steps", 3, "--checkpoint-every", 3, "--out", tmp_path)
    fewer = [*NAVIGATION, "--workers", 2, "--steps", 7, "--batch", 20, "--evaluate-every", 7]
    assert run_json(*fewer, "--checkpoint-every", 3, "--resume", "--out", tmp_path)["steps"] == 7


def test_simulated_steps_are_as_uneven_as_episodes(torch, needs, tmp_path):
    needs("sim")
    train = [*NAVIGATION, "--workers", 4, "--steps", 40, "--evaluate-every", 40, "--engine", "sim", "--compute-ms", 100]
    run_json(*train, "--out", tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    times = [line["seconds"] for line in lines if line["kind"] == "step"]
    assert len(times) == 40
    collecting = times[::4]
    learning = [seconds for step, seconds in enumerate(times) if step % 4]
    for alike in [collecting, learning]:  # were episodes even, so would these be
        assert max(alike) > 2 * min(alike)


def test_options_of_the_task_have_short_flags(torch):
    short = run_json(*SHORT, "--shard", "skewed", "--noisy-workers", 1)
    long = ["--navigation.shard", "skewed", "--navigation.noisy_workers", 1]
    assert short["model_hash"] == run_json(*SHORT, *long)["model_hash"] != run_json(*SHORT)["model_hash"]


def test_mazes_are_read_and_bad_files_are_told(torch, tmp_path):
    (tmp_path / "train.txt").write_text("S.G\n\n#####\n#S.G#\n#####\n")
    (tmp_path / "test.txt").write_text("S.G\n")
    result = run_json(*SHORT, "--data", tmp_path, "--steps", 20)
    assert result["replicas_equal"]
    (tmp_path / "train.txt").write_text("S.G\n\nS?G\n")
    done = run(*SHORT, "--data", tmp_path, "--out", tmp_path / "out")
    assert done.returncode == 1
    assert done.stderr == f"flockstep: {tmp_path}/train.txt line 3: cell 2 is none of # . S G and blanks\n"
    assert not (tmp_path / "out").exists()


def test_wrong_calls_get_one_sentence(torch):
    for arguments, sentence in [
        (["--navigation.view", "4"], "--navigation.view takes an odd number, not '4'"),
        (["--batch", "3"], "a batch of 3 leaves some of 4 workers without a sample: use at least 4"),
    ]:
        done = run("train", "--task", "navigation", "--workers", 4, *arguments)
        assert done.returncode == 2
        assert sentence in done.stderr
        assert done.stderr.count("\n") == 1
