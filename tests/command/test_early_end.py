"""Ctrl-C, SIGTERM and SIGUSR1 end a run early, after the same step on every worker, with a checkpoint to go on from."""

import json
import os
import re
import signal
import time
from pathlib import Path

import pytest
from conftest import COMMAND, run, run_json
from layers import only
from live_run import live_run, newest_step, wait_until
from paths import HANG_S
from test_mpi_failures import processes_by_rank

SLOW = ["--compute-ms", 5]
FAR = 1000000
ENDED_EARLY = 143


def lines_of(out):
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def has_begun(out):
    """Steps are being taken: the first ones are in the metrics."""
    metrics = out / "metrics.jsonl"
    return lambda: metrics.exists() and '"kind":"step"' in metrics.read_text()


def ended_after(stderr):
    """The step that the one sentence names."""
    (step,) = re.findall(r"flockstep: stopped by (?:a signal|Ctrl-C) after step (\d+) of", stderr)
    return int(step)


def expect_resumable(out, step, train, **here):
    """The checkpoint is that of the step, all of whose lines are there, and the run goes on from it."""
    assert newest_step(out) == step
    assert [line["step"] for line in lines_of(out) if line["kind"] == "step"] == list(range(1, step + 1))
    assert not (out / "summary.json").exists()
    resumed = run_json(*train, "--steps", step + 7, "--out", out, "--resume", **here)
    assert [line["step"] for line in lines_of(out) if line["kind"] == "step"] == list(range(1, step + 8))
    return resumed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1], ids=lambda number: number.name)
@pytest.mark.parametrize("engine", [["threads"], ["threads", "--deterministic"], ["sim"]], ids=" ".join)
def test_a_signal_ends_a_run_early_and_it_resumes_to_the_same_bits(needs, tmp_path, engine, number):
    needs(engine[0])
    out = tmp_path / "run"
    train = ["train", "--workers", 3, "--algorithm", "local_sgd", "--engine", *engine]
    with live_run(*train, *SLOW, "--steps", FAR, "--evaluate-every", 20, "--out", out) as process:
        wait_until(has_begun(out), process, "its first metrics")
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=HANG_S)
    assert process.returncode == (130 if number == signal.SIGINT else ENDED_EARLY), stderr
    assert stdout == ""
    assert stderr.count("\n") == 1
    assert f"the same command with --resume continues from the checkpoint in {out}" in stderr
    step = ended_after(stderr)
    resumed = expect_resumable(out, step, train)
    assert resumed["model_hash"] == run_json(*train, "--steps", step + 7)["model_hash"]


@pytest.mark.parametrize(
    "algorithm", only("flock", of=["mean", "eager_majority", "wagma", "flock", "adpsgd", "sgp", "swarm"])
)
def test_workers_that_wait_for_nobody_agree_on_the_last_step(tmp_path, algorithm):
    out = tmp_path / "run"
    train = ["train", "--workers", 4, "--algorithm", algorithm]
    uneven = ["--compute-ms", 2, "--jitter", "lognormal:1", "--evaluate-every", 20]
    with live_run(*train, *uneven, "--steps", FAR, "--out", out) as process:
        wait_until(has_begun(out), process, "its first metrics")
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=HANG_S)
    assert process.returncode == ENDED_EARLY, stderr
    expect_resumable(out, ended_after(stderr), train)


@pytest.mark.parametrize("algorithm", only("mean", of=["mean", "local_sgd", "wagma"]))
@pytest.mark.parametrize("victim", only(2, of=[0, 2, "mpirun"]))
def test_under_mpirun_a_signal_to_one_worker_ends_all(needs, tmp_path, algorithm, victim):
    needs("mpi")
    out = tmp_path / "run"
    train = ["train", "--algorithm", algorithm]
    with live_run(*train, *SLOW, "--steps", FAR, "--evaluate-every", 20, "--out", out, workers=3) as process:
        wait_until(has_begun(out), process, "its first metrics")
        os.kill(process.pid if victim == "mpirun" else processes_by_rank(process.pid)[victim], signal.SIGUSR1)
        _, stderr = process.communicate(timeout=HANG_S)
    assert process.returncode == ENDED_EARLY, stderr
    step = ended_after(stderr)
    resumed = expect_resumable(out, step, train, workers=3)
    if algorithm != "wagma":
        assert resumed["model_hash"] == run_json(*train, "--workers", 3, "--steps", step + 7)["model_hash"]


@pytest.mark.thorough
def test_mpirun_that_is_terminated_leaves_a_checkpoint_or_an_older_one(needs, tmp_path):
    """Its one second may be too short on a busy machine: then the last checkpoint is what there is."""
    needs("mpi")
    out = tmp_path / "run"
    train = ["train", "--checkpoint-every", 10]
    with live_run(*train, *SLOW, "--steps", FAR, "--out", out, workers=2) as process:
        wait_until(lambda: newest_step(out) > 0, process, "its first checkpoint")
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=HANG_S)
    assert process.returncode != 0
    step = newest_step(out)
    if "stopped by a signal" in stderr:
        assert step == ended_after(stderr)
    resumed = run_json(*train, "--steps", step + 7, "--out", out, "--resume", workers=2)
    assert resumed["steps"] == step + 7


