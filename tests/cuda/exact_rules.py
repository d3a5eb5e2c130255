"""Cases of exact_ddp.py: every rule and option against the oracle, with gradients that all ranks know.

The loss is a sum of products, so that the gradient is what was given, to the last bit, and no rank has to ask another.
"""

import flockstep
import torch
from common import DEVICE, RANK, SMALL, WORKERS, check, cpu_group, is_same_everywhere
from rule_oracle import RULES, Expected, mean
from torch import nn
from torch.nn.parallel import DistributedDataParallel

SHAPES = [(12, 40), (40,), (40, 40), (40,), (3, 41), (1,), (7,), (2, 513)]
ON_DIRECTIONS = ("normalized_mean", "adacons", "direction_consensus", "geometric_median")
LAST = WORKERS - 1
# What a result in these types may be off by; the coefficients are good to six digits.
ROUNDING = {torch.float32: 1e-6, torch.bfloat16: 4e-3, torch.float16: 5e-4}
WEIGHTS = [1.0 + rank for rank in range(WORKERS)]


def weigh(state, rule):
    """Other rules refuse a weight."""
    if rule == "weighted_mean":
        state.weight = WEIGHTS[RANK]


class Given(nn.Module):
    """A model whose gradient is what it is given."""

    def __init__(self, kind=torch.float32):
        super().__init__()
        self.parts = nn.ParameterList(nn.Parameter(torch.zeros(shape, dtype=kind)) for shape in SHAPES)

    def forward(self, gradients):
        return sum((part * gradient).sum().float() for part, gradient in zip(self.parts, gradients, strict=True))


def gradients_of(step, rank, kind=torch.float32):
    """Any rank's, on the CPU: their norms differ, and they agree in part."""
    own, common = torch.Generator().manual_seed(1000 * step + rank + 1), torch.Generator().manual_seed(1000 * step)
    return [
        ((0.5 + rank) * (torch.randn(shape, generator=own) + torch.randn(shape, generator=common))).to(kind)
        for shape in SHAPES
    ]


def joined(parts):
    return torch.cat([part.detach().cpu().double().flatten() for part in parts])


def results_of(model):
    return joined(part.grad for part in model.module.parts)


def backward(model, gradients):
    """On the device where the model is."""
    model.zero_grad()
    device = model.module.parts[0].device
    model([gradient.to(device) for gradient in gradients]).backward()


def distance(got, want):
    return float((got - want).norm() / want.norm().clamp(min=1e-30))


def given(kind=torch.float32, device=DEVICE, group=None, **options):
    return DistributedDataParallel(Given(kind).to(device), process_group=group, **{**SMALL, **options})


def at_magnitude(rule, magnitude, beta=None):
    """The oracle of a rule whose result has another norm than by default."""
    expected = Expected(rule, **({} if beta is None else {"beta": beta}))

    def result(gradients, weights=None):
        if magnitude is None or (magnitude == "matched" and rule in ON_DIRECTIONS):
            return expected(gradients, weights)
        own = expected.rule(gradients, weights)
        norms = torch.stack([gradient.norm() for gradient in gradients])
        to = {"mean_norm": mean(gradients).norm(), "median_norm": torch.quantile(norms, 0.5)}
        return own if magnitude == "own" else own * to[magnitude] / own.norm()

    return result


def follows(name, rule, *, kind=torch.float32, steps=4, tolerance=None, ddp=None, **options):
    """A rule over a few steps, the whole model as one."""
    model = given(kind, **(ddp or {}))
    state = flockstep.register(model, rule, transfer="exact", guard=0.0, **options)
    weigh(state, rule)
    expected = at_magnitude(rule, options.get("magnitude"), options.get("beta"))
    worst, same = 0.0, True
    for step in range(steps):
        backward(model, gradients_of(step, RANK, kind))
        got = results_of(model)
        everybody = [joined(gradients_of(step, rank, kind)) for rank in range(WORKERS)]
        worst = max(worst, distance(got, expected(everybody, WEIGHTS)))
        same = is_same_everywhere(got.to(DEVICE)) and same
    counted = state.step
    state.close()
    tolerance = tolerance or ROUNDING[kind]
    check(name, worst < tolerance and same and counted == steps, f"distance {worst:.1e}, same bits {same}")


