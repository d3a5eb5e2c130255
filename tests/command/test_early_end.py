"""Ctrl-C, SIGTERM and SIGUSR1 end a run early, after the same step on every worker, with a checkpoint to go on from."""

import functools
import json
import os
import re
import signal
import time
from pathlib import Path

import pytest
from conftest import COMMAND, run_json
from layers import only
from live_run import end_of, has_begun, live_run, newest_step, steps_of, threads_of, wait_until
from test_mpi_failures import processes_by_rank

SLOW = ["--compute-ms", 5, "--evaluate-every", 20]
FAR = 1000000
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGUSR1: 143}


def ended_early(out, *call, number, to=None, **here):
    """Sends a signal to a process of the run, once steps are taken. Returns what the one sentence says, and its step."""
    with live_run(*call, "--steps", FAR, "--out", out, **here) as process:
        wait_until(has_begun(out), "its first metrics", process)
        os.kill(to(process.pid) if to else process.pid, number)
        code, stdout, stderr = end_of(process)
    assert (code, stdout) == (CODES[number], ""), stderr
    (step,) = re.findall(r"flockstep: stopped by (?:a signal|Ctrl-C) after step (\d+) of", stderr)
    return stderr, int(step)


def expect_resumable(out, step, train, **here):
    """The checkpoint is that of the step, all of whose lines are there, and the run goes on from it."""
    assert newest_step(out) == step
    assert steps_of(out) == list(range(1, step + 1))
    assert not (out / "summary.json").exists()
    resumed = run_json(*train, "--steps", step + 7, "--out", out, "--resume", **here)
    assert steps_of(out) == list(range(1, step + 8))
    return resumed


def expect_the_same_bits(resumed, *train):
    assert resumed["model_hash"] == run_json(*train, "--steps", resumed["steps"])["model_hash"]


@pytest.mark.parametrize("number", CODES, ids=lambda number: number.name)
@pytest.mark.parametrize("engine", ["threads", "threads --deterministic", "sim"])
def test_a_signal_ends_a_run_early_and_it_resumes_to_the_same_bits(tmp_path, engine, number):
    train = ["train", "--workers", 3, "--algorithm", "local_sgd", "--engine", *engine.split()]
    told, step = ended_early(tmp_path, *train, *SLOW, number=number)
    assert told.count("\n") == 1
    assert f"the same command with --resume continues from the checkpoint in {tmp_path}" in told
    expect_the_same_bits(expect_resumable(tmp_path, step, train), *train)


@pytest.mark.parametrize(
    "algorithm", only("flock", of=["mean", "eager_majority", "wagma", "flock", "adpsgd", "sgp", "swarm"])
)
def test_workers_that_wait_for_nobody_agree_on_the_last_step(tmp_path, algorithm):
    train = ["train", "--workers", 4, "--algorithm", algorithm]
    uneven = ["--compute-ms", 2, "--jitter", "lognormal:1", "--evaluate-every", 20]
    _, step = ended_early(tmp_path, *train, *uneven, number=signal.SIGTERM)
    expect_resumable(tmp_path, step, train)


@pytest.mark.parametrize("algorithm", only("mean", of=["mean", "local_sgd", "wagma"]))
@pytest.mark.parametrize("victim", only(2, of=[0, 2, "mpirun"]))
def test_under_mpirun_a_signal_to_one_worker_ends_all(tmp_path, algorithm, victim):
    train = ["train", "--algorithm", algorithm]
    one = None if victim == "mpirun" else lambda launcher: processes_by_rank(launcher)[victim]
    _, step = ended_early(tmp_path, *train, *SLOW, number=signal.SIGUSR1, to=one, workers=3)
    resumed = expect_resumable(tmp_path, step, train, workers=3)
    if algorithm != "wagma":
        expect_the_same_bits(resumed, *train, "--workers", 3)


