"""A training that goes on from its last checkpoint, and loses a worker the first time. The argument is a folder.

With a second argument worker 1 interrupts torchrun instead, as Ctrl-C does, while the others wait for it.
"""

import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

import flockstep
import torch
import torch.distributed as dist
from averagers_shared import momentum
from cases import numbers, small_model, train_step

FOLDER = Path(sys.argv[1])
CHECKPOINT = FOLDER / "checkpoint.pt"
INTERRUPTS = len(sys.argv) > 2


def save(model, optimizer, step):
    optimizer.consolidate()
    if dist.get_rank() == 0:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
        torch.save(state, FOLDER / "unfinished.pt")
        (FOLDER / "unfinished.pt").rename(CHECKPOINT)
    dist.barrier()


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=600))
    rank = dist.get_rank()
    is_first_time = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    model = small_model(rank)
    begin = 0
    with flockstep.Flock(momentum(model), model) as optimizer:
        if CHECKPOINT.exists():
            saved = torch.load(CHECKPOINT)
            model.load_state_dict(saved["model"])
            optimizer.load_state_dict(saved["optimizer"])
            begin = saved["step"]
        (FOLDER / f"began-{rank}").write_text(str(begin))
        for step in range(begin, 20):
            if step == 12 and rank == 1 and INTERRUPTS:
                time.sleep(0.5)
                (FOLDER / "interrupted").touch()
                os.kill(os.getppid(), signal.SIGINT)  # torchrun passes it on
                time.sleep(1000)
            if step == 12 and rank == 1 and is_first_time:
                os.kill(os.getpid(), signal.SIGKILL)
            train_step(model, optimizer, rank, step)
            if (step + 1) % 5 == 0:
                save(model, optimizer, step + 1)
        steps = int(optimizer.metrics()["step"])
    (FOLDER / f"ended-{rank}").write_text(f"{steps} {numbers(model)}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
