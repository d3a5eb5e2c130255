"""Cases of exact_ddp.py: training with what DDP can do, states that are switched and resumed, and what is told."""

import functools
import json
import tempfile
import warnings
from pathlib import Path

import flockstep
import torch
import torch.distributed as dist
from common import (
    DEVICE,
    ON_GPU,
    RANK,
    SMALL,
    WORKERS,
    check,
    cpu_group,
    host_never_waits,
    is_same_everywhere,
    loss_of,
    wrapped,
)
from ddp_training import batch, flat, of_all, own_gradient
from exact_rules import LAST, RULES, WEIGHTS, backward, distance, given, gradients_of, joined, weigh
from rule_oracle import Expected
from torch import nn
from torch.nn.parallel import DistributedDataParallel

NEAR = 1e-5  # gradients are computed twice here, and may round otherwise


def gradient_of(module, step, rank, **options):
    """Any rank's, computed here: all have the same model."""

    def run_backward(replica):
        x, y = batch(step, rank=rank)
        nn.functional.cross_entropy(replica(x.to(DEVICE), **options), y.to(DEVICE)).backward()

    return own_gradient(module, run_backward).cpu()


def result_of(model):
    return flat(model.module.parameters()).cpu()


def simple(model, step, **options):
    loss_of(model, step, **options).backward()


def trained(name, rule, run_backward=simple, ddp=None, **options):
    """A few steps of SGD, each compared with the rule over everybody's gradient."""
    model = wrapped(**(ddp or {}))
    state = flockstep.register(model, rule, transfer="exact", guard=0.0, **options)
    weigh(state, rule)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    expected, worst, same = Expected(rule), 0.0, True
    for step in range(4):
        mine = own_gradient(model.module, lambda replica, step=step: run_backward(replica, step)).cpu()
        optimizer.zero_grad()
        run_backward(model, step)
        got = result_of(model)
        worst = max(worst, distance(got, expected(of_all(mine, cpu_group()), WEIGHTS)))
        same = is_same_everywhere(got.to(DEVICE)) and same
        optimizer.step()
    state.close()
    check(name, worst < NEAR and same, f"distance {worst:.1e}, same bits {same}")


def accumulated(model, step):
    """Two backward passes, of which DDP exchanges the second."""
    if isinstance(model, DistributedDataParallel):
        with model.no_sync():
            simple(model, 2 * step)
    else:
        simple(model, 2 * step)
    simple(model, 2 * step + 1)


def partly_used(model, step):
    """In step 1 nobody uses the extra layer, in step 2 only rank 0 does."""
    simple(model, step, uses_extra=step != 1 and (step != 2 or RANK == 0))


def features_of_ddp():
    for rule in ("mean", "adacons", "adasum"):
        trained(f"{rule}, no_sync", rule, accumulated)
        trained(f"{rule}, find_unused_parameters", rule, partly_used, {"find_unused_parameters": True})
        trained(f"{rule}, static_graph", rule, ddp={"static_graph": True})
        trained(f"{rule}, gradient_as_bucket_view", rule, ddp={"gradient_as_bucket_view": True})


