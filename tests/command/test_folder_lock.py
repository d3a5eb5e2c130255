"""A run's folder belongs to one process, or to one mpirun, at a time."""

import json
import signal

import pytest
from conftest import run
from live_run import live_run, newest_step, wait_until

SLOW = ["--steps", 100000, "--compute-ms", 5, "--evaluate-every", 5]
CHECKPOINTS = ["--checkpoint-every", 5]
SENTENCE = "another call is writing to"


def expect_whole_lines(out):
    """No line of the metrics was written over: what another process appends shows as a line that is no JSON."""
    text = (out / "metrics.jsonl").read_text()
    steps = [json.loads(line)["step"] for line in text.splitlines(keepends=True) if line.endswith("\n")]
    assert steps == sorted(steps)


@pytest.mark.parametrize("workers", [0, 2], ids=["threads", "mpi"])
def test_resuming_a_live_run_is_refused_and_does_no_harm(needs, tmp_path, workers):
    if workers:
        needs("mpi")
    out = tmp_path / "run"
    with live_run("train", *SLOW, *CHECKPOINTS, "--out", out, workers=workers) as first:
        wait_until(lambda: newest_step(out) > 0, first, "its first checkpoint")
        second = run("train", *SLOW, *CHECKPOINTS, "--out", out, "--resume", workers=workers)
        assert second.returncode == 2, second.stderr
        assert second.stderr.count(SENTENCE) == 1, second.stderr
        assert second.stdout == ""
        before = newest_step(out)
        wait_until(lambda: newest_step(out) > before, first, "the next checkpoint")
    expect_whole_lines(out)


def test_two_runs_that_start_at_once_do_not_share_a_folder(tmp_path):
    out = tmp_path / "run"
    with live_run("train", *SLOW, "--out", out) as first:
        wait_until((out / "metrics.jsonl").exists, first, "its first metrics")
        (out / "metrics.jsonl").rename(out / "aside")  # as before the first has written anything
        second = run("train", *SLOW, "--out", out)
        assert second.returncode == 2, second.stderr
        assert SENTENCE in second.stderr
        assert not (out / "metrics.jsonl").exists()


def test_the_lock_is_gone_with_a_killed_run(tmp_path):
    out = tmp_path / "run"
    with live_run("train", *SLOW, *CHECKPOINTS, "--out", out) as first:
        wait_until(lambda: newest_step(out) > 0, first, "its first checkpoint")
        assert SENTENCE in run("train", *SLOW, "--out", out, "--resume").stderr
        first.send_signal(signal.SIGKILL)
        first.wait()
    step = newest_step(out)
    done = run("train", "--steps", step + 5, "--out", out, "--resume")
    assert done.returncode == 0, done.stderr
    expect_whole_lines(out)


def test_runs_of_a_comparison_are_locked_and_end_with_it(needs, tmp_path, without_pictures):
    needs("sim")
    out = tmp_path / "comparison"
    run_folder = out / "runs" / "mean-seed-1"
    arguments = ["--engine", "sim", "--steps", 1000000, "--evaluate-every", 50, "--checkpoint-every", 50]
    with live_run("compare", "--algorithms", "mean", *arguments, "--out", out) as comparison:
        wait_until(lambda: newest_step(run_folder) > 0, comparison, "its first checkpoint")
        assert SENTENCE in run("train", *arguments, "--out", run_folder, "--resume").stderr
        comparison.send_signal(signal.SIGKILL)
        comparison.communicate()  # returns only when the child has let go of the pipes, too
    done = run("train", *arguments, "--steps", newest_step(run_folder), "--out", run_folder, "--resume")
    assert done.returncode == 0, done.stderr
