"""A launcher that a test looks at, its workers programs in Python."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from conftest import COMMAND
from paths import HANG_S

# What every worker begins with.
PLACE = """import os, signal, sys, time
rank, restarts = (int(os.environ["FLOCKSTEP_" + name]) for name in ("RANK", "RESTARTS"))
"""
NOTE = "open(f'{sys.argv[1]}/{rank}.{restarts}', 'w').write(f'{os.getpid()}\\n')\n"
FOREVER = NOTE + "while True: time.sleep(3600)\n"


@contextlib.contextmanager
def launched(tmp_path, *options, worker):
    """The launcher as a process, its workers programs in Python. None of them outlives the test."""
    script = tmp_path / "worker.py"
    script.write_text(PLACE + worker)
    process = subprocess.Popen(
        [
            "env",
            "--default-signal=HUP",
            COMMAND,
            "launch",
            *map(str, options),
            "--",
            sys.executable,
            "-u",
            script,
            tmp_path,
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        for worker_id in workers_of(tmp_path):
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker_id, signal.SIGKILL)
        process.communicate()


def run_launched(tmp_path, *options, worker):
    with launched(tmp_path, *options, worker=worker) as process:
        out, errors = process.communicate(timeout=HANG_S)
    return process.returncode, out, errors


def workers_of(tmp_path):
    """Processes whose command line is that of this test's workers."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if words[1:3] == [b"-u", str(tmp_path / "worker.py").encode()] and state_of(entry) not in "ZX":
                found.append(int(entry.name))
    return found


def state_of(entry):
    return (entry / "stat").read_text().rpartition(")")[2].split()[0]


def wait_for(is_so, what):
    deadline = time.monotonic() + HANG_S
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def pid_in(path):
    """What a worker has written there, once it is whole."""
    wait_for(lambda: path.exists() and path.read_text().endswith("\n"), f"{path.name} is not written")
    return int(path.read_text())


def secret_files(worker):
    """The files that a worker's environment names."""
    variables = Path(f"/proc/{worker}/environ").read_text().split("\0")
    return [
        Path(value) for name, _, value in (each.partition("=") for each in variables) if name == "FLOCKSTEP_SECRET_FILE"
    ]


def command_lines():
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield entry.read_bytes()


def expect_that_children_end(tmp_path, *options):
    """What a lost worker has started ends with it."""
    worker = (
        "import subprocess\n"
        "if restarts: sys.exit(0)\n"
        "child = subprocess.Popen(['sleep', '3600'])\n"
        "open(f'{sys.argv[1]}/child', 'w').write(f'{child.pid}\\n')\n"
    )
    with launched(tmp_path, "--workers", 1, *options, worker=worker + FOREVER) as process:
        child = pid_in(tmp_path / "child")
        os.kill(pid_in(tmp_path / "0.0"), signal.SIGKILL)
        process.communicate(timeout=HANG_S)
        assert process.returncode == 0
        wait_for(lambda: not Path(f"/proc/{child}").exists() or state_of(Path(f"/proc/{child}")) == "Z", "it lives on")
