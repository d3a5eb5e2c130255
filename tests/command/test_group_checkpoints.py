"""Checkpoints of averaging in groups, and what goes on from them, through the command."""

import pytest
from conftest import run_json

GROUPS = ["wagma", "flock"]
TRAIN = ["train", "--task", "linear", "--workers", 3, "--checkpoint-every", 10]


@pytest.mark.parametrize("algorithm", GROUPS)
def test_a_run_that_waits_for_all_resumes_to_the_same_bits(tmp_path, algorithm):
    """Every round is fresh, so that nothing depends on who came first; what a guard has heard would."""
    train = [*TRAIN, "--algorithm", algorithm, f"--{algorithm}.activation", "quorum", f"--{algorithm}.quorum", 3]
    train += [f"--{algorithm}.guard", "off"]
    whole = run_json(*train, "--steps", 60, "--out", tmp_path / "whole")
    parts = ["--out", tmp_path / "parts"]
    run_json(*train, "--steps", 30, *parts)
    resumed = run_json(*train, "--steps", 60, *parts, "--resume")
    assert resumed["steps"] == 60
    assert resumed["replicas_equal"]
    assert resumed["model_hash"] == whole["model_hash"]


@pytest.mark.thorough
@pytest.mark.parametrize("algorithm", GROUPS)
@pytest.mark.parametrize("engine", [["threads"], ["threads", "--deterministic"], ["sim"]], ids=" ".join)
def test_a_run_that_waits_for_nobody_resumes_and_counts_every_step(needs, tmp_path, algorithm, engine):
    needs(engine[0])
    train = [*TRAIN, "--algorithm", algorithm, "--engine", *engine, "--out", tmp_path / "run"]
    uneven = ["--compute-ms", 1, "--jitter", "lognormal:0.5"]
    half = run_json(*train, *uneven, "--steps", 30)
    resumed = run_json(*train, *uneven, "--steps", 60, "--resume")
    assert resumed["steps"] == 60
    assert resumed["replicas_equal"]
    assert resumed["quality"] != half["quality"]


@pytest.mark.thorough
@pytest.mark.parametrize("period", [1, 7, 100])
def test_averages_under_way_are_in_the_checkpoint(needs, tmp_path, period):
    """Checkpoints lie within periods, before the first average, and where one is under way; virtual time is the same."""
    needs("sim")
    train = [*TRAIN, "--algorithm", "local_sgd", "--local_sgd.overlap", "on", "--local_sgd.period", period]
    train += [
        "--local_sgd.guard",
        "off",
        "--engine",
        "sim",
        "--compute-ms",
        1,
        "--bandwidth-gbps",
        0.001,
        "--evaluate-every",
        20,
    ]
    whole = run_json(*train, "--steps", 40, "--out", tmp_path / "whole")
    parts = ["--out", tmp_path / "parts"]
    run_json(*train, "--steps", 20, *parts)
    resumed = run_json(*train, "--steps", 40, *parts, "--resume")
    assert resumed["replicas_equal"]
    assert resumed["model_hash"] == whole["model_hash"]


@pytest.mark.thorough
@pytest.mark.parametrize("algorithm", GROUPS)
def test_a_run_goes_on_with_another_number_of_workers(tmp_path, algorithm):
    train = [*TRAIN, "--batch", 60, "--algorithm", algorithm, "--out", tmp_path / "run"]
    run_json(*train, "--steps", 30)
    resumed = run_json(*train, "--workers", 5, "--steps", 60, "--resume")
    assert (resumed["workers"], resumed["steps"], resumed["replicas_equal"]) == (5, 60, True)
