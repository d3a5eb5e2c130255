"""A training under a rule with transfer="sketch", and its recomputation beside it."""

import sys

import flockstep
import torch
import torch.distributed as dist
from ddp_training import loss_of, made
from hooks_shared import SMALL
from pretended_stream import put_in_stream
from sketch_oracle import Beside, SketchedOracle
from torch.nn.parallel import DistributedDataParallel

STEPS = 6
IN_STREAM = "--in-stream" in sys.argv  # as on CUDA devices


class Recorded:
    """A DDP model under a rule, and the oracle beside it."""

    def __init__(self, rule, *, model=None, group=None, **options):
        oracle = SketchedOracle(
            rule,
            length=256,
            guard=options.get("guard"),
            excludes=options.get("non_finite") == "exclude",
            patience=options.get("non_finite_patience", 5),
        )
        self.model = model or DistributedDataParallel(made(), process_group=group, **SMALL)
        self.state = flockstep.register(self.model, rule, transfer="sketch", sketch_length=256, **options)
        self.beside = Beside(self.state, oracle, group=group)
        if IN_STREAM:
            put_in_stream(self.state)


def same_everywhere(tensor, group=None):
    everybody = [torch.zeros_like(tensor) for _ in range(dist.get_world_size(group))]
    dist.all_gather(everybody, tensor, group=group)
    return all(torch.equal(each.nan_to_num(1e30), tensor.nan_to_num(1e30)) for each in everybody)


def train(recorded, steps=STEPS, change=lambda loss, step: loss, weights=None):
    same = True
    optimizer = torch.optim.SGD(recorded.model.parameters(), lr=0.05)
    for step in range(steps):
        optimizer.zero_grad()
        change(loss_of(recorded.model, step), step).backward()
        same = same_everywhere(recorded.beside.compare(weights)) and same
        if all(torch.isfinite(p.grad).all() for p in recorded.model.parameters()):
            optimizer.step()
    return same


def outcome_of(recorded, same):
    report = recorded.state.report()
    recorded.state.close()
    return {
        "distance": recorded.beside.worst,
        "same": same,
        "step": report["step"],
        "clipped": report["guards"]["clipped"],
        "expected clipped": recorded.beside.oracle.clipped,
        "coefficients": report["coefficients"],
        "event": report["event"],
    }