@pytest.mark.parametrize("algorithm", only("flock", of=["mean", "flock"]))
@pytest.mark.parametrize("victim", only(2, of=[0, 2]))
def test_on_mesh_a_signal_to_one_worker_ends_all(needs, tmp_path, algorithm, victim):
    needs("mesh")
    out = tmp_path / "run"
    train = ["train", "--algorithm", algorithm]
    launch = ["launch", "--workers", 3, "--restarts", 0, "--", COMMAND]
    with live_run(*launch, *train, *SLOW, "--steps", FAR, "--evaluate-every", 20, "--out", out) as process:
        wait_until(has_begun(out), process, "its first metrics")
        os.kill(worker_of_rank(process.pid, victim), signal.SIGUSR1)
        _, stderr = process.communicate(timeout=HANG_S)
    assert process.returncode == ENDED_EARLY, stderr
    expect_resumable(out, ended_after(stderr), [*train, "--workers", 3])


def worker_of_rank(launcher, rank):
    (found,) = [
        child
        for child in map(int, Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split())
        if f"FLOCKSTEP_RANK={rank}" in Path(f"/proc/{child}/environ").read_text().split("\0")
    ]
    return found


@pytest.mark.parametrize(
    "measure",
    [["bench", "straggler", "--steps", 60], ["calibrate", "--workers", 2, "--megabytes", 1, "--rounds", 100000]],
    ids=lambda words: words[0],
)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["SIGINT", "SIGTERM"])
def test_a_measurement_ends_at_once_and_without_figures(measure, number, code):
    with live_run(*measure) as process:
        wait_until(lambda: len(os.listdir(f"/proc/{process.pid}/task")) > 2, process, "its workers")
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=HANG_S)
    assert process.returncode == code
    assert stdout == ""
    assert stderr.startswith(f"flockstep: ended by {'Ctrl-C' if code == 130 else 'SIGTERM'}")
    assert stderr.count("\n") == 1


def test_a_second_ctrl_c_ends_at_once(tmp_path):
    out = tmp_path / "run"
    with live_run("train", "--compute-ms", 600000, "--steps", 2, "--out", out) as process:
        wait_until(lambda: len(os.listdir(f"/proc/{process.pid}/task")) > 4, process, "its workers")
        wait_until(lambda: (out / "metrics.jsonl").exists(), process, "its first evaluation")
        deadline = time.monotonic() + HANG_S
        while process.poll() is None:  # two that come close together may be one
            assert time.monotonic() < deadline
            process.send_signal(signal.SIGINT)
            time.sleep(0.05)
        _, stderr = process.communicate(timeout=HANG_S)
    assert process.returncode == 130
    assert stderr.startswith("flockstep: ended by Ctrl-C")


def test_an_interrupted_result_says_so_in_json():
    with live_run("train", *SLOW, "--steps", FAR, "--json") as process:
        status = Path(f"/proc/{process.pid}/status")
        wait_until(lambda: "Threads:\t5" in status.read_text(), process, "its workers")
        process.send_signal(signal.SIGUSR1)
        stdout, _ = process.communicate(timeout=HANG_S)
    assert process.returncode == ENDED_EARLY
    assert json.loads(stdout)["interrupted"]


def test_a_run_without_a_folder_ends_early_too(tmp_path):
    with live_run("train", *SLOW, "--steps", FAR, "--deadline", 30) as process:
        status = Path(f"/proc/{process.pid}/status")
        wait_until(lambda: "Threads:\t5" in status.read_text(), process, "its workers")
        process.send_signal(signal.SIGUSR1)
        _, stderr = process.communicate(timeout=HANG_S)
    assert process.returncode == ENDED_EARLY
    assert "without --out there is no checkpoint to resume from" in stderr


def test_a_signal_before_the_first_step_of_a_resumed_run_keeps_its_checkpoint(tmp_path):
    out = tmp_path / "run"
    train = ["train", "--workers", 2, "--out", out]
    run_json(*train, "--steps", 10, "--checkpoint-every", 5)
    before = (out / "checkpoint" / "latest").read_bytes()
    with live_run(*train, "--steps", FAR, "--compute-ms", 2000, "--resume") as process:
        wait_until(lambda: len(os.listdir(f"/proc/{process.pid}/task")) > 2, process, "its workers")
        process.send_signal(signal.SIGUSR1)
        _, stderr = process.communicate(timeout=HANG_S)
    step = ended_after(stderr)
    assert step in (10, 11)
    assert (before == (out / "checkpoint" / "latest").read_bytes()) == (step == 10)


@pytest.mark.thorough
def test_a_comparison_that_is_terminated_keeps_what_is_done(needs, tmp_path, without_pictures):
    needs("sim")
    out = tmp_path / "comparison"
    arguments = ["compare", "--engine", "sim", "--algorithms", "mean,local_sgd", "--seeds", 1, "--out", out]
    with live_run(*arguments, "--steps", 4000, "--evaluate-every", 50) as process:
        wait_until((out / "runs" / "local_sgd-seed-1" / "metrics.jsonl").exists, process, "its second run")
        process.send_signal(signal.SIGTERM)
        stdout, _ = process.communicate(timeout=HANG_S)  # returns only when the child has let go of the pipes, too
    assert process.returncode == 143
    assert "The same command again continues from there" in stdout
    assert [row["algorithm"] for row in json.loads((out / "compare.json").read_text())["cases"][0]["rows"]] == ["mean"]
    again = run(*arguments, "--steps", 4000, "--evaluate-every", 50)
    assert again.returncode == 0
    assert "1 of 2 runs were already done" in again.stderr
