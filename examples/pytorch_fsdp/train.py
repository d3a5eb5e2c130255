"""Trains the GPT of ../pytorch_gpt with its parameters sharded over all ranks (FSDP2) or replicas of shards (HSDP).

torchrun --standalone --nproc-per-node 4 train.py [--with plain|watch|mean|adacons|...] [--guard G] [--replicas N]
                                                  [--faulty RANK] [--steps N] [--batch N] [--seed N]
                                                  [--checkpoint DIR [--every N]] [--device cpu|cuda]
"""

import argparse
import sys
from pathlib import Path

import flockstep
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

sys.path.append(str(Path(__file__).resolve().parents[1] / "pytorch_ddp"))  # the same choice of devices
sys.path.append(str(Path(__file__).resolve().parents[1] / "pytorch_gpt"))  # the same network and text
from device import add_option, join_group
from gpt import GPT, loss_of, stretches
from text import BYTES, read

CONTEXT, RATE, FAULT = 32, 5e-3, -5.0
RULES = ["watch", "mean", "normalized_mean", "adacons", "direction_consensus", "geometric_median", "adasum"]


def sharded(network: GPT, device: torch.device, replicas: int) -> nn.Module:
    """Each block by itself, then the rest: so one block at a time is gathered, and its gradient reduced."""
    ranks = dist.get_world_size()
    mesh = init_device_mesh(device.type, (ranks,))
    if replicas > 1:
        mesh = init_device_mesh(device.type, (replicas, ranks // replicas), mesh_dim_names=("replicate", "shard"))
    for block in network.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(network, mesh=mesh)


class Checkpoints:
    """In folders named by their step. Each rank writes its shards; what is not a tensor is saved once."""

    def __init__(self, folder: Path | None, model: nn.Module, optimizer: torch.optim.Optimizer, **others) -> None:
        self.folder, self.model, self.optimizer = folder, model, optimizer
        self.others = others  # with state_dict() and load_state_dict(), as the state of a rule has

    def _contents(self) -> dict:
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer, **self.others}

    def save(self, step: int) -> None:
        dcp.save(self._contents(), checkpoint_id=self.folder / f"{step:06d}")

    def resume(self) -> int:
        """The step to go on with: that of the last whole checkpoint, or 0."""
        whole = sorted(self.folder.glob("*/.metadata")) if self.folder is not None else []
        if not whole:
            return 0
        contents = self._contents()
        dcp.load(contents, checkpoint_id=whole[-1].parent)
        set_state_dict(
            self.model,
            self.optimizer,
            model_state_dict=contents["model"],
            optim_state_dict=contents["optimizer"],
        )
        return int(whole[-1].parent.name)


@torch.no_grad()
def validation_loss(model: nn.Module, text: torch.Tensor) -> float:
    """Over the whole text. All ranks call it, since each has a part of the model."""
    starts = torch.arange(0, len(text) - CONTEXT - 1, CONTEXT, device=text.device)
    losses = [loss_of(model, stretches(text, some, CONTEXT + 1)) * len(some) for some in starts.split(256)]
    return (sum(losses) / len(starts)).item()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--with", dest="rule", choices=["plain", *RULES], default="direction_consensus")
    parser.add_argument("--guard", type=float, help="clip a rank's part at so many times the median rank's")
    parser.add_argument("--replicas", type=int, default=1, help="HSDP: so many copies of the model, each sharded")
    parser.add_argument("--faulty", type=int, metavar="RANK", help=f"this one's gradients are {FAULT:g} times its own")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=16, help="stretches of text of one rank")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--checkpoint", type=Path, metavar="DIR", help="save there, and go on from what is there")
    parser.add_argument("--every", type=int, default=100, help="steps between two checkpoints")
    add_option(parser)
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    device = join_group(arguments.device)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if arguments.replicas < 1 or ranks % arguments.replicas:
        raise SystemExit(f"--replicas {arguments.replicas} does not divide the {ranks} ranks")
    torch.manual_seed(arguments.seed)  # fully_shard() keeps every rank's own part of what that rank has made
    train, validation = (text.to(device) for text in read())
    network = GPT(BYTES, CONTEXT, layers=2, heads=4, width=64).to(device)
    model = sharded(network, device, arguments.replicas)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.98))  # of the shards
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=arguments.steps, pct_start=0.1)

    stateful = {"schedule": schedule}
    if arguments.rule != "plain":
        options = {} if arguments.guard is None else {"guard": arguments.guard}
        stateful["rule"] = getattr(flockstep, arguments.rule)(model, **options)  # such as flockstep.adacons(model)

    checkpoints = Checkpoints(arguments.checkpoint, model, optimizer, **stateful)
    first = checkpoints.resume()
    for step in range(first, arguments.steps):
        # Drawn from the step, so that a resumed run sees the same text.
        drawn = torch.Generator().manual_seed(1000 * (10_000 * arguments.seed + step) + rank)
        starts = torch.randint(len(train) - CONTEXT - 1, (arguments.batch,), generator=drawn).to(device)
        optimizer.zero_grad()
        loss = loss_of(model, stretches(train, starts, CONTEXT + 1))
        (FAULT * loss if rank == arguments.faulty else loss).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if rank == 0 and (step + 1) % 50 == 0:
            print(f"step {step + 1}: {loss.item():.3f} nats a byte", flush=True)
        if arguments.checkpoint is not None and (step + 1) % arguments.every == 0:
            checkpoints.save(step + 1)

    reached = validation_loss(model, validation)
    if rank == 0:
        print(f"validation: {arguments.rule} {reached:.4f} nats a byte, steps {first} to {arguments.steps}", flush=True)
        for finding in stateful["rule"].findings if "rule" in stateful else []:
            print(f"finding: {finding}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
