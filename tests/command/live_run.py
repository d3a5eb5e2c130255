"""Runs that go on while a test looks at them, and what they leave in their folders."""

import json
import os
import pty
import resource
import subprocess
import time
from contextlib import contextmanager

from conftest import COMMAND, command_line, expect_documented
from paths import HANG_S


def wait_until(is_so, what, process=None):
    """Waits for an event, which the process brings about if one is given."""
    deadline = time.monotonic() + HANG_S
    while not is_so():
        assert time.monotonic() < deadline, what
        assert process is None or process.poll() is None, f"the run has ended before {what}: {process.communicate()}"
        time.sleep(0.01)


@contextmanager
def live_run(*arguments, workers=0):
    """The command as a process that does not outlive the test; under mpirun when `workers` is given."""
    process = subprocess.Popen(
        command_line(arguments, workers),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=60)


def outcome_of(process, number=None):
    """Sends the signal if one is given. Returns exit code, standard output and standard error of the process."""
    if number is not None:
        process.send_signal(number)
    stdout, stderr = process.communicate(timeout=HANG_S)  # returns only when children have let go of the pipes, too
    return process.returncode, stdout, stderr


def end_of(process, number=None):
    """The outcome of a process that says nothing but the command's own words: a failure has to be a documented one."""
    code, stdout, stderr = outcome_of(process, number)
    if code > 0:
        expect_documented(code, stdout, stderr)
    return code, stdout, stderr


def threads_of(process_id):
    try:
        return len(os.listdir(f"/proc/{process_id}/task"))
    except FileNotFoundError:  # it has ended meanwhile
        return 0


def shown_on_a_terminal(*arguments):
    """What the command writes to standard error where that is a terminal."""
    ours, its = pty.openpty()
    child = subprocess.Popen([COMMAND, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=its)
    os.close(its)
    shown = b""
    try:
        while piece := os.read(ours, 4096):
            shown += piece
    except OSError:  # no process has the other end any more
        pass
    os.close(ours)
    assert child.wait(timeout=HANG_S) == 0
    return shown.decode()


def with_memory(kib):
    """A keyword of run(): the command gets this much address space."""
    return {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_AS, (1024 * kib, 1024 * kib))}


def lines_of(out, kind=None):
    """The lines of a run's metrics, or those of one kind."""
    lines = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
    return [line for line in lines if kind in (None, line["kind"])]


def steps_of(out):
    return [line["step"] for line in lines_of(out, "step")]


def generations(out):
    """The checkpoints in a run's folder, the newest first."""
    return json.loads((out / "checkpoint" / "latest").read_text())["generations"]


def newest_step(out):
    """The step of the newest checkpoint in a run's folder, -1 where there is none."""
    try:
        return generations(out)[0]["step"]
    except FileNotFoundError:
        return -1


def has_begun(out):
    """Steps are being taken: the first ones are in the metrics."""
    metrics = out / "metrics.jsonl"
    return lambda: metrics.exists() and '"kind":"step"' in metrics.read_text()
