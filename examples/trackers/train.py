"""Trains the network of ../pytorch_ddp under a gradient rule, and shows its metrics in TensorBoard or Weights & Biases.

torchrun --standalone --nproc-per-node 2 train.py [--tracker tensorboard|wandb] [--steps N] [--out DIR]
"""

import argparse
import sys
from pathlib import Path

import flockstep
import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

sys.path.append(str(Path(__file__).resolve().parents[1] / "pytorch_ddp"))  # the same data and network
from fashion import Net, images


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tracker", choices=["tensorboard", "wandb"], default="tensorboard")
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--out", type=Path, default=Path("runs/trackers"))
    arguments = parser.parse_args()

    dist.init_process_group("gloo")
    torch.set_num_threads(1)  # the workers share the processors
    torch.manual_seed(1)
    data = images("train")
    loader = DataLoader(data, batch_size=32, sampler=DistributedSampler(data), drop_last=True)
    model = DistributedDataParallel(Net())
    state = flockstep.adacons(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    run = None
    if arguments.tracker == "tensorboard":
        writer = flockstep.TensorBoardWriter(arguments.out)
    else:
        if dist.get_rank() == 0:
            import wandb

            arguments.out.mkdir(parents=True, exist_ok=True)
            run = wandb.init(project="flockstep", dir=arguments.out)  # WANDB_MODE=offline: only to files
        writer = flockstep.WandbWriter(run)

    for step, (pictures, labels) in zip(range(arguments.steps), loader, strict=False):
        optimizer.zero_grad()
        loss = cross_entropy(model(pictures), labels)
        loss.backward()
        optimizer.step()
        state.record(loss.item())
        if (step + 1) % 10 == 0:
            writer.add(state)

    if arguments.tracker == "tensorboard":
        writer.close()
    elif run is not None:
        run.finish()
    if dist.get_rank() == 0:
        print(f"loss {loss.item():.3f} after {state.step} steps: see {arguments.out}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
