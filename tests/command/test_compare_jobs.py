"""Comparisons whose runs are made several at a time, each in a process of its own."""

import contextlib
import json
import os
import pty
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import COMMAND, run, run_json
from paths import HANG_S

pytestmark = pytest.mark.usefixtures("without_pictures")
LONG = ["compare", "--algorithms", "mean,local_sgd", "--workers", "2", "--steps", "100000", "--compute-ms", "5"]


def start(*arguments):
    return subprocess.Popen([COMMAND, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def threads_of(process_id):
    try:
        return len(os.listdir(f"/proc/{process_id}/task"))
    except FileNotFoundError:  # it has ended meanwhile
        return 0


def children_of(process, count):
    """The process ids of its `count` children, once all of them have begun to train."""
    deadline = time.monotonic() + HANG_S
    while True:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        # A worker is a thread: the command's own and two more.
        if len(children) == count and all(threads_of(child) > 2 for child in children):
            return [int(child) for child in children]
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def kill_children_until_it_ends(process):
    """Whichever they are: while we look, a run may end and another begin."""
    deadline = time.monotonic() + HANG_S
    while process.poll() is None:
        with contextlib.suppress(OSError):  # it, or the child, has ended meanwhile
            for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
                os.kill(int(child), signal.SIGKILL)
        assert time.monotonic() < deadline
        time.sleep(0.005)


def wait_for_a_summary(out, process):
    deadline = time.monotonic() + HANG_S
    while not list(out.glob("runs/*/summary.json")):
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)


def are_gone(children):
    """Whether all of them have ended, within a moment."""
    deadline = time.monotonic() + HANG_S
    while any(Path(f"/proc/{child}").exists() for child in children):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


@pytest.mark.parametrize("engine", ["threads", "sim"])
def test_results_do_not_depend_on_the_number_of_jobs(needs, tmp_path, engine):
    needs(engine)
    call = ["compare", "--engine", engine, "--algorithms", "mean,local_sgd,wagma", "--workers", 3, "--seeds", 2]
    call += ["--steps", 30, "--compute-ms", 10, "--straggler", "1x30ms", "--batch", "12,24"]
    call += ["--deterministic"] if engine == "threads" else []
    expected = run_json(*call)
    assert run_json(*call, "--jobs", 3) == expected
    for jobs in (1, 4):
        done = run(*call, "--jobs", jobs, "--out", tmp_path / str(jobs))
        assert done.returncode == 0
        assert done.stderr == ""
    one, four = ((tmp_path / jobs / "compare.json").read_bytes() for jobs in ("1", "4"))
    assert one == four
    # What one made the other takes up.
    again = run(*call, "--jobs", 2, "--out", tmp_path / "1")
    assert again.stderr == "flockstep: 12 of 12 runs were already done\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_comparison_that_is_ended_leaves_no_process_and_can_go_on(tmp_path, number):
    out = tmp_path / "comparison"
    call = [*LONG, "--evaluate-every", 20, "--seeds", 2, "--out", out, "--jobs", 3]
    process = start(*call)
    children = children_of(process, 3)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=HANG_S)
    assert are_gone(children)
    assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}[number]
    assert stderr == ""
    assert ("The same command again continues from there." in stdout) == (number != signal.SIGKILL)
    assert stdout.count("and has no row.") == (0 if number == signal.SIGKILL else 3)
    assert len(list(out.glob("runs/*/request.json"))) == 3
    # Nothing is done; the fourth run has not begun.
    process = start(*call)
    children = children_of(process, 3)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=HANG_S)
    assert process.returncode == 130, stderr
    assert stderr == ""
    assert are_gone(children)


def test_a_second_call_on_the_same_folder_is_refused_while_the_first_is_under_way(tmp_path):
    out = tmp_path / "comparison"
    call = [*LONG, "--evaluate-every", 20, "--seeds", 2, "--out", out, "--jobs", 2]
    process = start(*call)
    children = children_of(process, 2)
    second = run(*call)
    assert second.returncode == 2
    assert second.stderr == (
        f"flockstep: another call is writing to {out}: wait until it has ended, or choose another --out\n"
    )
    assert children_of(process, 2) == children, "the first is not disturbed"
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=HANG_S)
    assert process.returncode == 130, stderr