def joined_unevenly():
    """Rank r has 3 + 2 r batches."""
    model = wrapped()
    state = flockstep.adacons(model, transfer="exact", guard=0.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    expected, worst, counted = Expected("adacons"), 0.0, True
    with model.join():
        for step in range(3 + 2 * RANK):
            present = [rank for rank in range(WORKERS) if step < 3 + 2 * rank]
            want = expected([gradient_of(model.module, step, rank) for rank in present])
            optimizer.zero_grad()
            simple(model, step)
            worst = max(worst, distance(result_of(model), want))
            counted = counted and int((state.coefficients != 0).sum()) == len(present)
            optimizer.step()
    final = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    findings = state.findings
    state.close()
    holds = worst < NEAR and counted and is_same_everywhere(final) and not findings
    check("join() with uneven batches", holds, f"distance {worst:.1e}, all that train count {counted}, {findings}")


def scaled(policy):
    """In step 1 the gradient of the last rank overflows: with `propagate` all ranks skip the step and back off."""
    model = wrapped()
    state = flockstep.adacons(model, transfer="exact", guard=0.0, non_finite=policy)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    scaler = torch.amp.GradScaler(DEVICE.type, init_scale=1024.0)
    moved = []
    for step in range(4):
        optimizer.zero_grad()
        x, y = batch(step)
        with torch.autocast(DEVICE.type, torch.float16 if ON_GPU else torch.bfloat16):
            scores = model(x.to(DEVICE))
        loss = nn.functional.cross_entropy(scores.float(), y.to(DEVICE))
        if step == 1 and RANK == LAST:
            loss = loss * float("inf")
        before = model.module.last.weight.detach().clone()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        moved.append(not torch.equal(before, model.module.last.weight))
    guards, scale = state.report()["guards"], scaler.get_scale()
    weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    state.close()
    skips = policy == "propagate" or WORKERS == 1
    holds = (
        moved == [True, not skips, True, True] and scale == (512.0 if skips else 1024.0) and guards["non_finite"] == 1
    )
    if WORKERS == 1 and policy == "exclude":
        holds = True  # nobody is left to say anything
    check(f"GradScaler, {policy}", holds and is_same_everywhere(weights), f"moved {moved}, scale {scale}, {guards}")


def starting_later():
    model = given()
    state = flockstep.normalized_mean(model, transfer="exact", guard=0.0, start_step=2)
    rules, worst = [], 0.0
    for step in range(4):
        backward(model, gradients_of(step, RANK))
        rules.append(state.rule)
        want = Expected(rules[-1])([joined(gradients_of(step, rank)) for rank in range(WORKERS)])
        worst = max(worst, distance(joined(part.grad for part in model.module.parts), want))
    state.close()
    right = rules == ["mean", "mean", "normalized_mean", "normalized_mean"]
    check("start_step", right and worst < 1e-6, f"distance {worst:.1e}, {rules}")


def switched():
    """Each rank asks one step later than the one before: all switch with the last, on GPUs one step later."""
    model = given()
    later = int(ON_GPU)
    state = flockstep.mean(model, transfer="exact", guard=0.0)
    expected = {"mean": Expected("mean"), "adacons": Expected("adacons", beta=0.5)}
    rules, worst = [], 0.0
    for step in range(WORKERS + 3):
        if step == RANK + 1:
            state.set_rule("adacons", beta=0.5, guard=0.0)
        backward(model, gradients_of(step, RANK))
        rules.append(state.rule)
        everybody = [joined(gradients_of(step, rank)) for rank in range(WORKERS)]
        worst = max(worst, distance(joined(part.grad for part in model.module.parts), expected[rules[-1]](everybody)))
    state.close()
    check(
        "set_rule() during training",
        rules == ["mean"] * (WORKERS + later) + ["adacons"] * (3 - later) and worst < 1e-6,
        f"distance {worst:.1e}, {rules}",
    )


def resumed():
    """Three steps, then three more in another life: as six in one."""
    for rule, make, hook in (
        ("adacons", flockstep.AdaConsState, flockstep.adacons_hook),
        ("direction_consensus", flockstep.DirectionConsensusState, flockstep.direction_consensus_hook),
    ):
        through, model = given(), given()
        states = [flockstep.register(each, rule, transfer="exact", guard=0.0) for each in (through, model)]
        for step in range(3):
            for each in (through, model):
                backward(each, gradients_of(step, RANK))
        saved = states[1].state_dict()
        states[1].close()
        other = make(transfer="exact", guard=0.0)
        other.load_state_dict(saved)
        again = DistributedDataParallel(model.module, **SMALL)
        again.register_comm_hook(other, hook)
        worst = 0.0
        for step in range(3, 6):
            for each in (through, again):
                backward(each, gradients_of(step, RANK))
            got, want = (joined(part.grad for part in each.module.parts) for each in (again, through))
            worst = max(worst, distance(got, want))
        steps = other.step
        for state in (states[0], other):
            state.close()
        check(f"a state_dict of {rule} goes on", worst < 1e-6 and steps == 6, f"distance {worst:.1e}")


def findings_after(steps, gradients, rule="mean"):
    """Of a training in which this rank sends `gradients(step)`; and what was said as warnings."""
    model = given()
    state = flockstep.register(model, rule, transfer="exact", guard=0.0, watch=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(steps):
            backward(model, gradients(step))
        findings = state.findings
        state.close()
    said = [str(each.message) for each in caught if each.category is RuntimeWarning]
    return findings, said


def minus_five_times(step):
    """Gradients that agree well, but for the last rank's sign."""
    common, own = gradients_of(step, 0), gradients_of(step, RANK)
    times = -5 if RANK == LAST else 1
    return [times * (ours + 0.2 / (0.5 + RANK) * mine) for ours, mine in zip(common, own, strict=True)]


def found():
    if WORKERS == 1:
        return
    for rule in ("mean", "adacons"):
        same, said = findings_after(25, lambda step: gradients_of(step, 0 if RANK == LAST else RANK), rule)
        holds = len(same) == 1 and f"workers 0 and {LAST} sent the same gradient" in same[0]
        check(f"{rule}: a rank that reads another's data", holds and bool(said) == (RANK == 0), same)
        opposed, _ = findings_after(60, minus_five_times, rule)
        sentence = "point against each other" if WORKERS == 2 else f"worker {LAST} points against the others"
        check(f"{rule}: a rank at -5 g", any(sentence in each for each in opposed), opposed)
        none, said = findings_after(25, lambda step: gradients_of(step, RANK), rule)
        check(f"{rule}: nothing where nothing is wrong", not none and not said, none)


def recorded():
    """What run_dir holds, and that figures are there."""
    folder = [tempfile.mkdtemp() if RANK == 0 else None]
    dist.broadcast_object_list(folder, src=0, group=cpu_group())
    model = given()
    state = flockstep.adacons(model, transfer="exact", guard=0.0, run_dir=Path(folder[0]) / "run")
    for step in range(6):
        backward(model, gradients_of(step, RANK))
        state.record(loss=1.0 / (step + 1))
    report, metrics = state.report(), state.metrics()
    state.close()
    dist.barrier()
    files = {path.name: path for path in (Path(folder[0]) / "run").rglob("*") if path.is_file()}
    lines = files["metrics.jsonl"].read_text().splitlines() if "metrics.jsonl" in files else []
    holds = report["step"] == 6 and report["rule"] == "adacons" and "loss" in " ".join(metrics)
    check("report() and metrics()", holds, sorted(metrics)[:6])
    written = "trace.json" in files and len(lines) >= 6 and all(isinstance(json.loads(line), dict) for line in lines)
    check("run_dir", written, f"{sorted(files)}, {len(lines)} lines")


def host_waits_nowhere():
    if not ON_GPU:
        return
    for rule in RULES:
        host_never_waits(
            f"{rule}, exact", functools.partial(flockstep.register, rule=rule, transfer="exact", guard=0.0)
        )
    for options in (
        {"granularity": "bucket"},
        {"granularity": "tensor"},
        {"wire": "bfloat16"},
        {"non_finite": "exclude"},
    ):
        register = functools.partial(flockstep.adacons, transfer="exact", guard=0.0, **options)
        host_never_waits(f"adacons, exact, {options}", register)
    one = functools.partial(flockstep.adacons, transfer="exact", guard=0.0)
    host_never_waits("adacons, exact, one bucket", one, bucket_cap_mb=25)


def refused():
    apart = wrapped()
    apart.module.last = apart.module.last.to("cpu" if ON_GPU else "meta")
    sentence = ""
    try:
        flockstep.adacons(apart, transfer="exact", guard=0.0)
    except flockstep.BadInputError as error:
        sentence = str(error)
    check("a model on two devices is refused", "parameters are on several devices" in sentence, sentence)


CASES = {
    "features_of_ddp": features_of_ddp,
    "joined_unevenly": joined_unevenly,
    "scaled_propagate": functools.partial(scaled, "propagate"),
    "scaled_exclude": functools.partial(scaled, "exclude"),
    "starting_later": starting_later,
    "switched": switched,
    "resumed": resumed,
    "found": found,
    "recorded": recorded,
    "host_waits_nowhere": host_waits_nowhere,
    "refused": refused,
}
