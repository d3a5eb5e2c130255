"""A stock DistributedDataParallel script. adacons.py is the same with two lines more.

torchrun --standalone --nproc-per-node 2 plain.py [FOLDER] [--device cpu|cuda]
"""

import argparse

import torch
import torch.distributed as dist
from device import add_option, join_group
from fashion import SUBSET, Net, accuracy, images
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

parser = argparse.ArgumentParser()
parser.add_argument("folder", nargs="?", default=SUBSET)
add_option(parser)
arguments = parser.parse_args()

device = join_group(arguments.device)
torch.manual_seed(1)
train, test = images("train", arguments.folder), images("t10k", arguments.folder)
sampler = DistributedSampler(train)
loader = DataLoader(train, batch_size=64 // dist.get_world_size(), sampler=sampler, drop_last=True)

model = DistributedDataParallel(Net().to(device))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

for epoch in range(3):
    sampler.set_epoch(epoch)
    for pictures, labels in loader:
        optimizer.zero_grad()
        cross_entropy(model(pictures.to(device)), labels.to(device)).backward()
        optimizer.step()
    if dist.get_rank() == 0:
        print(f"epoch {epoch + 1}: accuracy {accuracy(model.module, test):.3f}", flush=True)

dist.destroy_process_group()