def every_rule():
    for rule in RULES:
        follows(rule, rule)
        follows(f"{rule}, one bucket", rule, ddp={"bucket_cap_mb": 25})
        follows(f"{rule}, without watching", rule, watch=False)


def every_magnitude():
    for rule in (*ON_DIRECTIONS, "adasum", "mean"):
        for magnitude in ("own", "mean_norm", "median_norm", "matched"):
            if magnitude != "matched" or rule in ON_DIRECTIONS:
                follows(f"{rule}, {magnitude}", rule, magnitude=magnitude)


def every_type():
    for rule in RULES:
        for kind in (torch.bfloat16, torch.float16):
            follows(f"{rule} in {kind}", rule, kind=kind)


def every_wire():
    for rule in RULES:
        follows(f"{rule}, float32 on the wire", rule, wire="float32")
        follows(f"{rule}, bfloat16 on the wire", rule, wire="bfloat16", tolerance=1e-2)
    follows(
        "adacons of bfloat16, bfloat16 on the wire", "adacons", kind=torch.bfloat16, wire="bfloat16", tolerance=1e-2
    )


def by_tensor():
    for rule in RULES:
        model = given()
        state = flockstep.register(model, rule, transfer="exact", guard=0.0, granularity="tensor")
        weigh(state, rule)
        expected = [Expected(rule) for _ in SHAPES]
        worst = 0.0
        for step in range(4):
            everybody = [gradients_of(step, rank) for rank in range(WORKERS)]
            backward(model, everybody[RANK])
            for k, part in enumerate(model.module.parts):
                want = expected[k]([joined([gradients[k]]) for gradients in everybody], WEIGHTS)
                # One number has no direction but a sign: workers may cancel, and the plain mean is taken.
                if part.numel() > 1:
                    worst = max(worst, distance(joined([part.grad]), want))
        state.close()
        check(f"{rule}, by tensor", worst < 1e-6, f"distance {worst:.1e}")


class Buckets:
    """Which parameters came in which bucket of the last backward pass."""

    def __init__(self, state, model):
        self._places = {part.data_ptr(): k for k, part in enumerate(model.module.parts)}
        self._add, state._add = state._add, self._take
        self.parts = []

    def _take(self, bucket):
        self.parts.append([self._places[part.data_ptr()] for part in bucket.parameters()])
        return self._add(bucket)


def by_bucket():
    for rule in RULES:
        model = given()
        state = flockstep.register(model, rule, transfer="exact", guard=0.0, granularity="bucket")
        weigh(state, rule)
        buckets, expected, known, worst = Buckets(state, model), [], [], 0.0
        for step in range(5):
            buckets.parts = []
            everybody = [gradients_of(step, rank) for rank in range(WORKERS)]
            backward(model, everybody[RANK])
            if buckets.parts != known:  # rebuilt: what is remembered of them starts anew
                known, expected = buckets.parts, [Expected(rule) for _ in buckets.parts]
            for parts, each in zip(known, expected, strict=True):
                want = each([joined(gradients[k] for k in parts) for gradients in everybody], WEIGHTS)
                worst = max(worst, distance(joined(model.module.parts[k].grad for k in parts), want))
        state.close()
        check(f"{rule}, by bucket", worst < 1e-6 and len(known) > 1, f"distance {worst:.1e}, {len(known)} buckets")


def as_on_the_cpu(wild=1.0):
    """A copy of the model on the CPU, over Gloo, with the same gradients: the same coefficients, and what is told.

    In step 3 the last rank's gradient is `wild` times as long, which a guard cuts.
    """
    for rule in RULES:
        models = [given(), given(device="cpu", group=cpu_group())]
        states = [flockstep.register(model, rule, transfer="exact") for model in models]
        apart = results = 0.0
        for step in range(5):
            times = wild if step == 3 and RANK == LAST else 1.0
            for model, state in zip(models, states, strict=True):
                weigh(state, rule)
                backward(model, [times * gradient for gradient in gradients_of(step, RANK)])
            ours, cpu = (state.coefficients for state in states)
            apart = max(apart, distance(ours, cpu))
            results = max(results, distance(*map(results_of, models)))
            for name in ("norms", "agreement"):
                ours, cpu = (getattr(state, name) for state in states)
                apart = max(apart, float(ours is not cpu) if ours is None or cpu is None else distance(ours, cpu))
        ours, cpu = (state.report() for state in states)
        ours_metrics, cpu_metrics = (state.metrics() for state in states)
        for state in states:
            state.close()
        told = f"coefficients {apart:.1e}, results {results:.1e}"
        name = rule if wild == 1 else f"{rule}, once {wild:g} times"
        check(f"{name}: as on the CPU", apart < 1e-6 and results < 1e-6, told)
        same = all(ours[key] == cpu[key] for key in ("rule", "step", "event", "guards")) and ours.keys() == cpu.keys()
        check(f"{name}: tells the same", same and ours_metrics.keys() == cpu_metrics.keys(), ours["guards"])


