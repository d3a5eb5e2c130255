"""A training that goes on from its last checkpoint, and loses a worker the first time. The argument is a folder."""

import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

import flockstep
import torch
import torch.distributed as dist
from cases import numbers, small_model, train_step

FOLDER = Path(sys.argv[1])
CHECKPOINT = FOLDER / "checkpoint.pt"
ENDLESS = len(sys.argv) > 2


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
    with flockstep.Flock(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), model) as optimizer:
        if CHECKPOINT.exists():
            saved = torch.load(CHECKPOINT)
            model.load_state_dict(saved["model"])
            optimizer.load_state_dict(saved["optimizer"])
            begin = saved["step"]
        (FOLDER / f"began-{rank}").write_text(str(begin))
        for step in range(begin, 10**9 if ENDLESS else 20):
            if step == 12 and rank == 1 and is_first_time and not ENDLESS:
                os.kill(os.getpid(), signal.SIGKILL)
            if step == 12 and rank == 1 and ENDLESS:
                time.sleep(1000)  # the others wait for it
            train_step(model, optimizer, rank, step)
            if (step + 1) % 5 == 0 and not ENDLESS:
                save(model, optimizer, step + 1)
        steps = int(optimizer.metrics()["step"])
    (FOLDER / f"ended-{rank}").write_text(f"{steps} {numbers(model)}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
