"""Trains a small GPT on the docstrings of Python's own library, and compares it with a bigram model.

torchrun --standalone --nproc-per-node 2 train.py [--with plain|adacons|direction_consensus|flock|wagma|local_sgd|diloco]
                                                  [--steps N] [--period H] [--rate R] [--layers N] [--width N] [--context N]
                                                  [--batch N] [--faulty RANK] [--seed N] [--device cpu|cuda]
"""

import argparse
import sys
import time
from pathlib import Path

import flockstep
import torch
import torch.distributed as dist
from gpt import GPT, loss_of, stretches
from text import BYTES, bigram_loss, read
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

sys.path.append(str(Path(__file__).resolve().parents[1] / "pytorch_ddp"))  # the same choice of devices
from device import add_option, join_group

RULES = ["adacons", "direction_consensus"]
AVERAGERS = ["flock", "wagma", "local_sgd", "diloco"]


@torch.no_grad()
def validation_loss(model: nn.Module, text: Tensor, context: int) -> float:
    """Over the whole text, stretch after stretch."""
    starts = torch.arange(0, len(text) - context - 1, context, device=text.device)
    losses = [loss_of(model, stretches(text, some, context + 1)) * len(some) for some in starts.split(256)]
    return (sum(losses) / len(starts)).item()


def averager(algorithm: str, optimizer: torch.optim.Optimizer, network: nn.Module, period: int) -> flockstep.Averager:
    """Workers take steps of their own, and their models meet."""
    if algorithm == "flock":
        return flockstep.Flock(optimizer, network)
    if algorithm == "wagma":
        return flockstep.Wagma(optimizer, network)
    if algorithm == "local_sgd":
        return flockstep.LocalSGD(optimizer, network, period=period)
    return flockstep.DiLoCo(optimizer, network, period=period)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--with", dest="algorithm", choices=["plain", *RULES, *AVERAGERS], default="adacons")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--period", type=int, default=32, help="of local_sgd and diloco")
    parser.add_argument("--rate", type=float, default=5e-3, help="the highest learning rate of the schedule")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=64, help="a multiple of 64, or 16 or 32")
    parser.add_argument("--context", type=int, default=32, help="bytes of a stretch of text")
    parser.add_argument("--batch", type=int, default=16, help="stretches of one rank in a step")
    parser.add_argument(
        "--faulty", type=int, default=-1, metavar="RANK", help="this one's gradients are -5 times its own"
    )
    parser.add_argument("--seed", type=int, default=1)
    add_option(parser)
    arguments = parser.parse_args()

    averages = arguments.algorithm in AVERAGERS
    device = join_group(arguments.device)
    torch.manual_seed(arguments.seed)
    rank = dist.get_rank()
    if arguments.faulty >= dist.get_world_size():
        parser.error(f"--faulty {arguments.faulty}: ranks are 0 to {dist.get_world_size() - 1}")
    train, validation = (text.to(device) for text in read())
    context, heads = arguments.context, max(4, arguments.width // 64)
    network = GPT(BYTES, context, arguments.layers, heads, arguments.width).to(device)
    optimizer = torch.optim.AdamW(network.parameters(), lr=arguments.rate, betas=(0.9, 0.98))

    model: nn.Module = network
    if averages:
        optimizer = averager(arguments.algorithm, optimizer, network, arguments.period)
    else:
        model = DistributedDataParallel(network)
        if arguments.algorithm in RULES:
            getattr(flockstep, arguments.algorithm)(model)

    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, arguments.rate, total_steps=arguments.steps, pct_start=0.1
    )
    generator = torch.Generator().manual_seed(1000 * arguments.seed + rank)  # every worker draws stretches of its own
    began = time.perf_counter()
    for step in range(arguments.steps):
        starts = torch.randint(len(train) - context - 1, (arguments.batch,), generator=generator).to(device)
        optimizer.zero_grad()
        loss = loss_of(model, stretches(train, starts, context + 1))
        (loss * -5 if rank == arguments.faulty else loss).backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if rank == 0 and (step + 1) % 200 == 0:
            print(f"step {step + 1}: {loss.item():.3f} nats a byte, {time.perf_counter() - began:.1f} s", flush=True)

    if averages:
        optimizer.consolidate()  # one model, the same on every worker
    if rank == 0:
        print(f"validation: {arguments.algorithm} {validation_loss(network, validation, context):.3f}, "
              f"bigram model {bigram_loss(train.cpu(), validation.cpu()):.3f} nats a byte", flush=True)  # fmt: skip
    dist.barrier()  # nobody ends while rank 0 still validates
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
