"""What is warned of, and at which line. Two workers that read the same data; or one that breaks off."""

import contextlib
import pickle
import sys

import flockstep
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def train(model, steps):
    for step in range(steps):
        inputs = torch.randn(8, 4, generator=torch.Generator().manual_seed(step))
        model(inputs).square().mean().backward()


if __name__ == "__main__":
    if sys.argv[1:] == ["breaks off"]:
        kept = flockstep.AdaConsState()  # not called yet
        raise ValueError("before the first backward pass")
    dist.init_process_group("gloo")
    early, late = (DistributedDataParallel(nn.Linear(4, 1)) for _ in range(2))
    early.kept = flockstep.watch(early)  # found while it trains
    late.kept = flockstep.watch(late)  # found in the last step
    train(early, 30)
    train(late, 20)
    flockstep.AdaConsState()  # never called, and gone at the end
    kept = flockstep.AdasumState()  # never called
    copied = flockstep.MeanState()  # as is a copy of it, maybe elsewhere
    pickle.dumps(copied)
    with contextlib.suppress(flockstep.Error):
        flockstep.mean(nn.Linear(4, 1))  # refused
