"""Trains until rank 1 has ended or skips a backward pass; the others tell what their step raised.

Arguments: how rank 1 is lost, and what carries gradients: exact, sketch, buffers (exact, and DDP broadcasts buffers), or
sharded.
"""

import json
import os
import signal
import sys
import time

import flockstep
import torch
import torch.distributed as dist
from ddp_training import loss_of, made
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

STEPS, LOST_AT = 12, 5


def model_for(carrier):
    module = made()
    if carrier == "sharded":
        for layer in (module.first, module.middle, module.extra, module.last):
            fully_shard(layer)
        return fully_shard(module)
    if carrier == "buffers":
        module.register_buffer("running", torch.zeros(3))
    return DistributedDataParallel(module, bucket_cap_mb=0.005)


def backward(loss, step):
    if step == LOST_AT and dist.get_rank() == 1:
        print("LOST", time.time(), flush=True)
        if how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if how in ("out of batches", "skipped a backward pass"):
            return how == "skipped a backward pass"
        loss.register_hook(lambda gradient: sys.exit(1))
    elif step == LOST_AT and how == "ended in backward":
        time.sleep(1)  # so that its transfers are on their way when it ends
    loss.backward()
    return True


how, carrier = sys.argv[1:]
torch.set_num_threads(1)
dist.init_process_group("gloo")
model = model_for(carrier)
transfer = {"transfer": "sketch" if carrier == "sketch" else "exact"} if carrier != "sharded" else {}
state = flockstep.adacons(model, **transfer)
for step in range(STEPS):
    try:
        if not backward(loss_of(model, step), step):
            break
    except RuntimeError as error:
        outcome = {name: getattr(error, name, None) for name in ("code", "rank", "engine")}
        outcome |= {"type": type(error).__name__, "text": str(error), "at": time.time()}
        print("RAISED", json.dumps(outcome), flush=True)
        sys.exit(0)
