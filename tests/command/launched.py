"""A launcher that a test looks at, its workers programs in Python."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from conftest import command_line
from live_run import outcome_of, wait_until

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
    launch = command_line(["launch", *options, "--", sys.executable, "-u", script, tmp_path])
    process = subprocess.Popen(
        ["env", "--default-signal=HUP", *launch],
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
        return outcome_of(process)


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


def pid_in(path):
    """What a worker has written there, once it is whole."""
    wait_until(lambda: path.exists() and path.read_text().endswith("\n"), f"{path.name} is not written")
    return int(path.read_text())


def secret_files(worker):
    """The files that a worker's environment names."""
    variables = Path(f"/proc/{worker}/environ").read_text().split("\0")
    begin = "FLOCKSTEP_SECRET_FILE="
    return [Path(each.removeprefix(begin)) for each in variables if each.startswith(begin)]


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
        child = Path(f"/proc/{pid_in(tmp_path / 'child')}")
        os.kill(pid_in(tmp_path / "0.0"), signal.SIGKILL)
        assert outcome_of(process)[0] == 0
        wait_until(lambda: not child.exists() or state_of(child) == "Z", "the end of the child")


def expect_workers_to_outlive_the_launcher(tmp_path, *options):
    """They write more than a pipe holds, which no process reads, and end as if nothing had happened."""
    worker = (
        "while not os.path.exists(sys.argv[1] + '/killed'): time.sleep(0.01)\n"
        "for line in range(30000): print('line', line, 'x' * 50)\n"
        "open(f'{sys.argv[1]}/done.{rank}', 'w').write(f'{rank}\\n')\n"
    )
    with launched(tmp_path, "--workers", 2, *options, worker=NOTE + worker) as process:
        workers = [pid_in(tmp_path / f"{rank}.0") for rank in range(2)]
        secrets = secret_files(workers[0])
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()
        wait_until(lambda: not any(secret.parent.exists() for secret in secrets), "the end of the secret's folder")
        assert sorted(workers_of(tmp_path)) == sorted(workers)
        (tmp_path / "killed").touch()
        assert [pid_in(tmp_path / f"done.{rank}") for rank in range(2)] == [0, 1]
    return secrets


def expect_a_signal_to_end_all(tmp_path, number, *options, worker="", look=bool):
    """Also a worker that ignores it. `look` sees the workers before. Returns what the launcher says, and its seconds."""
    signals = "(signal.SIGINT, signal.SIGTERM, signal.SIGHUP)"
    worker += (
        "def end(number, frame):\n"
        "  print('ended by', number)\n"
        "  sys.exit(0)\n"
        "if rank in (1, 2):\n"
        f"  for number in {signals}: signal.signal(number, signal.SIG_IGN if rank == 1 else end)\n"
        "elif rank == 3: sys.exit(1)\n"  # waits to be started again, or is
    )
    with launched(tmp_path, "--workers", 4, *options, worker=worker + FOREVER) as process:
        look([pid_in(tmp_path / f"{rank}.0") for rank in range(3)])
        begin = time.monotonic()
        code, out, errors = outcome_of(process, number)
        took = time.monotonic() - begin
        assert workers_of(tmp_path) == []
    assert code == 128 + number
    assert f"ended by {int(number)}\n" in out
    assert re.search("killing what has not ended: .*worker 1", errors), errors
    return errors, took