def test_an_interrupted_comparison_goes_on_to_the_same_figures(tmp_path):
    call = ["compare", "--algorithms", "mean,local_sgd", "--workers", 2, "--steps", 1500, "--seeds", 2]
    call += ["--deterministic", "--compute-ms", 10, "--evaluate-every", 50]  # a clock that gives the same each time
    whole = run_json(*call)
    out = tmp_path / "comparison"
    process = start(*call, "--out", out, "--jobs", 2)
    wait_for_a_summary(out, process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=HANG_S)
    assert process.returncode == 130
    kept = json.loads((out / "compare.json").read_text())
    assert kept["interrupted"]
    assert any(row["runs"] for row in kept["cases"][0]["rows"])
    again = run(*call, "--out", out, "--jobs", 2, "--json")
    assert "of 4 runs were already done" in again.stderr
    assert again.stderr.count("\n") == 1
    result = json.loads(again.stdout)
    for row in result["cases"][0]["rows"]:
        row["folders"] = []  # as without --out
    assert result == whole


def test_a_run_that_is_lost_ends_the_others():
    process = start(*LONG, "--seeds", 3, "--jobs", 3)
    children = children_of(process, 3)
    os.kill(children[1], signal.SIGKILL)
    stdout, stderr = process.communicate(timeout=HANG_S)
    assert process.returncode == 1
    assert stderr == "flockstep: the run of local_sgd, seed 1 (2 of 6) ended with code 137\n"
    assert stdout == ""
    assert are_gone(children)


def test_what_was_done_before_a_run_was_lost_is_kept(tmp_path):
    out = tmp_path / "comparison"
    call = [*LONG, "--steps", 100, "--compute-ms", 10, "--seeds", 3, "--jobs", 2, "--out", out]
    process = start(*call)
    wait_for_a_summary(out, process)
    kill_children_until_it_ends(process)
    _, stderr = process.communicate(timeout=HANG_S)
    assert process.returncode == 1
    assert stderr.count("\n") == 1
    kept = list(out.glob("runs/*/summary.json"))
    again = run(*call)
    assert again.returncode == 0, again.stderr
    assert again.stderr == f"flockstep: {len(kept)} of 6 runs were already done\n"


def test_runs_that_fail_alike_say_so_once():
    call = ["compare", "--algorithms", "mean", "--workers", 2, "--steps", 10, "--seeds", 4, "--jobs", 4]
    done = run(*call, "--straggler-fixed", "1:2s", "--deadline", 0.2)
    assert done.returncode == 1
    assert done.stderr.count("worker 1 has not arrived at all_to_all") == 1
    assert done.stderr.count("\n") == 2
    assert "ended with code 1" in done.stderr


def test_slept_compute_overlaps(tmp_path, without_pictures):
    out = tmp_path / "comparison"
    call = ["compare", "--algorithms", "mean", "--workers", 2, "--steps", 10, "--seeds", 4, "--compute-ms", 200]
    row = run_json(*call, "--jobs", 4, "--out", out)["cases"][0]["rows"][0]
    assert row["time_s"]["min"] >= 10 * 0.2
    begun = [path.stat().st_mtime for path in out.glob("runs/*/request.json")]
    assert len(begun) == 4
    assert max(begun) < min(path.stat().st_mtime for path in out.glob("runs/*/summary.json"))


def test_jobs_do_not_go_with_mpirun(needs):
    needs("mpi")
    for workers in (1, 2):
        done = run("compare", "--steps", 10, "--jobs", 2, workers=workers)
        assert done.returncode != 0
        assert done.stderr.count("--jobs 2 starts a process for each run, which mpi does not allow") == 1
    assert run("compare", "--engine", "mpi", "--jobs", 2).returncode == 2
    assert run("compare", "--jobs", 0).returncode == 2


def test_a_terminal_is_told_how_many_runs_are_made():
    main, terminal = pty.openpty()
    call = ["compare", "--algorithms", "mean", "--workers", "2", "--steps", "10", "--seeds", "3", "--jobs", "2"]
    process = subprocess.Popen([COMMAND, *call], stdout=subprocess.DEVNULL, stderr=terminal)
    os.close(terminal)
    shown = b""
    while chunk := read_terminal(main):
        shown += chunk
    os.close(main)
    assert process.wait(timeout=HANG_S) == 0
    for made in range(4):
        assert f"] {made}/3 runs".encode() in shown
    assert b"steps" not in shown, "the runs themselves are silent"


def read_terminal(terminal):
    try:
        return os.read(terminal, 4096)
    except OSError:  # nobody writes to it any more
        return b""
