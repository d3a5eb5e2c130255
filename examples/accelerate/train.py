"""Trains the network of ../pytorch_ddp in a plain loop with Accelerate, under a gradient rule or an averager.

torchrun --standalone --nproc-per-node 2 train.py [--with plain|adacons|...|flock|local_sgd|diloco] [--epochs N]
                                                  [--accumulate N] [--checkpoint DIR]
"""

import argparse
import json
import sys
from pathlib import Path

import flockstep
import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

sys.path.append(str(Path(__file__).resolve().parents[1] / "pytorch_ddp"))  # the same data and network
from fashion import Net, accuracy, images

RULES = ["mean", "adacons", "direction_consensus", "geometric_median"]
AVERAGERS = {"flock": flockstep.Flock, "local_sgd": flockstep.LocalSGD, "diloco": flockstep.DiLoCo}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--with", dest="algorithm", choices=["plain", *RULES, *AVERAGERS], default="adacons")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--accumulate", type=int, default=1, help="batches of a step")
    parser.add_argument("--checkpoint", type=Path, metavar="DIR", help="save there after each epoch, and go on from it")
    arguments = parser.parse_args()

    accelerator = Accelerator(
        cpu=not torch.cuda.is_available(),
        gradient_accumulation_steps=arguments.accumulate,
        dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True),  # the same order after a restart
    )
    torch.set_num_threads(1)  # the workers share the processors
    torch.manual_seed(1)
    test = images("t10k")
    loader = DataLoader(images("train"), batch_size=32, shuffle=True, drop_last=True)
    model, loader = accelerator.prepare(Net(), loader)  # the model is in DDP, on its device

    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    measured = averager = None
    if arguments.algorithm in AVERAGERS:
        measured = optimizer = averager = AVERAGERS[arguments.algorithm](optimizer, model)
    elif arguments.algorithm in RULES:
        measured = flockstep.register(model, arguments.algorithm)
        accelerator.register_for_checkpointing(measured)
    optimizer = accelerator.prepare(optimizer)

    first = 0
    if arguments.checkpoint and (
        saved := [int(path.name.removeprefix("epoch_")) for path in arguments.checkpoint.glob("epoch_*")]
    ):
        first = max(saved)
        accelerator.load_state(arguments.checkpoint / f"epoch_{first}")
    for epoch in range(first, arguments.epochs):
        loader.set_epoch(epoch)
        for pictures, labels in loader:
            with accelerator.accumulate(model):
                loss = cross_entropy(model(pictures), labels)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
        if averager:
            averager.consolidate()  # one model, the same on every worker
        if arguments.checkpoint:
            # Accelerate takes tensors in one piece of memory, as an averager's are, for copies of each other, and writes one
            # of them in the safetensors format.
            accelerator.save_state(arguments.checkpoint / f"epoch_{epoch + 1}", safe_serialization=not averager)
        right = accuracy(accelerator.unwrap_model(model), test)
        accelerator.print(f"epoch {epoch + 1}: loss {loss.item():.3f}, accuracy {right:.3f}", flush=True)

    figures = json.dumps(measured.metrics()) if measured else "{}"
    norm = torch.nn.utils.parameters_to_vector(model.parameters()).double().norm().item()
    print(f"rank {accelerator.process_index}: norm of the model {norm:.12f}, {figures}", flush=True)
    accelerator.end_training()


if __name__ == "__main__":
    main()
