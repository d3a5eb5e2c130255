"""Programs that use the PyTorch package: forked from a process that has imported torch, or started as a user starts them."""

import contextlib
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from paths import BUILD, HANG_S, PACKAGE


def environment(**more):
    """That of a program which uses the package as it was built; one thread per worker, since there are few cores. With
    FLOCKSTEP_PRELOADED, libraries that Python has to load first: a sanitizer's."""
    first = {"LD_PRELOAD": os.environ["FLOCKSTEP_PRELOADED"]} if "FLOCKSTEP_PRELOADED" in os.environ else {}
    return {**os.environ, "PYTHONPATH": str(PACKAGE), "OMP_NUM_THREADS": "1", **first, **more}


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


@functools.cache
def preloaded():
    """The process of preloaded.py, which ends with this one, and the socket that it listens to."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("preloaded.py"), str(its.fileno())],
            env=environment(),
            pass_fds=[its.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
    ours.settimeout(HANG_S)
    return process, ours


def run_workers(script, workers, *arguments, env=None, cwd=BUILD, torchrun=False):
    """A completed process per worker of a world. Under torchrun one that fails ends the others."""
    process, requests = preloaded()
    wanted = {"script": str(script), "arguments": [*map(str, arguments)], "workers": workers, "folder": str(cwd)}
    wanted |= {"environment": env or environment(), "torchrun": torchrun}
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(2 * workers)]
        try:
            socket.send_fds(requests, [json.dumps(wanted).encode()], [file.fileno() for file in files])
            statuses = json.loads(requests.recv(1 << 16))
        except BaseException as error:
            os.killpg(process.pid, signal.SIGUSR1)  # they say where they are
            time.sleep(1)
            os.killpg(process.pid, signal.SIGKILL)
            preloaded.cache_clear()
            if isinstance(error, TimeoutError):
                pytest.fail(f"{script} was not done after {HANG_S} s:\n{texts(files)}")
            raise
        told = texts(files)
    return [subprocess.CompletedProcess(script, status, *told[2 * rank :][:2]) for rank, status in enumerate(statuses)]


def texts(files):
    for file in files:
        file.seek(0)
    return [file.read() for file in files]


def run_python(script, *arguments, **keywords):
    """Runs a script that may import flockstep; its completed process."""
    return run_workers(script, 1, *arguments, **keywords)[0]


def run_torchrun(script, workers, *arguments, **keywords):
    """As if under torchrun: the completed process, all workers together. env=environment(NAME="value") adds to the
    environment."""
    done = run_workers(script, workers, *arguments, torchrun=True, **keywords)
    code = int(any(worker.returncode for worker in done))
    out, errors = ("".join(getattr(worker, which) for worker in done) for which in ("stdout", "stderr"))
    return subprocess.CompletedProcess(script, code, out, errors)


def run_real_torchrun(script, workers, *arguments, options=(), **keywords):
    """Started as a user starts it. `options` are torchrun's own, such as --max-restarts=1."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", workers]
    return run_program([*launcher, *options, script, *arguments], **keywords)
