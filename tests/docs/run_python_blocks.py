"""Runs Python blocks of a page as a worker: each with a model, an optimizer and a loader of its own at hand.

torchrun --nproc-per-node 2 run_python_blocks.py BLOCKS.json FOLDER, or flockstep launch --workers 2 -- ...
"""

import json
import os
import sys
import traceback
from pathlib import Path

import flockstep
import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

LAUNCHED = "FLOCKSTEP_RANK" in os.environ  # without a process group, by `flockstep launch`


def surroundings():
    """What the pages' blocks take for granted."""
    torch.manual_seed(1)
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    data = TensorDataset(torch.randn(240, 1, 8, 8), torch.randint(10, (240,)))
    loader = DataLoader(data, batch_size=4, sampler=None if LAUNCHED else DistributedSampler(data))
    model = network if LAUNCHED else DistributedDataParallel(network)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    return {
        "torch": torch, "dist": dist, "flockstep": flockstep, "cross_entropy": cross_entropy,
        "DistributedDataParallel": DistributedDataParallel, "network": network, "loader": loader, "model": model,
        "optimizer": optimizer, "steps": 30, "rank": int(os.environ.get("FLOCKSTEP_RANK", os.environ.get("RANK"))),
    }  # fmt: skip


def main(listed, folder):
    blocks = json.loads(Path(listed).read_text())
    os.chdir(folder)
    if not LAUNCHED:
        dist.init_process_group("gloo")
    for name, line, code, before, continues in blocks:
        if not continues:
            names = surroundings()
        try:
            exec(before, names)
            exec(compile("\n" * (line - 1) + code, name, "exec"), names)
        except Exception:
            sys.exit(f"the block at {name}:\n{traceback.format_exc()}")
        if not LAUNCHED:
            dist.barrier()
    if names["rank"] == 0:
        print(f"{len(blocks)} blocks have run")
    if not LAUNCHED:
        dist.destroy_process_group()


main(*sys.argv[1:])
