"""A worker of an elastic run, which the test starts with the launcher: python elastic_program.py CLASS FOLDER.

Worker 1 kills itself in its first life. All train until it is back, and a few steps more.
"""

import hashlib
import os
import signal
import sys
import time
from pathlib import Path

import flockstep
import torch
from cases import backward, numbers, small_model

KILLED_AT, MORE_STEPS, PATIENCE_S = 20, 20, 120


def main() -> None:
    kind, is_back = getattr(flockstep, sys.argv[1]), Path(sys.argv[2]) / "is_back"
    model = small_model(seed=int(os.environ["FLOCKSTEP_RANK"]))
    options = {"period": 1} if kind is flockstep.Swarm else {}
    optimizer = kind(torch.optim.SGD(model.parameters(), lr=0.05), model, elastic=True, **options)
    print(f"worker {optimizer.rank} life {optimizer.incarnation} begins at step {optimizer.steps}", flush=True)
    end, more = time.monotonic() + PATIENCE_S, MORE_STEPS
    if optimizer.incarnation > 1:
        is_back.touch()
    while more > 0 and time.monotonic() < end:
        optimizer.zero_grad()
        backward(model, optimizer.rank, optimizer.steps)
        optimizer.step()
        if optimizer.rank == 1 and optimizer.incarnation == 1 and optimizer.steps >= KILLED_AT:
            os.kill(os.getpid(), signal.SIGKILL)
        more -= is_back.exists()
        time.sleep(0.005)  # steps of real models take longer, too
    optimizer.consolidate()
    digest = hashlib.sha256(repr(numbers(model)).encode()).hexdigest()[:16]
    print(f"worker {optimizer.rank} ends after {optimizer.steps} steps with {digest}", flush=True)
    optimizer.close()


if __name__ == "__main__":
    main()
