"""Training with many workers in virtual time: real gradients, the same bits each time, within the memory there is."""

import os
import subprocess

import pytest
from conftest import COMMAND, run_json

pytestmark = pytest.mark.thorough

MANY = ["--engine", "sim", "--workers", 64, "--compute", "lognormal:100ms:0.5", "--platform", "ethernet-10g"]


def trained_twice(*train):
    """The result, after a look at whether a second run ends on the same bits at the same time."""
    first, second = (run_json("train", *MANY, *train) for _ in range(2))
    assert first["model_hash"] == second["model_hash"]
    assert first["time_s"] == second["time_s"]
    return first


@pytest.mark.parametrize("algorithm", ["adacons", "flock"])
def test_64_workers_learn(algorithm):
    call = ["--task", "images", "--batch", 256, "--steps", 40, "--evaluate-every", 40, "--algorithm", algorithm]
    result = trained_twice(*call)
    assert result["replicas_equal"]
    accuracy = [evaluation["quality"] for evaluation in result["evaluations"]]
    assert accuracy[0] < 0.2
    assert accuracy[-1] > 0.5
    assert 0 < result["share_of_ideal"] < 1


def test_64_workers_train_a_residual_network(torch):
    trained_twice("--task", "vision", "--batch", 128, "--steps", 3, "--algorithm", "wagma", "--evaluate-every", 3)


def test_1024_workers_average_in_groups():
    result = trained_twice("--workers", 1024, "--steps", 3, "--algorithm", "wagma")
    assert result["workers"] == 1024


def test_what_a_rule_on_all_pairs_needs_is_what_is_counted(needs):
    """Two packed matrices on each worker: 1.08 GB at 512 workers."""
    needs("sim")
    largest = {}
    for algorithm in ("mean", "direction_consensus"):
        train = [COMMAND, "train", "--engine", "sim", "--workers", "512", "--no-gradients", "--steps", "2"]
        child = subprocess.Popen([*train, "--algorithm", algorithm], stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(child.pid, 0)
        assert status == 0
        largest[algorithm] = used.ru_maxrss * 1024
    counted = 512 * 2 * 8 * (512 * 513 / 2)
    assert largest["direction_consensus"] - largest["mean"] < 1.15 * counted
