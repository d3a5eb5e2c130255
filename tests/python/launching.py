"""Programs that use the PyTorch package, started as a user would start them."""

import os
import signal
import subprocess
import sys

import pytest
from paths import BUILD, HANG_S, PACKAGE


def environment(**more):
    """That of a program which uses the package as it was built; one thread per worker, since there are few cores."""
    return {**os.environ, "PYTHONPATH": str(PACKAGE), "OMP_NUM_THREADS": "1", **more}


def run_program(command, **keywords):
    """Runs to its end, in a session of its own, so that at the time limit none of its processes is left behind."""
    keywords.setdefault("env", environment())
    keywords.setdefault("cwd", BUILD)
    with subprocess.Popen(
        [*map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        **keywords,
    ) as process:
        try:
            out, errors = process.communicate(timeout=HANG_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, errors = process.communicate()
            pytest.fail(f"{command} was not done after {HANG_S} s:\n{out}\n{errors}")
    return subprocess.CompletedProcess(command, process.returncode, out, errors)


def run_python(script, *arguments, **keywords):
    """Runs a script that may import flockstep; its completed process."""
    return run_program([sys.executable, script, *arguments], **keywords)


def run_torchrun(script, workers, *arguments, options=(), **keywords):
    """The completed process, all workers together. `options` are torchrun's own, such as --max-restarts=1;
    env=environment(NAME="value") adds to the environment."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", workers]
    return run_program([*launcher, *options, script, *arguments], **keywords)
