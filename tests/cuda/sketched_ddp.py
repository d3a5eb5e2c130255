"""Gradient rules on CUDA devices over NCCL, against the oracle of the tests on the CPU.

torchrun --nproc-per-node 2 tests/cuda/sketched_ddp.py

Prints a line for each check, and ends with 1 if one fails: see common.py.
"""

import functools

from common import DEVICE, ON_GPU, RANK, begin, check, finish, host_never_waits, is_same_everywhere, loss_of, wrapped  # isort: skip

import flockstep
import torch
import torch.distributed as dist
from flockstep import _native
from flockstep._scaling import Pass, StreamScaling, factor_count
from flockstep._sketch import add_sketch
from sketch_oracle import Beside, SketchedOracle, sketched
from torch.nn.parallel import DistributedDataParallel


class OnDevice(Beside):
    """What is compared lies on the CPU; collectives are NCCL's."""

    def compare(self, weights=None):
        workers = dist.get_world_size()
        everybody = []
        for part in self.sent:
            all_of_it = [torch.zeros_like(part) for _ in range(workers)]
            dist.all_gather(all_of_it, part)
            everybody.append([each.cpu() for each in all_of_it])
        key = _native.sketch_key(self.seed, self.step)
        gradients = [[part[i] for part in everybody] for i in range(workers)]
        want = torch.cat(self.oracle(gradients, weights or [1.0] * workers, (key.k0, key.k1)))
        got = torch.cat([bucket.double() for bucket in self.buckets]).cpu()
        return self.judge(got, want)


def rule_follows(rule, kind=torch.float32, steps=6, tolerance=1e-5, change=None, **options):
    model = wrapped(kind)
    state = flockstep.register(model, rule, transfer="sketch", sketch_length=256, **options)
    oracle = SketchedOracle(
        rule,
        length=256,
        guard=options.get("guard"),
        excludes=options.get("non_finite") == "exclude",
        patience=options.get("non_finite_patience", 5),
    )
    beside, same = OnDevice(state, oracle), True
    weights = None
    if rule == "weighted_mean":
        state.weight = RANK + 1.0
        weights = [rank + 1.0 for rank in range(dist.get_world_size())]
    for step in range(steps):
        model.zero_grad()
        loss = loss_of(model, step)
        (loss if change is None else loss * change(step)).backward()
        same = is_same_everywhere(beside.compare(weights).to(DEVICE)) and same
    told = state.report()
    state.close()
    name = f"{rule}, {str(kind).removeprefix('torch.')}, {options or ''}{' changed' if change else ''}"
    check(name, beside.worst < tolerance and same, f"distance {beside.worst:.1e}, same bits {same}")
    check(f"{name}: guards", told["guards"]["clipped"] == oracle.clipped and told["step"] == steps, told["guards"])


def sketches_follow():
    for size, first, length in ((10_000, 3, 1024), (5_000_000, 7, 1024), (3000, 5, 4096), (70_001, 0, 128)):
        for kind in (torch.float32, torch.bfloat16):
            bucket = torch.randn(size, device=DEVICE).to(kind)
            key = _native.sketch_key(1, size)
            z = torch.zeros(length, device=DEVICE)
            norm = add_sketch(bucket, key, first, z)
            want = sketched(bucket.cpu().double(), (key.k0, key.k1), first, length)
            apart = float((z.cpu().double() - want).norm() / want.norm())
            exact = float(bucket.double().norm())
            holds = apart < 1e-5 and abs(float(norm) / exact - 1) < 1e-9
            check(f"sketch of {size} {kind}, {length} bins", holds, f"{apart:.1e}")


class Plan:
    """What the compiled half would say about a pass of one bucket before this one."""

    by_bucket, uses_weights = False, False

    def __init__(self, size, *, is_blind, excludes):
        self.key = _native.sketch_key(3, size)
        self.is_blind, self.excludes = is_blind, excludes
        self.sizes, self.knows = [2500, size], [True, True]


def both_follow(size, kind, length, *, is_blind=False, excludes=False, share=1.0, limit=float("inf"), number=None):
    """The kernels and the torch operations, after a first bucket of 2,500 numbers."""
    first, second = (torch.randn(each, device=DEVICE).to(kind) for each in (2500, size))
    if number is not None:
        first[7] = number
    factors = torch.tensor([0, 2.5, 0.3, limit, 0.3, limit], dtype=torch.float64, device=DEVICE)
    assert factors.numel() == factor_count(2)
    found = []
    for uses_kernels in (True, True, False):
        scaling = StreamScaling(dist.group.WORLD, DEVICE, uses_kernels=uses_kernels)
        scaling.begin(factors)
        norms = torch.full((2,), -1.0, dtype=torch.float64, device=DEVICE)
        sketches = None if length is None else torch.ones(1, length, device=DEVICE)
        plan = Plan(size, is_blind=is_blind, excludes=excludes)
        current = Pass(plan, 2, 1.25, share, sketches, norms)
        buckets = [first.clone(), second.clone()]
        for bucket in buckets:
            scaling.scale(current, bucket)
        parts = [*buckets, norms] if sketches is None else [*buckets, norms, sketches.view(-1)]
        found.append([part.double().nan_to_num(1e30, 2e30, -2e30) for part in parts])
        if uses_kernels and scaling._kernels is None:
            return None
    fused, again, operations = found
    same = all(torch.equal(one, other) for one, other in zip(fused, again, strict=True))
    pairs = zip(fused, operations, strict=True)
    return same, max(float((one - other).norm() / other.norm().clamp(min=1e-30)) for one, other in pairs)


