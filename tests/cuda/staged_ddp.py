"""Gradient rules with transfer="exact" on CUDA devices over Gloo, against the same training in main memory: equal bits.

torchrun --nproc-per-node 2 tests/cuda/staged_ddp.py

Ranks beyond the number of GPUs share them. Prints a line for each check, and ends with 1 if one fails. With --device cpu
it compares main memory with itself, which tries the program out.
"""

import argparse
import os
import sys
from datetime import timedelta
from pathlib import Path

RANK = int(os.environ["RANK"])
sys.path[:0] = [str(Path(__file__).parents[1] / "python"), str(Path(__file__).parents[1])]

import flockstep  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

SIZES = ((300,), (40, 40), (1,), (1200,), (8, 8), (2_500_000,))
CPU = torch.device("cpu")
NAN = float("nan")
failures = 0


def device_given():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    kind = parser.parse_args().device
    if kind == "cuda" and not torch.cuda.is_available():
        print("skipped: torch finds no CUDA device", flush=True)
        sys.exit(0)
    return torch.device("cuda", RANK % torch.cuda.device_count()) if kind == "cuda" else torch.device(kind)


DEVICE = device_given()


def check(name, holds, told=""):
    """The same on all ranks: it holds where it does on each."""
    global failures
    everywhere = torch.tensor([int(bool(holds))])
    dist.all_reduce(everywhere, dist.ReduceOp.MIN)
    failures += int(everywhere.item() == 0)
    if RANK == 0:
        print(f"{'ok  ' if everywhere.item() else 'FAIL'} {name} {told}", flush=True)


def gradients_for(step, kind, change=1.0):
    generator = torch.Generator().manual_seed(100 * step + RANK)
    return [((torch.randn(size, generator=generator) + 0.1) * change).to(kind) for size in SIZES]


class Breaks(torch.autograd.Function):
    """A layer whose backward raises where it is told to."""

    @staticmethod
    def forward(context, x, breaks):
        context.breaks = breaks
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        if context.breaks:
            raise ValueError("something in backward")
        return gradient, None


class Given(nn.Module):
    """Its gradient is what it is given, to the last bit, on every device."""

    def __init__(self, kind):
        super().__init__()
        generator = torch.Generator().manual_seed(7)
        self.weights = nn.ParameterList(torch.randn(size, generator=generator).to(kind) for size in SIZES)
        self.breaks = False

    def forward(self, gradients):
        weights = list(self.weights)
        weights[2] = Breaks.apply(weights[2], self.breaks)
        return sum((w * g).sum().float() for w, g in zip(weights, gradients, strict=True))


class Training:
    """One of the two: updates are by powers of two, so that they round alike."""

    def __init__(self, device, rule, kind, **options):
        self.device, self.kind = device, kind
        self.model = DistributedDataParallel(Given(kind).to(device), bucket_cap_mb=0.01)
        self.state = flockstep.register(self.model, rule, transfer="exact", **options)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.5, foreach=False)

    def backward(self, step, change=1.0):
        gradients = [g.to(self.device) for g in gradients_for(step, self.kind, change)]
        if self.device.type == "cuda":  # so that the gradients come late
            torch.cuda._sleep(20_000_000)
            gradients = [g.clone() for g in gradients]
        self.model(gradients).backward()

    def step(self, step, change=1.0):
        self.optimizer.zero_grad()
        self.backward(step, change)
        self.optimizer.step()
        return self.numbers()

    def numbers(self):
        parts = [*(p.grad for p in self.model.parameters()), *self.model.parameters()]
        return [part.detach().cpu().float().nan_to_num(1e30, 2e30, -2e30) for part in parts]


def pair(rule, kind=torch.float32, **options):
    return [Training(device, rule, kind, **options) for device in (CPU, DEVICE)]


def are_equal(here, there):
    return all(torch.equal(x, y) for x, y in zip(here, there, strict=True))


