"""A training under a rule with transfer="sketch", and its recomputation beside it."""

import sys

import flockstep
import torch
import torch.distributed as dist
from ddp_training import loss_of
from hooks_shared import wrapped
from pretended_stream import put_in_stream
from sketch_oracle import Beside, SketchedOracle

IN_STREAM = "--in-stream" in sys.argv  # as on CUDA devices


class Recorded:
    """A DDP model under a rule, and the oracle beside it."""

    def __init__(self, rule, *, model=None, **options):
        oracle = SketchedOracle(
            rule,
            length=256,
            guard=options.get("guard"),
            excludes=options.get("non_finite") == "exclude",
            patience=options.get("non_finite_patience", 5),
        )
        self.model = model or wrapped()
        self.state = flockstep.register(self.model, rule, transfer="sketch", sketch_length=256, **options)
        self.beside = Beside(self.state, oracle)
        self.same = True  # results on all ranks
        if IN_STREAM:
            put_in_stream(self.state)

    def compare(self, weights=None):
        result = self.beside.compare(weights)
        self.same = self.same and same_everywhere(result)
        return result

    def train(self, steps, change=lambda loss, step: loss, weights=None):
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)
        for step in range(steps):
            optimizer.zero_grad()
            change(loss_of(self.model, step), step).backward()
            self.compare(weights)
            if all(torch.isfinite(p.grad).all() for p in self.model.parameters()):
                optimizer.step()

    def closed(self, most):
        """Checks what came of it. Returns the last report."""
        report = self.state.report()
        self.state.close()
        assert self.beside.worst < most
        assert self.same
        assert report["guards"]["clipped"] == self.beside.oracle.clipped
        return report


def same_everywhere(tensor):
    everybody = [torch.zeros_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(everybody, tensor)
    return all(torch.equal(each.nan_to_num(1e30), tensor.nan_to_num(1e30)) for each in everybody)
