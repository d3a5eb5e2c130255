"""One process: a world of one, and what is said where there is no process group."""

import json

import flockstep
import torch.distributed as dist
from ddp_training import distance, flat, loss_of, made, own_gradient
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model, other = (DistributedDataParallel(made(), bucket_cap_mb=0.005) for _ in range(2))
state = flockstep.adacons(model)
worst = 0.0
for step in range(3):
    expected = own_gradient(model.module, lambda replica, step=step: loss_of(replica, step).backward())
    model.zero_grad()
    loss_of(model, step).backward()
    worst = max(worst, distance(flat(model.parameters()), expected))
dist.destroy_process_group()
try:
    flockstep.adacons(other)
    error = None
except flockstep.Error as raised:
    error = {"code": raised.code, "text": str(raised)}
print(json.dumps({"distance": worst, "coefficients": state.coefficients.tolist(), "error": error}))
