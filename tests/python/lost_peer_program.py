"""Trains until rank 1 is lost, killed or with an exception in backward; the others tell what their step raised."""

import json
import os
import signal
import sys
import time

import flockstep
import torch
import torch.distributed as dist
from ddp_training import loss_of, made
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
dist.init_process_group("gloo")
model = DistributedDataParallel(made(), bucket_cap_mb=0.005)
state = flockstep.adacons(model, transfer=sys.argv[2])
for step in range(1000):
    if step == 5 and dist.get_rank() == 1:
        print("LOST", time.time(), flush=True)
        if sys.argv[1] == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        model.module.first.register_full_backward_pre_hook(lambda module, gradients: sys.exit(1))
    try:
        loss = loss_of(model, step)  # raises what was noticed before it
        if step == 5 and sys.argv[1] != "killed" and dist.get_rank() != 1:
            time.sleep(1)  # so that its transfers are on their way when it ends
        loss.backward()
    except flockstep.Error as error:
        outcome = {"type": type(error).__name__, "code": error.code, "rank": error.rank, "engine": error.engine}
        print("RAISED", json.dumps({**outcome, "text": str(error), "at": time.time()}), flush=True)
        sys.exit(0)
