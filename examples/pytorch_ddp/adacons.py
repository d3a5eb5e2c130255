"""plain.py with two lines more: gradients are weighed by how well they agree, instead of averaged.

torchrun --standalone --nproc-per-node 2 adacons.py [FOLDER]
"""

import sys

import flockstep
import torch
import torch.distributed as dist
from fashion import SUBSET, Net, accuracy, images
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

dist.init_process_group("gloo")
torch.set_num_threads(1)  # the workers share the processors
torch.manual_seed(1)
folder = sys.argv[1] if len(sys.argv) > 1 else SUBSET
train, test = images("train", folder), images("t10k", folder)
sampler = DistributedSampler(train)
loader = DataLoader(train, batch_size=64 // dist.get_world_size(), sampler=sampler, drop_last=True)

model = DistributedDataParallel(Net())
flockstep.adacons(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

for epoch in range(3):
    sampler.set_epoch(epoch)
    for pictures, labels in loader:
        optimizer.zero_grad()
        cross_entropy(model(pictures), labels).backward()
        optimizer.step()
    if dist.get_rank() == 0:
        print(f"epoch {epoch + 1}: accuracy {accuracy(model.module, test):.3f}", flush=True)

dist.destroy_process_group()
