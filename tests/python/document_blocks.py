"""Runs every Python block of a document as a worker: each with a model, an optimizer and a loader of its own at hand.

torchrun --nproc-per-node 2 document_blocks.py DOCUMENT FOLDER
"""

import os
import re
import sys
import traceback
from pathlib import Path

import flockstep
import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def surroundings():
    """What the document's blocks take for granted."""
    torch.manual_seed(1)
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    data = TensorDataset(torch.randn(240, 1, 8, 8), torch.randint(10, (240,)))
    loader = DataLoader(data, batch_size=4, sampler=DistributedSampler(data))
    model = DistributedDataParallel(network)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    return {
        "torch": torch, "dist": dist, "flockstep": flockstep, "cross_entropy": cross_entropy,
        "DistributedDataParallel": DistributedDataParallel, "network": network, "loader": loader, "model": model,
        "optimizer": optimizer, "steps": 30, "rank": dist.get_rank(),
    }  # fmt: skip


def main(document, folder):
    os.chdir(folder)
    dist.init_process_group("gloo")
    text = Path(document).read_text()
    blocks = [
        (text[: found.start()].count("\n") + 2, found[1])
        for found in re.finditer(r"```python\n(.*?)```", text, re.DOTALL)
    ]
    for line, block in blocks:
        try:
            exec(compile("\n" * (line - 1) + block, document, "exec"), surroundings())
        except Exception:
            sys.exit(f"the block at line {line} of {document}:\n{traceback.format_exc()}")
        dist.barrier()
    if dist.get_rank() == 0:
        print(f"{len(blocks)} blocks")
    dist.destroy_process_group()


main(*sys.argv[1:])
