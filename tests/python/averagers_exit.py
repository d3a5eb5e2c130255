"""How a training with an averager may end: the case whose name is the argument. Three workers, each on its own."""

import gc
import os
import signal
import sys
import time
from datetime import timedelta

import flockstep
import torch
import torch.distributed as dist
from cases import numbers, small_model, train_step
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset

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


if __name__ == "__main__":
    torch.set_num_threads(1)
    globals()[sys.argv[1]](int(os.environ["RANK"]))
