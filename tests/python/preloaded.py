"""Forks workers from a process that has imported torch: to import it would cost each of them two seconds of processor time.

Plays torchrun towards them, or whoever sets the variables that tell a worker its place: then rank 0 has the store. A worker is
a process as any other: its script is __main__, and the interpreter ends as it always does. See launching.py.
"""

import faulthandler
import gc
import json
import os
import signal
import socket
import sys
import types
from pathlib import Path

import flockstep
import torch
import torch.distributed as dist
import torch.nn.parallel
import torch.utils.data
from ports import free_port


def warm_up():
    """What torch imports when it is first used. Without a backward pass: threads for that would be lost in a child."""
    for name in flockstep.__all__:
        getattr(flockstep, name)
    parameter = torch.nn.Parameter(torch.zeros(1))
    parameter.grad = torch.zeros(1)
    torch.optim.SGD([parameter], lr=0.1).step()
    torch.compile(torch.nn.Linear(1, 1), backend="eager")


def start_store():
    """A process that has the store of the workers, as torchrun's agent has, and its port."""
    ours, its = os.pipe()
    process = os.fork()
    if not process:
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        os.write(its, str(store.port).encode())
        while True:
            signal.pause()
    os.close(its)
    port = os.read(ours, 16).decode()
    os.close(ours)
    return process, port


def place(rank, workers, port):
    return {"RANK": str(rank), "WORLD_SIZE": str(workers), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}


def torchruns_place(rank, workers, port):
    local = {"LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(workers)}
    elastic = {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0"}
    return {**place(rank, workers, port), **local, **elastic}


def statuses_of(ranks, end_together):
    """By rank. As under torchrun, the first one that fails may end the others."""
    statuses = {}
    while len(statuses) < len(ranks):
        process, status = os.wait()
        if process not in ranks:  # the store
            continue
        statuses[process] = os.waitstatus_to_exitcode(status)
        if statuses[process] and end_together:
            for other in set(ranks) - statuses.keys():
                os.kill(other, signal.SIGTERM)
    return [statuses[process] for process in ranks]


def serve(requests):
    """In a worker: what it has to run. In this process None, when the tests have ended."""
    while True:
        message, files, *_ = socket.recv_fds(requests, 1 << 20, 64)
        if not message:
            return None
        wanted = json.loads(message)
        workers, torchrun = wanted["workers"], wanted["torchrun"]
        store, port = start_store() if torchrun else (None, free_port())
        ranks = []
        for rank in range(workers):
            ranks.append(os.fork())
            if not ranks[-1]:
                os.dup2(files[2 * rank], 1)
                os.dup2(files[2 * rank + 1], 2)
                for file in (requests.detach(), *files):
                    os.close(file)
                if workers > 1 or torchrun:
                    wanted["environment"] |= (torchruns_place if torchrun else place)(rank, workers, port)
                return wanted
        for file in files:
            os.close(file)
        statuses = statuses_of(ranks, end_together=torchrun)
        if store:
            os.kill(store, signal.SIGKILL)
            os.waitpid(store, 0)
        requests.send(json.dumps(statuses).encode())


def run(script, arguments, environment, folder):
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = [script, *arguments]
    sys.path[:1] = [str(Path(script).parent), *environment["PYTHONPATH"].split(os.pathsep)]
    main = types.ModuleType("__main__")
    main.__file__ = script
    sys.modules["__main__"] = main
    exec(compile(Path(script).read_bytes(), script, "exec"), main.__dict__)


if __name__ == "__main__":
    warm_up()
    gc.freeze()  # else every worker looks through all of torch's objects when it ends, for a second
    faulthandler.register(signal.SIGUSR1)
    wanted = serve(socket.socket(fileno=int(sys.argv[1])))
    if wanted:
        run(wanted["script"], wanted["arguments"], wanted["environment"], wanted["folder"])
