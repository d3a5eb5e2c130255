"""A training that outlives its workers: kill any of them while it runs; the others go on, and it comes back.

flockstep launch --workers 4 -- python train.py [--steps N] [--checkpoint FILE]
"""

import argparse
import sys
import time
from pathlib import Path

import flockstep
import torch
from torch.nn.functional import cross_entropy

sys.path.append(str(Path(__file__).resolve().parents[1] / "pytorch_ddp"))  # the same data and network
from fashion import Net, accuracy, images

BATCH = 16


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--step-ms", type=float, default=0, help="sleep so long in every step, to have time for kills")
    parser.add_argument("--checkpoint", type=Path, help="needed only if all workers die at the same time")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # the workers share the processors

    pictures, labels = images("train").tensors
    model = Net()

    # No process group: each worker is a torch world of its own. From here on the model is that of the workers that are
    # there already, and optimizer.steps is what they count. If there are none, it is that of the checkpoint.
    inner = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    optimizer = flockstep.Flock(inner, model, elastic=True, checkpoint=arguments.checkpoint)
    print(f"worker {optimizer.rank}, life {optimizer.incarnation}, begins at step {optimizer.steps}", flush=True)

    began, longest = time.perf_counter(), 0.0
    while optimizer.steps < arguments.steps:
        # Who the others are changes, so nobody shares out the data. Each worker draws its own, and after a loss other
        # ones: the samples of a step depend on the rank, its life and the step alone.
        seed = hash((optimizer.rank, optimizer.incarnation, optimizer.steps)) % 2**63
        chosen = torch.randint(len(labels), (BATCH,), generator=torch.Generator().manual_seed(seed))
        step_began = time.perf_counter()
        optimizer.zero_grad()
        cross_entropy(model(pictures[chosen]), labels[chosen]).backward()
        time.sleep(arguments.step_ms / 1e3)
        optimizer.step()
        longest = max(longest, time.perf_counter() - step_began)
        if arguments.checkpoint and optimizer.rank == 0 and optimizer.steps % 200 == 0:
            optimizer.save_checkpoint()
    optimizer.consolidate()  # one model on all workers that live
    seconds = time.perf_counter() - began
    print(
        f"worker {optimizer.rank}: accuracy {accuracy(model, images('t10k')):.3f} after {optimizer.steps} steps, "
        f"{seconds:.1f} s here, longest step {longest:.2f} s",
        flush=True,
    )
    optimizer.close()


if __name__ == "__main__":
    main()
