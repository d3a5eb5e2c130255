"""Cases of hooks_program.py: training beside a scaler, join and watching."""

import warnings

import flockstep
import torch
import torch.distributed as dist
from ddp_training import batch, distance, flat, loss_of, of_all
from hooks_shared import gradient_of, train, wrapped
from rule_oracle import Expected
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def a_scaler_changes_nothing():
    plain, scaled = wrapped(), wrapped()
    states = [flockstep.adacons(plain), flockstep.adacons(scaled)]
    start = torch.cat([p.detach().double().flatten() for p in plain.parameters()])
    without = train(plain, 5)
    with_scaler = train(scaled, 5, scaler=torch.amp.GradScaler("cpu", init_scale=2.0**12))
    for state in states:
        state.close()
    return distance(with_scaler - start, without - start)


def overflow(non_finite):
    """In step 1 the gradient of rank 2 overflows. What is remembered is in the units of the scale at the time."""
    model = wrapped()
    state = flockstep.adacons(model, non_finite=non_finite, guard=0.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    moved, expected, worst = [], Expected("adacons"), 0.0
    for step in range(3):
        scale = scaler.get_scale()
        gradients = [scale * gradient_of(model.module, step, rank) for rank in range(3)]
        optimizer.zero_grad()
        loss = loss_of(model, step)
        if step == 1 and dist.get_rank() == 2:
            loss = loss * float("inf")
        before = model.module.last.weight.detach().clone()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        if step != 1:
            worst = max(worst, distance(scale * flat(model.parameters()), expected(gradients)))
        elif non_finite == "exclude":
            memory = expected.rule.sorted
            worst = max(worst, distance(scale * flat(model.parameters()), expected(gradients[:2])))
            expected.rule.sorted = memory  # a step that met a guard is not remembered
        scaler.step(optimizer)
        scaler.update()
        moved.append(not torch.equal(before, model.module.last.weight))
    report = state.report()
    state.close()
    return {"moved": moved, "scale": scaler.get_scale(), "guards": report["guards"], "distance": worst}


def join(rule, then=None, **options):
    """Rank r has 4 + 3 r batches. `then`: with these options, after another rule."""
    model = wrapped()
    exact = {"transfer": "exact", "guard": 0.0}
    state = getattr(flockstep, rule)(model, **exact) if then is None else flockstep.adacons(model, **exact)
    if then is not None:
        state.set_rule(rule, guard=0.0, **then)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    expected, worst, coefficients = Expected(rule), 0.0, []
    with model.join(**options):
        for step in range(4 + 3 * dist.get_rank()):
            present = [rank for rank in range(3) if step < 4 + 3 * rank]
            want = expected([gradient_of(model.module, step, rank) for rank in present])
            if {**options, **(then or {})}.get("divide_by_initial_world_size", True) and rule == "mean":
                want = want * len(present) / 3
            optimizer.zero_grad()
            loss_of(model, step).backward()
            worst = max(worst, distance(flat(model.parameters()), want))
            coefficients.append(int((state.coefficients != 0).sum()))
            optimizer.step()
    final = torch.cat([p.detach().flatten() for p in model.parameters()])
    everybody = of_all(final)
    findings = state.findings
    state.close()
    return {
        "distance": worst,
        "counted": coefficients,
        "findings": findings,
        "equal": all(torch.equal(final, other) for other in everybody),
    }


def join_with_a_finding_to_miss():
    """A rank that sends zeros for 40 steps because it has joined is not dead."""
    model = wrapped()
    state = flockstep.watch(model)
    with model.join():
        for step in range(5 if dist.get_rank() == 1 else 45):
            loss_of(model, step).backward()
    findings = state.findings
    state.close()
    return findings


def watching_is_ddp(ranks):
    """The same gradients as DDP's own."""
    group = dist.new_group(ranks)
    outcome = None
    if dist.get_rank() in ranks:
        plain = wrapped(process_group=group)
        watched = wrapped(process_group=group)
        state = flockstep.watch(watched)
        worst, same = 0.0, True
        for step in range(4):
            for model in (plain, watched):
                model.zero_grad()
                loss_of(model, step).backward()
            got, want = flat(watched.parameters()), flat(plain.parameters())
            worst, same = max(worst, distance(got, want)), same and torch.equal(got, want)
        outcome = {
            "distance": worst,
            "same": same,
            "agreement": state.agreement.tolist(),
            "norms": state.norms.tolist(),
            "cosines": cosines([gradient_of(plain.module, 3, rank) for rank in ranks]),
            "coefficients": state.coefficients.tolist(),
            "metrics": state.metrics(),
        }
        state.close()
    dist.barrier()
    return outcome


def cosines(gradients):
    directions = torch.stack([gradient / gradient.norm() for gradient in gradients])
    return (directions @ directions.T).tolist()


def forgotten_sampler():
    """All ranks read the same data. After how many steps is it said, and how?"""
    model = wrapped()
    state = flockstep.watch(model)
    said = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(30):
            x, y = batch(step, rank=0)
            nn.functional.cross_entropy(model(x), y).backward()
            said.append(len(state.findings))
    state.close()
    return {
        "steps": said.index(1) + 1 if 1 in said else None,
        "findings": state.findings,
        "warnings": [str(each.message) for each in caught if each.category is RuntimeWarning],
    }


def one_worker_times(rule, factor):
    """The norm of the gradient where rank 1 multiplies its own, over that where it does not."""
    norms = []
    for times in (1.0, factor):
        model = wrapped()
        state = getattr(flockstep, rule)(model)
        (loss_of(model, 0) * (times if dist.get_rank() == 1 else 1.0)).backward()
        norms.append(float(flat(model.parameters()).norm()))
        state.close()
    return norms[1] / norms[0]


class OneNumber(nn.Module):
    def __init__(self):
        super().__init__()
        self.number = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return (self.number * x).sum()


def two_numbers_that_disagree(rule):
    """Gradients of 3 and -1 of a parameter of one number, by tensor; rank 2 looks on."""
    group = dist.new_group([0, 1])
    outcome = None
    if dist.get_rank() != 2:
        model = DistributedDataParallel(OneNumber(), process_group=group)
        state = getattr(flockstep, rule)(model, granularity="tensor")
        model(torch.tensor([3.0, -1.0][dist.get_rank()])).backward()
        outcome = {"gradient": model.module.number.grad.item(), "unsafe": state.report()["guards"]["unsafe"]}
        state.close()
    dist.barrier()
    return outcome


class PartlyIgnored(nn.Module):
    """A model in which DDP ignores parameters: another shape on every rank, or a gradient that no rule takes."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.shared, self.own = nn.Linear(12, 3), nn.Linear(1, 1 + 200 * dist.get_rank())
        self.table, self.precise = nn.Embedding(5, 4, sparse=True), nn.Linear(1, 1).double()
        self.elsewhere = nn.Linear(2, 2, device="meta")
        ignored = [name for name, _ in self.named_parameters() if not name.startswith("shared.")]
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(self, ignored)

    def forward(self, x):
        alone = self.own(x[:, :1]).sum() + self.table(torch.tensor([1])).sum() + self.precise(x[:, :1].double()).sum()
        return self.shared(x), alone


def ignored_parameters(rule, transfer):
    model = DistributedDataParallel(PartlyIgnored())
    state = flockstep.register(model, rule, transfer=transfer)
    expected, worst = Expected(rule), 0.0
    for step in range(3):
        x, y = batch(step)
        module = PartlyIgnored()
        nn.functional.cross_entropy(module(x)[0], y).backward()
        model.zero_grad()
        logits, alone = model(x)
        (nn.functional.cross_entropy(logits, y) + alone).backward()
        gradient = flat(model.module.shared.parameters())
        worst = max(worst, distance(gradient, expected(of_all(flat(module.shared.parameters())))))
    state.close()
    return {
        "distance": worst,
        "own": float(model.module.own.bias.grad.unique()),
        "sparse": model.module.table.weight.grad.is_sparse,
    }
