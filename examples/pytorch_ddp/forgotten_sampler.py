"""The classic mistake: DistributedSampler was forgotten, so that all workers train on the same batches.

The script runs, learns, and wastes all workers but one. flockstep.watch averages as DDP does, and says so.

torchrun --standalone --nproc-per-node 2 forgotten_sampler.py [FOLDER] [--device cpu|cuda]
"""

import argparse

import flockstep
import torch
import torch.distributed as dist
from device import add_option, join_group
from fashion import SUBSET, Net, images
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("folder", nargs="?", default=SUBSET)
add_option(parser)
arguments = parser.parse_args()

device = join_group(arguments.device)
torch.manual_seed(1)
train = images("train", arguments.folder)
loader = DataLoader(train, batch_size=32, shuffle=True)  # and no sampler=DistributedSampler(...)

model = DistributedDataParallel(Net().to(device))
state = flockstep.watch(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

for step, (pictures, labels) in enumerate(loader):
    optimizer.zero_grad()
    cross_entropy(model(pictures.to(device)), labels.to(device)).backward()
    optimizer.step()
    if state.findings:
        if dist.get_rank() == 0:
            print(f"after {step + 1} steps: {state.findings[0]}", flush=True)
        break

dist.destroy_process_group()
