"""A run's folder belongs to one process, or to one mpirun, at a time."""

import json
import signal

import pytest
from conftest import refused, run
from live_run import end_of, live_run, newest_step, wait_until

SLOW = ["--steps", 100000, "--compute-ms", 5, "--evaluate-every", 5]
CHECKPOINTS = ["--checkpoint-every", 5]
SENTENCE = "another call is writing to"


def expect_whole_lines(out):
    """No line of the metrics was written over: what another process appends shows as a line that is no JSON."""
    text = (out / "metrics.jsonl").read_text()
    steps = [json.loads(line)["step"] for line in text.splitlines(keepends=True) if line.endswith("\n")]
    assert steps == sorted(steps)


@pytest.mark.parametrize("workers", [0, 2], ids=["threads", "mpi"])
def test_resuming_a_live_run_is_refused_and_does_no_harm(tmp_path, workers):
    call = ["train", *SLOW, *CHECKPOINTS, "--out", tmp_path]
    with live_run(*call, workers=workers) as first:
        wait_until(lambda: newest_step(tmp_path) > 0, "its first checkpoint", first)
        refused(*call, "--resume", workers=workers, names=SENTENCE)
        before = newest_step(tmp_path)
        wait_until(lambda: newest_step(tmp_path) > before, "the next checkpoint", first)
    expect_whole_lines(tmp_path)


def test_two_runs_that_start_at_once_do_not_share_a_folder(tmp_path):
    metrics = tmp_path / "metrics.jsonl"
    with live_run("train", *SLOW, "--out", tmp_path) as first:
        wait_until(metrics.exists, "its first metrics", first)
        metrics.rename(tmp_path / "aside")  # as before the first has written anything
        refused("train", *SLOW, "--out", tmp_path, names=SENTENCE)
        assert not metrics.exists()


def test_the_lock_is_gone_with_a_killed_run(tmp_path):
    with live_run("train", *SLOW, *CHECKPOINTS, "--out", tmp_path) as first:
        wait_until(lambda: newest_step(tmp_path) > 0, "its first checkpoint", first)
        end_of(first, signal.SIGKILL)
    done = run("train", "--steps", newest_step(tmp_path) + 5, "--out", tmp_path, "--resume")
    assert done.returncode == 0, done.stderr
    expect_whole_lines(tmp_path)


def test_runs_of_a_comparison_are_locked_and_end_with_it(tmp_path, without_pictures):
    out = tmp_path / "runs" / "mean-seed-1"
    arguments = ["--engine", "sim", "--steps", 1000000, "--evaluate-every", 50, "--checkpoint-every", 50]
    with live_run("compare", "--algorithms", "mean", *arguments, "--out", tmp_path) as comparison:
        wait_until(lambda: newest_step(out) > 0, "its first checkpoint", comparison)
        refused("train", *arguments, "--out", out, "--resume", names=SENTENCE)
        end_of(comparison, signal.SIGKILL)
    done = run("train", *arguments, "--steps", newest_step(out), "--out", out, "--resume")
    assert done.returncode == 0, done.stderr