def kernels_are_operations():
    nan = float("nan")
    cases = [
        *((size, kind, 1024, {}) for size in (1, 1025, 6_553_601) for kind in (torch.float32, torch.bfloat16)),
        *((70_001, torch.float16, length, {}) for length in (1, 32, 256, 4096, 65_536, None)),
        (300_000, torch.float32, 1024, {"limit": 5.0}),
        (300_000, torch.float32, 1024, {"is_blind": True, "share": 1 / 3}),
        (300_000, torch.float32, None, {"is_blind": True, "share": None}),
        (300_000, torch.float32, 1024, {"number": nan}),
        (300_000, torch.float32, 1024, {"number": nan, "excludes": True}),
        (300_000, torch.bfloat16, 1024, {"number": float("inf"), "limit": 5.0}),
    ]
    for size, kind, length, options in cases:
        found = both_follow(size, kind, length, **options)
        holds = found is not None and found[0] and found[1] < (1e-5 if kind == torch.float32 else 1e-3)
        name = f"kernels for {size} {str(kind).removeprefix('torch.')}, {length} bins {options or ''}"
        check(name, holds, "are not there" if found is None else f"same bits {found[0]}, {found[1]:.1e}")


def mean_is_ddp():
    plain, ours = wrapped(), wrapped()
    state = flockstep.mean(ours, transfer="sketch")
    same = True
    for step in range(4):
        for model in (plain, ours):
            model.zero_grad()
            loss_of(model, step).backward()
        same = same and all(
            torch.equal(p.grad, q.grad) for p, q in zip(plain.parameters(), ours.parameters(), strict=True)
        )
    state.close()
    check("mean is DDP's to the last bit", same)


def resumed():
    through, again = wrapped(bucket_cap_mb=25), wrapped(bucket_cap_mb=25)
    states = [flockstep.direction_consensus(model, transfer="sketch", sketch_length=64) for model in (through, again)]
    for step in range(3):
        for model in (through, again):
            model.zero_grad()
            loss_of(model, step).backward()
    saved = states[1].state_dict()
    states[1].close()
    other = flockstep.DirectionConsensusState(transfer="sketch", sketch_length=64)
    other.load_state_dict(saved)
    new = DistributedDataParallel(again.module, bucket_cap_mb=25)
    new.register_comm_hook(other, flockstep.direction_consensus_hook)
    apart = 0.0
    for step in range(3, 6):
        for model in (through, new):
            model.zero_grad()
            loss_of(model, step).backward()
        for p, q in zip(through.parameters(), new.parameters(), strict=True):
            apart = max(apart, float((p.grad - q.grad).norm() / p.grad.norm().clamp(min=1e-30)))
    check("a state_dict goes on", other.step == 6 and apart < 0.2, f"distance {apart:.1e}")
    for state in (states[0], other):
        state.close()


def refused():
    model = wrapped()
    sentences = []
    for options in ({"granularity": "tensor"}, {"wire": "bfloat16"}):
        try:
            flockstep.adacons(model, transfer="sketch", **options)
        except flockstep.BadInputError as error:
            sentences.append(str(error))
    check("what needs exact gradients is refused", len(sentences) == 2, sentences[:1])


def main():
    begin()
    if ON_GPU:
        sketches_follow()
        kernels_are_operations()
    for rule in ("mean", "weighted_mean", "normalized_mean", "adacons", "direction_consensus"):
        rule_follows(rule)
    for kind, tolerance in ((torch.bfloat16, 1e-2), (torch.float16, 2e-3)):
        rule_follows("direction_consensus", kind, tolerance=tolerance)
        rule_follows(
            "direction_consensus",
            kind,
            tolerance=tolerance,
            guard=0.0,
            change=lambda step: 1000.0 if RANK == 1 else 1.0,
        )
    nan = float("nan")
    rule_follows("direction_consensus", steps=8, change=lambda step: 1000.0 if step == 3 and RANK == 1 else 1.0)
    for non_finite in ("propagate", "exclude"):
        for rule in ("mean", "direction_consensus"):
            rule_follows(
                rule, steps=8, non_finite=non_finite, change=lambda step: nan if step == 3 and RANK == 1 else 1.0
            )
            rule_follows(
                rule, steps=10, non_finite=non_finite, change=lambda step: nan if step >= 2 and RANK == 1 else 1.0
            )
    mean_is_ddp()
    if ON_GPU:
        for rule in ("mean", "adacons", "direction_consensus"):
            host_never_waits(rule, functools.partial(flockstep.register, rule=rule, transfer="sketch"))
        sketches = functools.partial(flockstep.direction_consensus, transfer="sketch")
        host_never_waits("direction_consensus, one bucket", sketches, bucket_cap_mb=25)
    resumed()
    refused()
    finish()


if __name__ == "__main__":
    main()
