"""Training with many workers in virtual time: real gradients, the same bits each time, within the memory there is."""

import os
import pty
import subprocess

import pytest
from conftest import COMMAND, run, run_json
from paths import HANG_S

pytestmark = pytest.mark.thorough

MANY = ["train", "--engine", "sim", "--workers", 64, "--compute", "lognormal:100ms:0.5", "--platform", "ethernet-10g"]


@pytest.mark.parametrize("algorithm", ["adacons", "flock"])
def test_64_workers_learn_and_two_runs_give_the_same_bits_and_times(needs, algorithm):
    needs("sim")
    train = [*MANY, "--task", "images", "--batch", 256, "--steps", 40, "--algorithm", algorithm]
    first, second = (run_json(*train, "--evaluate-every", 40) for _ in range(2))
    assert first["model_hash"] == second["model_hash"]
    assert first["time_s"] == second["time_s"]
    assert first["replicas_equal"]
    accuracy = [evaluation["quality"] for evaluation in first["evaluations"]]
    assert accuracy[0] < 0.2
    assert accuracy[-1] > 0.5
    assert 0 < first["share_of_ideal"] < 1


def test_64_workers_train_a_residual_network(needs, torch):
    needs("sim")
    train = [*MANY, "--task", "vision", "--batch", 128, "--steps", 3, "--algorithm", "wagma", "--evaluate-every", 3]
    first, second = (run_json(*train) for _ in range(2))
    assert first["model_hash"] == second["model_hash"]
    assert first["time_s"] == second["time_s"]


def test_what_cannot_fit_in_memory_is_refused_before_it_starts(needs):
    needs("sim")
    large = ["--workers", 4096, "--linear.dimension", 40000000]
    for engine, way in (("sim", ", or --no-gradients"), ("threads", "")):
        done = run("train", "--engine", engine, *large)
        assert done.returncode == 2
        assert done.stderr.startswith("flockstep: 4096 workers need 1.97 TB of memory, and ")
        assert " are free: use up to " in done.stderr or " are free: use a smaller model" in done.stderr
        assert done.stderr.endswith(f"{way}\n")
        assert done.stderr.count("\n") == 1
        assert not done.stdout


def test_matrices_of_all_pairs_that_cannot_fit_are_refused(needs):
    needs("sim")
    done = run("train", "--engine", "sim", "--workers", 4096, "--no-gradients", "--algorithm", "direction_consensus")
    assert done.returncode == 2
    assert done.stderr.startswith("flockstep: 4096 workers need 550 GB of memory, and ")
    assert done.stderr.endswith(" workers, or an --algorithm that does not compare every pair of them\n")
    assert done.stderr.count("\n") == 1


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


def test_a_limit_of_the_shell_counts_as_the_memory_there_is(needs):
    needs("sim")
    train = "train --engine sim --workers 1024 --no-gradients --algorithm direction_consensus --steps 2"
    limited = ["bash", "-c", f"ulimit -v 3000000; exec {COMMAND} {train}"]
    done = subprocess.run(limited, capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("flockstep: 1024 workers need 8.61 GB of memory, and ")
    assert done.stderr.endswith(" workers, or an --algorithm that does not compare every pair of them\n")


def on_a_terminal(*arguments):
    """What the command writes to standard error where that is a terminal."""
    ours, its = pty.openpty()
    child = subprocess.Popen([COMMAND, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=its)
    os.close(its)
    seen = b""
    try:
        while piece := os.read(ours, 4096):
            seen += piece
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    assert child.wait(timeout=HANG_S) == 0
    return seen.decode()


def test_a_terminal_sees_how_far_set_up_and_steps_are_and_a_pipe_nothing(needs):
    needs("sim")
    train = ["train", "--engine", "sim", "--workers", 16, "--steps", 5, "--algorithm", "sgp"]
    seen = on_a_terminal(*train)
    assert "sgp, setting up [##############################] 16/16 workers" in seen
    assert "sgp [##############################] 5/5 steps" in seen
    compared = on_a_terminal("compare", *train[1:7], "--algorithms", "mean,sgp")
    assert "mean [##############################] 5/5 steps" in compared
    assert run(*train).stderr == ""
