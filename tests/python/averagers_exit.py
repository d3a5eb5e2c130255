"""How a training with an averager may end. Starts a world of three processes per case and prints how each of them ended.

The processes are forked from one that has imported torch, which takes seconds; otherwise they are as torchrun's: a case
runs at the top of the script, and what it raises ends the process.
"""

import faulthandler
import gc
import json
import os
import signal
import socket
import sys
import tempfile
import time
from datetime import timedelta

import flockstep
import torch
import torch.distributed as dist
from cases import numbers, small_model, train_step
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset

WORKERS = 3
LIMIT_S = 600


def training(rank, make=flockstep.Flock, steps=5):
    dist.init_process_group("gloo", timeout=timedelta(seconds=LIMIT_S))
    model = DDP(small_model())
    optimizer = make(torch.optim.SGD(model.parameters(), lr=0.1), model)
    for step in range(steps):
        train_step(model, optimizer, rank, step)
    return model, optimizer


def every_step(inner, model):
    return flockstep.LocalSGD(inner, model, period=1)


def go_on(rank, model, optimizer):
    """Until something happens to another worker."""
    try:
        for step in range(5, 10000):
            train_step(model, optimizer, rank, step)
            time.sleep(0.005)
    finally:
        print("AT", time.monotonic(), flush=True)


def while_the_others_wait():
    """At the bound on how far they may go ahead, where they have nothing under way with this worker."""
    time.sleep(0.5)
    print("AT", time.monotonic(), flush=True)


def end_by(signal_number):
    print("AT", time.monotonic(), flush=True)
    os.kill(os.getpid(), signal_number)


def close_forgotten(rank):
    global kept
    kept = training(rank)
    kept[1].consolidate()


def close_forgotten_in_the_middle(rank):
    global kept
    kept = training(rank, flockstep.ADPSGD)
    dist.barrier()


def group_destroyed_first(rank):
    _, optimizer = training(rank)
    optimizer.consolidate()
    dist.destroy_process_group()
    optimizer.close()


def group_destroyed_and_close_forgotten(rank):
    global kept
    kept = training(rank)
    kept[1].consolidate()
    dist.destroy_process_group()


def dropped_without_close(rank):
    model, optimizer = training(rank)
    optimizer.consolidate()
    del optimizer
    gc.collect()
    assert model.require_backward_grad_sync
    assert model.module[0].weight.untyped_storage().nbytes() == 96
    with flockstep.LocalSGD(torch.optim.SGD(model.parameters(), lr=0.1), model, period=1) as again:
        train_step(model, again, rank, 0)
    dist.destroy_process_group()


def sys_exit_everywhere(rank):
    global kept
    kept = training(rank)
    dist.barrier()
    sys.exit(3)


def an_exception(rank):
    model, optimizer = training(rank)
    if rank == 1:
        while_the_others_wait()
        raise ValueError("of the training script")
    go_on(rank, model, optimizer)


def an_exception_in_lockstep(rank):
    model, optimizer = training(rank, every_step)
    if rank == 1:
        raise ValueError("of the training script")
    go_on(rank, model, optimizer)


def sys_exit_on_one(rank):
    model, optimizer = training(rank)
    if rank == 1:
        sys.exit(0)
    go_on(rank, model, optimizer)


def closed_on_one(rank):
    model, optimizer = training(rank)
    if rank == 1:
        while_the_others_wait()
        optimizer.close()
        return
    go_on(rank, model, optimizer)


def closed_on_one_in_pairs(rank):
    model, optimizer = training(rank, flockstep.ADPSGD)
    if rank == 1:
        while_the_others_wait()
        optimizer.close()
        return
    go_on(rank, model, optimizer)


def killed(rank):
    model, optimizer = training(rank)
    if rank == 1:
        end_by(signal.SIGKILL)
    go_on(rank, model, optimizer)


def killed_in_lockstep(rank):
    model, optimizer = training(rank, every_step)
    if rank == 1:
        end_by(signal.SIGKILL)
    go_on(rank, model, optimizer)


def forked_loader_workers(rank):
    model, optimizer = training(rank)
    loader = DataLoader(TensorDataset(torch.randn(24, 4)), batch_size=4, num_workers=2, multiprocessing_context="fork")
    for _ in range(2):
        for (inputs,) in loader:
            optimizer.zero_grad()
            model(inputs).square().mean().backward()
            optimizer.step()
    optimizer.consolidate()
    if os.fork() == 0:
        optimizer.close()  # does nothing: all of it is the parent's
        os._exit(0)
    os.wait()
    train_step(model, optimizer, rank, 9)
    optimizer.consolidate()
    assert len(numbers(model)) == 37
    optimizer.close()
    dist.destroy_process_group()


def no_process_group(rank):
    model = small_model()
    flockstep.Flock(torch.optim.SGD(model.parameters(), lr=0.1), model)


CASES = [
    no_process_group,
    close_forgotten,
    close_forgotten_in_the_middle,
    group_destroyed_first,
    group_destroyed_and_close_forgotten,
    dropped_without_close,
    sys_exit_everywhere,
    an_exception,
    an_exception_in_lockstep,
    sys_exit_on_one,
    closed_on_one,
    closed_on_one_in_pairs,
    killed,
    killed_in_lockstep,
    forked_loader_workers,
]


def warm_up():
    """What torch imports at its first step. Without a backward pass: threads for that would be lost in a child."""
    parameter = torch.nn.Parameter(torch.zeros(1))
    parameter.grad = torch.zeros(1)
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    optimizer.step()
    optimizer.zero_grad()


class InChild(Exception):
    """Ends everything of the parent's in a forked child."""


def start(case, rank, port):
    """The process of one worker, and where it writes."""
    output = tempfile.TemporaryFile("w+")  # noqa: SIM115
    process = os.fork()
    if process:
        return process, output
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(WORKERS), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    raise InChild(case, rank)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(processes):
    begin = time.monotonic()
    statuses = {}
    while len(statuses) < len(processes) and time.monotonic() - begin < LIMIT_S:
        for process in processes:
            if process in statuses:
                continue
            done, status = os.waitpid(process, os.WNOHANG)
            if done:
                statuses[process] = (os.waitstatus_to_exitcode(status), time.monotonic())
        time.sleep(0.01)
    for process in processes:
        if process not in statuses:
            os.kill(process, signal.SIGUSR1)  # says where it is
            time.sleep(0.5)
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            statuses[process] = ("hung", time.monotonic())
    return statuses


def run(case):
    """By worker: its exit status, what it wrote, and how long after the first one it ended."""
    port = free_port()
    started = [start(case, rank, port) for rank in range(WORKERS)]
    statuses = wait_for([process for process, _ in started])
    first = min(end for _, end in statuses.values())
    lines = []
    for process, output in started:
        output.seek(0)
        status, end = statuses[process]
        lines.append({"status": status, "seconds": end - first, "output": output.read()})
    return lines


if __name__ == "__main__":
    in_child = None
    warm_up()
    try:
        wanted = sys.argv[1:] or [case.__name__ for case in CASES]
        print("RESULTS", json.dumps({case.__name__: run(case) for case in CASES if case.__name__ in wanted}))
    except InChild as raised:
        in_child = raised.args
    if in_child:
        case, rank = in_child
        faulthandler.register(signal.SIGUSR1)
        torch.set_num_threads(1)
        case(rank)
