"""How a training with an averager may end: the case whose name is the argument. Three workers, each on its own."""

import gc
import os
import signal
import sys
import time
from datetime import timedelta
from functools import partial

import flockstep
import torch
import torch.distributed as dist
from cases import numbers, sgd, small_model, train_step
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset

LIMIT_S = 600


def training(rank, make=flockstep.Flock, steps=5):
    dist.init_process_group("gloo", timeout=timedelta(seconds=LIMIT_S))
    model = DDP(small_model())
    optimizer = make(sgd(model), model)
    for step in range(steps):
        train_step(model, optimizer, rank, step)
    return model, optimizer


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
    close_forgotten(rank)
    dist.destroy_process_group()


def dropped_without_close(rank):
    model, optimizer = training(rank)
    optimizer.consolidate()
    del optimizer
    gc.collect()
    assert model.require_backward_grad_sync
    assert model.module[0].weight.untyped_storage().nbytes() == 96
    with flockstep.LocalSGD(sgd(model), model, period=1) as again:
        train_step(model, again, rank, 0)
    dist.destroy_process_group()


def sys_exit_everywhere(rank):
    close_forgotten_in_the_middle(rank)
    sys.exit(3)


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
    flockstep.Flock(sgd(model), model)


def raise_an_error(optimizer):
    raise ValueError("of the training script")


def is_killed(optimizer):
    os.kill(os.getpid(), signal.SIGKILL)


def lost(rank, end, make=flockstep.Flock, waits=False):
    """Worker 1 ends, and the others go on until they hear of it. It may end while they wait for it, at the bound on how far they
    may go ahead, where they have nothing under way with it."""
    try:
        model, optimizer = training(rank, make)
        for step in range(5, 10000 if rank != 1 else 5):
            train_step(model, optimizer, rank, step)
            time.sleep(0.005)
        time.sleep(0.5 * waits)
    finally:
        print("AT", time.monotonic(), flush=True)
    if rank == 1:
        end(optimizer)


every_step = partial(flockstep.LocalSGD, period=1)
LOST = {
    "an_exception": partial(lost, end=raise_an_error, waits=True),
    "an_exception_in_lockstep": partial(lost, end=raise_an_error, make=every_step),
    "sys_exit_on_one": partial(lost, end=lambda _: sys.exit(0)),
    "closed_on_one": partial(lost, end=lambda optimizer: optimizer.close(), waits=True),
    "closed_on_one_in_pairs": partial(lost, end=lambda it: it.close(), make=flockstep.ADPSGD, waits=True),
    "killed": partial(lost, end=is_killed),
    "killed_in_lockstep": partial(lost, end=is_killed, make=every_step),
}

if __name__ == "__main__":
    torch.set_num_threads(1)
    (globals() | LOST)[sys.argv[1]](int(os.environ["RANK"]))