def told_alike(here, there):
    reports = [training.state.report() for training in (here, there)]
    keys = ("coefficients", "norms", "event", "guards", "step")
    return all(repr(reports[0].get(key)) == repr(reports[1].get(key)) for key in keys)


def end(*trainings):
    for training in trainings:
        training.state.close()


def follows(rule, kind=torch.float32, steps=5, change=None, **options):
    here, there = pair(rule, kind, **options)
    same = True
    for step in range(steps):
        factor = 1.0 if change is None else change(step)
        same = are_equal(here.step(step, factor), there.step(step, factor)) and same
    alike, found = told_alike(here, there), here.state.findings == there.state.findings
    end(here, there)
    name = f"{rule}, {str(kind).removeprefix('torch.')} {options or ''}{' changed' if change else ''}"
    check(name, same and alike and found, f"same bits {same}, same report {alike}, same findings {found}")


def accumulates():
    here, there = pair("adacons")
    for training in (here, there):
        for step in range(4):
            training.optimizer.zero_grad()
            with training.model.no_sync():
                training.backward(step, 0.5)
            training.backward(step + 10)
            training.optimizer.step()
    check("no_sync", are_equal(here.numbers(), there.numbers()) and there.state.step == 4)
    end(here, there)


def joins():
    here, there = pair("direction_consensus")
    for training in (here, there):
        with training.model.join():
            for step in range(3 + 2 * RANK):
                training.step(step)
    check("join", are_equal(here.numbers(), there.numbers()), f"{there.state.step} steps")
    end(here, there)


def breaks_off():
    """Rank 1's second pass raises: all ranks fail in it, and go on alike."""
    here, there = pair("adacons")
    outcomes = []
    for training in (here, there):
        training.step(0)
        training.model.module.breaks = RANK == 1
        try:
            training.step(1)
            outcomes.append("nothing was raised")
        except Exception as error:
            outcomes.append(type(error).__name__)
        training.model.module.breaks = False
        training.step(2)
    same = are_equal(here.numbers(), there.numbers())
    check("a backward pass that breaks off", same and outcomes[0] == outcomes[1] != "nothing was raised", outcomes)
    end(here, there)


def rules_change():
    here, there = pair("adacons", start_step=2)
    same = True
    for step in range(8):
        if step == 5:
            for training in (here, there):
                training.state.set_rule("adasum")
        same = are_equal(here.step(step), there.step(step)) and same
    check("start_step and set_rule", same and there.state.rule == "adasum")
    end(here, there)


def resumed():
    (here, there), again = pair("adacons"), pair("adacons")
    for step in range(3):
        here.step(step)
        there.step(step)
    for old, new in zip((here, there), again, strict=True):
        new.state.load_state_dict(old.state.state_dict())
        new.model.module.load_state_dict(old.model.module.state_dict())
    through, other = there.step(3), again[1].step(3)
    check("a state_dict goes on", are_equal(through, other) and are_equal(here.step(3), again[0].step(3)))
    end(here, there, *again)


def main():
    if DEVICE.type == "cuda":
        torch.cuda.set_device(DEVICE)
    dist.init_process_group("cpu:gloo,cuda:gloo", timeout=timedelta(seconds=60))
    for rule in ("mean", "weighted_mean", "adacons", "direction_consensus", "adasum", "geometric_median"):
        follows(rule)
    for kind in (torch.bfloat16, torch.float16):
        for rule in ("mean", "adacons"):
            follows(rule, kind)
    follows("adacons", granularity="tensor")
    follows("adacons", granularity="bucket")
    follows("adacons", wire="bfloat16")
    follows("mean", watch=True)
    for non_finite in ("propagate", "exclude"):
        follows("adacons", non_finite=non_finite, change=lambda step: NAN if step == 2 and RANK == 1 else 1.0)
    follows("adacons", change=lambda step: 1000.0 if step == 3 and RANK == 1 else 1.0)
    accumulates()
    joins()
    breaks_off()
    rules_change()
    resumed()
    dist.destroy_process_group()
    sys.exit(int(failures > 0))


if __name__ == "__main__":
    main()