class NonFinite:
    """What comes of it if the last rank is not finite in some steps: with `propagate` nothing finite, until patience is
    at its end and if it is not one of two; with `exclude` what the others say. A step that met a guard is not remembered; one without a rank that was
    left out is, as if that rank had joined."""

    def __init__(self, rule, excludes, patience=5):
        self.expected, self.excludes, self.patience = Expected(rule), excludes, patience
        self.run = 0

    def __call__(self, gradients, is_broken):
        """None where the result is not to be finite."""
        left_out = WORKERS > 2 and 0 < self.patience <= self.run  # one of two is no minority
        self.run = self.run + 1 if is_broken else 0
        if not is_broken:
            return self.expected(gradients, WEIGHTS)
        if not self.excludes and not left_out:
            return None
        rule = self.expected.rule
        before = {name: getattr(rule, name) for name in ("sorted", "memory") if hasattr(rule, name)}
        if "memory" in before:
            rule.memory = rule.memory[:LAST]
        want = self.expected(gradients[:LAST], WEIGHTS[:LAST])
        if not left_out:
            for name, value in before.items():
                setattr(rule, name, value)
        elif "memory" in before:
            rule.memory = torch.cat([rule.memory, before["memory"][LAST:]])
        return want


def non_finite(rule, policy, number, steps, broken):
    model = given()
    # With the guard, where it would not cut: plain averaging without one looks at nothing, and leaves nobody out.
    options = {"guard": 0.0} if rule in ("weighted_mean", "adasum") else {}
    state = flockstep.register(model, rule, transfer="exact", non_finite=policy, **options)
    weigh(state, rule)
    expected, worst, wrong, same = NonFinite(rule, policy == "exclude"), 0.0, [], True
    for step in range(steps):
        mine = gradients_of(step, RANK)
        if step in broken and RANK == LAST:
            mine[2][1, 3] = number
        backward(model, mine)
        got = results_of(model)
        same = is_same_everywhere(got.to(DEVICE)) and same
        want = expected([joined(gradients_of(step, rank)) for rank in range(WORKERS)], step in broken)
        if want is None:
            wrong += [step] if torch.isfinite(got).all() else []
        else:
            wrong += [] if torch.isfinite(got).all() else [step]
            worst = max(worst, distance(got.nan_to_num(0), want))
    guards = state.report()["guards"]
    state.close()
    name = f"{rule}, {policy}, {number} in steps {broken.start} to {broken.stop - 1}"
    check(name, worst < 1e-6 and not wrong and same, f"distance {worst:.1e}, wrong {wrong}, same bits {same}, {guards}")


def guarded_as_on_the_cpu():
    as_on_the_cpu(1000.0)


def non_finite_ranks():
    if WORKERS == 1:
        return
    for rule in RULES:
        for policy in ("propagate", "exclude"):
            non_finite(rule, policy, float("nan"), 5, range(2, 3))
    for policy in ("propagate", "exclude"):
        for rule in ("mean", "adacons", "direction_consensus"):
            non_finite(rule, policy, float("inf"), 10, range(2, 10))
            non_finite(rule, policy, float("nan"), 11, range(2, 9))


CASES = {
    case.__name__: case
    for case in (
        every_rule,
        every_magnitude,
        every_type,
        every_wire,
        by_tensor,
        by_bucket,
        as_on_the_cpu,
        guarded_as_on_the_cpu,
        non_finite_ranks,
    )
}
