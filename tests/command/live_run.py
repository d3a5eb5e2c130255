"""Runs that go on while a test looks at them."""

import json
import subprocess
import time
from contextlib import contextmanager

from conftest import COMMAND, MPIRUN
from paths import HANG_S


def wait_until(is_so, process, what):
    """Waits for something that a live process brings about."""
    deadline = time.monotonic() + HANG_S
    while not is_so():
        assert time.monotonic() < deadline, what
        assert process.poll() is None, f"the run has ended before {what}"
        time.sleep(0.01)


def newest_step(out):
    """The step of the newest checkpoint in a run's folder, -1 where there is none."""
    try:
        return generations(out)[0]["step"]
    except FileNotFoundError:
        return -1


def generations(out):
    """The checkpoints in a run's folder, the newest first."""
    return json.loads((out / "checkpoint" / "latest").read_text())["generations"]


@contextmanager
def live_run(*arguments, workers=0):
    """The command as a process that does not outlive the test; under mpirun when `workers` is given."""
    launcher = [*MPIRUN, "-n", str(workers)] if workers else []
    process = subprocess.Popen(
        [*launcher, COMMAND, *map(str, arguments)],
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
