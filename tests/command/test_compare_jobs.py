"""Comparisons whose runs are made several at a time, each in a process of its own."""

import os
import signal
from pathlib import Path

import pytest
from conftest import refused, run, run_json
from live_run import end_of, live_run, threads_of, wait_until

pytestmark = pytest.mark.usefixtures("without_pictures")
TWO = ["compare", "--algorithms", "mean,local_sgd", "--workers", 2]
LONG = [*TWO, "--steps", 100000, "--compute-ms", 5]


def children_of(process, count=None):
    """The ids of its children; of `count` of them once all have begun to train."""
    file = Path(f"/proc/{process.pid}/task/{process.pid}/children")

    def children():
        return [int(child) for child in file.read_text().split()]

    def are_training():  # a worker is a thread: the command's own and two more
        return len(children()) == count and all(threads_of(child) > 2 for child in children())

    if count:
        wait_until(are_training, "its children", process)
    return children()


def expect_the_end_of(children):
    wait_until(lambda: not any(Path(f"/proc/{child}").exists() for child in children), "the end of its children")


@pytest.mark.parametrize("engine", ["threads", "sim"])
def test_results_do_not_depend_on_the_number_of_jobs(tmp_path, engine):
    call = ["compare", "--engine", engine, "--algorithms", "mean,local_sgd,wagma", "--workers", 3, "--seeds", 2]
    call += ["--steps", 30, "--compute-ms", 10, "--straggler", "1x30ms", "--batch", "12,24"]
    call += ["--deterministic"] if engine == "threads" else []
    assert run_json(*call, "--jobs", 3) == run_json(*call)
    for jobs in (1, 4):
        done = run(*call, "--jobs", jobs, "--out", tmp_path / str(jobs))
        assert (done.returncode, done.stderr) == (0, "")
    one, four = ((tmp_path / jobs / "compare.json").read_bytes() for jobs in ("1", "4"))
    assert one == four
    # What one made the other takes up.
    again = run(*call, "--jobs", 2, "--out", tmp_path / "1")
    assert again.stderr == "flockstep: 12 of 12 runs were already done\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_comparison_that_is_ended_leaves_no_process_and_can_go_on(tmp_path, number):
    call = [*LONG, "--evaluate-every", 20, "--seeds", 2, "--out", tmp_path, "--jobs", 3]
    with live_run(*call) as process:
        children = children_of(process, 3)
        code, stdout, stderr = end_of(process, number)
    expect_the_end_of(children)
    assert (code, stderr) == ({signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}[number], "")
    assert ("The same command again continues from there." in stdout) == (number != signal.SIGKILL)
    assert stdout.count("and has no row.") == (0 if number == signal.SIGKILL else 3)
    assert len(list(tmp_path.glob("runs/*/request.json"))) == 3
    with live_run(*call) as process:  # nothing is done, and the fourth run has not begun
        children = children_of(process, 3)
        refused(*call, names=f"another call is writing to {tmp_path}: wait until it has ended, or choose another --out")
        assert children_of(process, 3) == children, "the first is not disturbed"
        code, _, stderr = end_of(process, signal.SIGINT)
    assert (code, stderr) == (130, "")
    expect_the_end_of(children)


def test_a_run_that_is_lost_ends_the_others():
    with live_run(*LONG, "--seeds", 3, "--jobs", 3) as process:
        children = children_of(process, 3)
        os.kill(children[1], signal.SIGKILL)
        code, stdout, stderr = end_of(process)
    assert (code, stdout) == (1, "")
    assert stderr == "flockstep: the run of local_sgd, seed 1 (2 of 6) ended with code 137\n"
    expect_the_end_of(children)


def test_runs_that_fail_alike_say_so_once():
    call = ["compare", "--algorithms", "mean", "--workers", 2, "--steps", 10, "--seeds", 4, "--jobs", 4]
    done = run(*call, "--straggler-fixed", "1:2s", "--deadline", 0.2)
    assert done.returncode == 1
    assert done.stderr.count("worker 1 has not arrived at all_to_all") == 1
    assert done.stderr.count("\n") == 2
    assert "ended with code 1" in done.stderr


def test_slept_compute_overlaps(tmp_path):
    call = ["compare", "--algorithms", "mean", "--workers", 2, "--steps", 10, "--seeds", 4, "--compute-ms", 200]
    row = run_json(*call, "--jobs", 4, "--out", tmp_path)["cases"][0]["rows"][0]
    assert row["time_s"]["min"] >= 10 * 0.2
    begun = [path.stat().st_mtime for path in tmp_path.glob("runs/*/request.json")]
    assert len(begun) == 4
    assert max(begun) < min(path.stat().st_mtime for path in tmp_path.glob("runs/*/summary.json"))
