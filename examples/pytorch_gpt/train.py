"""Trains a small GPT on the docstrings of Python's own library, and compares it with a bigram model.

torchrun --standalone --nproc-per-node 2 train.py [--with plain|adacons|flock] [--steps N]
"""

import argparse
import time

import flockstep
import torch
import torch.distributed as dist
from gpt import GPT, loss_of, stretches
from text import BYTES, bigram_loss, read
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

CONTEXT, BATCH, RATE = 32, 16, 5e-3


@torch.no_grad()
def validation_loss(model: nn.Module, text: Tensor) -> float:
    """Over the whole text, stretch after stretch."""
    starts = torch.arange(0, len(text) - CONTEXT - 1, CONTEXT)
    losses = [loss_of(model, stretches(text, some, CONTEXT + 1)) * len(some) for some in starts.split(256)]
    return (sum(losses) / len(starts)).item()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--with", dest="algorithm", choices=["plain", "adacons", "flock"], default="adacons")
    parser.add_argument("--steps", type=int, default=1000)
    arguments = parser.parse_args()

    dist.init_process_group("gloo")
    torch.set_num_threads(1)  # the workers share the processors
    torch.manual_seed(1)
    rank = dist.get_rank()
    train, validation = read()
    network = GPT(BYTES, CONTEXT, layers=2, heads=4, width=64)
    optimizer = torch.optim.AdamW(network.parameters(), lr=RATE, betas=(0.9, 0.98))

    model: nn.Module = network
    if arguments.algorithm == "flock":
        optimizer = flockstep.Flock(optimizer, network)
    else:
        model = DistributedDataParallel(network)
        if arguments.algorithm == "adacons":
            flockstep.adacons(model)

    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=arguments.steps, pct_start=0.1)
    generator = torch.Generator().manual_seed(1 + rank)  # every worker draws stretches of its own
    began = time.perf_counter()
    for step in range(arguments.steps):
        starts = torch.randint(len(train) - CONTEXT - 1, (BATCH,), generator=generator)
        optimizer.zero_grad()
        loss = loss_of(model, stretches(train, starts, CONTEXT + 1))
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if rank == 0 and (step + 1) % 200 == 0:
            print(f"step {step + 1}: {loss.item():.3f} nats a byte, {time.perf_counter() - began:.1f} s", flush=True)

    if arguments.algorithm == "flock":
        optimizer.consolidate()  # one model, the same on every worker
    if rank == 0:
        print(f"validation: {arguments.algorithm} {validation_loss(network, validation):.3f}, "
              f"bigram model {bigram_loss(train, validation):.3f} nats a byte", flush=True)  # fmt: skip
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