@pytest.mark.thorough
def test_mpirun_that_is_terminated_leaves_a_checkpoint_or_an_older_one(tmp_path):
    """Its one second may be too short on a busy machine: then the last checkpoint is what there is."""
    train = ["train", "--checkpoint-every", 10]
    with live_run(*train, *SLOW, "--steps", FAR, "--out", tmp_path, workers=2) as process:
        wait_until(lambda: newest_step(tmp_path) > 0, "its first checkpoint", process)
        code, _, stderr = end_of(process, signal.SIGTERM)
    assert code != 0
    step = newest_step(tmp_path)
    if "stopped by a signal" in stderr:
        assert f"after step {step} of" in stderr
    assert run_json(*train, "--steps", step + 7, "--out", tmp_path, "--resume", workers=2)["steps"] == step + 7


@pytest.mark.parametrize("algorithm", only("flock", of=["mean", "flock"]))
@pytest.mark.parametrize("victim", only(2, of=[0, 2]))
def test_on_mesh_a_signal_to_one_worker_ends_all(tmp_path, algorithm, victim):
    train = ["train", "--algorithm", algorithm]
    launch = ["launch", "--workers", 3, "--restarts", 0, "--", COMMAND]
    one = functools.partial(worker_of_rank, rank=victim)
    _, step = ended_early(tmp_path, *launch, *train, *SLOW, number=signal.SIGUSR1, to=one)
    expect_resumable(tmp_path, step, [*train, "--workers", 3])


def worker_of_rank(launcher, rank):
    (found,) = [
        child
        for child in map(int, Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split())
        if f"FLOCKSTEP_RANK={rank}" in Path(f"/proc/{child}/environ").read_text().split("\0")
    ]
    return found


@pytest.mark.parametrize(
    "measure", ["bench straggler --steps 60", "calibrate --workers 2 --megabytes 1 --rounds 100000"]
)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_measurement_ends_at_once_and_without_figures(measure, number):
    with live_run(*measure.split()) as process:
        wait_until(lambda: threads_of(process.pid) > 2, "its workers", process)
        code, stdout, stderr = end_of(process, number)
    assert (code, stdout) == (CODES[number], "")
    assert stderr.startswith(f"flockstep: ended by {'Ctrl-C' if number == signal.SIGINT else 'SIGTERM'}")
    assert stderr.count("\n") == 1


def test_a_second_ctrl_c_ends_at_once(tmp_path):
    with live_run("train", "--compute-ms", 600000, "--steps", 2, "--out", tmp_path) as process:
        wait_until(lambda: threads_of(process.pid) > 4, "its workers", process)
        wait_until(lambda: (tmp_path / "metrics.jsonl").exists(), "its first evaluation", process)
        while process.poll() is None:  # two that come close together may be one
            process.send_signal(signal.SIGINT)
            time.sleep(0.05)
        code, _, stderr = end_of(process)
    assert code == 130
    assert stderr.startswith("flockstep: ended by Ctrl-C")


@pytest.mark.parametrize("option", ["--json", "--deadline=30"])
def test_a_run_without_a_folder_ends_early_too(option):
    with live_run("train", *SLOW, "--steps", FAR, option) as process:
        wait_until(lambda: threads_of(process.pid) == 5, "its workers", process)
        code, stdout, stderr = end_of(process, signal.SIGUSR1)
    assert code == 143
    if option == "--json":
        assert json.loads(stdout)["interrupted"]
    else:
        assert "without --out there is no checkpoint to resume from" in stderr


def test_a_signal_before_the_first_step_of_a_resumed_run_keeps_its_checkpoint(tmp_path):
    train = ["train", "--workers", 2, "--out", tmp_path]
    run_json(*train, "--steps", 10, "--checkpoint-every", 5)
    before = (tmp_path / "checkpoint" / "latest").read_bytes()
    with live_run(*train, "--steps", FAR, "--compute-ms", 2000, "--resume") as process:
        wait_until(lambda: threads_of(process.pid) > 2, "its workers", process)
        _, _, stderr = end_of(process, signal.SIGUSR1)
    step = int(re.search(r"after step (\d+) of", stderr)[1])
    assert step in (10, 11)
    assert (before == (tmp_path / "checkpoint" / "latest").read_bytes()) == (step == 10)
