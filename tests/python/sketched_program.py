"""Gradient rules with transfer="sketch": how far results are from a recomputation, bucket by bucket, and what else holds."""

import contextlib
import copy
import functools
import gc
import math
import os
import pickle
import signal
import threading
import time
import warnings

import flockstep
import torch
import torch.distributed as dist
from cases import CASE_S, run
from ddp_training import loss_of, made
from hooks_shared import SMALL, Breaks, refusal
from pretended_stream import calls, pretended
from rule_oracle import RULES
from sketched_training import IN_STREAM, Recorded, outcome_of, same_everywhere, train
from torch.nn.parallel import DistributedDataParallel


def rule_of(rule):
    recorded = Recorded(rule)
    weights = None
    if rule == "weighted_mean":
        recorded.state.weight = dist.get_rank() + 1.0
        weights = [rank + 1.0 for rank in range(dist.get_world_size())]
    return outcome_of(recorded, train(recorded, weights=weights))


def times(factor, steps, *, rank=1, rule="direction_consensus", **options):
    """One rank's gradient is multiplied in some steps."""
    recorded = Recorded(rule, **options)

    def change(loss, step):
        return loss * factor if step in steps and dist.get_rank() == rank else loss

    return outcome_of(recorded, train(recorded, 9, change))


def all_times(factor, from_step):
    recorded = Recorded("direction_consensus")
    return outcome_of(recorded, train(recorded, 8, lambda loss, step: loss * factor if step >= from_step else loss))


def never_finite(**options):
    """All ranks' gradients in ten steps on end, as under a gradient scaler."""
    recorded = Recorded("direction_consensus", **options)
    finite = []
    for step in range(14):
        recorded.model.zero_grad()
        (loss_of(recorded.model, step) * (math.nan if 2 <= step < 12 else 1)).backward()
        finite.append(bool(recorded.beside.compare().isfinite().all()))
    return {**outcome_of(recorded, True), "finite": finite}


def said(rule, transfer, factors):
    """The findings and warnings of a training in which the ranks' gradients are multiplied, each by a number of its own."""
    model = DistributedDataParallel(made(), **SMALL)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        state = flockstep.register(model, rule, transfer=transfer)
        for step in range(24):
            model.zero_grad()
            (loss_of(model, step) * factors[dist.get_rank()]).backward()
        findings = state.findings
        state.close()
    return {"findings": findings, "warnings": [str(each.message) for each in caught]}


def mean_is_ddp(ranks, rule="mean", **options):
    """To the last bit, also where one worker's gradient is 50 times as long as the others'."""
    group = dist.new_group(ranks)
    same = None
    if dist.get_rank() in ranks:
        plain, ours = (DistributedDataParallel(made(), process_group=group, **SMALL) for _ in range(2))
        state = flockstep.register(ours, rule, **options)
        same = True
        for step in range(4):
            for model in (plain, ours):
                model.zero_grad()
                (loss_of(model, step) * (50 if step > 0 and dist.get_rank() == 2 else 1)).backward()
            pairs = zip(plain.parameters(), ours.parameters(), strict=True)
            same = same and all(torch.equal(p.grad, q.grad) for p, q in pairs)
        clipped = state.report()["guards"]["clipped"]
        state.close()
        same = {"same": same, "clipped": clipped}
    dist.barrier()
    return same


class Normalized(torch.nn.Module):
    """Has buffers, and in every other step a layer that rank 0 does not use."""

    def __init__(self):
        super().__init__()
        self.inner = made()
        self.norm = torch.nn.BatchNorm1d(12)

    def forward(self, x, **options):
        return self.inner(self.norm(x), **options)


def beside_collectives_of_ddp():
    """DDP broadcasts buffers and sums which parameters are used, while buckets travel."""
    torch.manual_seed(0)
    models = [DistributedDataParallel(Normalized(), find_unused_parameters=True, **SMALL) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    state = flockstep.mean(models[1], guard=0.0)
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.05) for model in models]
    for step in range(20):
        for model, optimizer in zip(models, optimizers, strict=True):
            optimizer.zero_grad()
            loss_of(model, step, uses_extra=step % 2 == 0 or dist.get_rank() > 0).backward()
            optimizer.step()
    plain, ours = (model.state_dict() for model in models)
    state.close()
    return all(torch.equal(plain[name], ours[name]) for name in plain)


def threads():
    """Those of the package: none before the first pass, one from there on, and none at the end."""

    def count():
        return sum(thread.name.startswith("flockstep") for thread in threading.enumerate())

    before, counts = count(), []
    for closes in (True, False):
        model = DistributedDataParallel(made(), **SMALL)
        state = flockstep.direction_consensus(model)
        counts.append(count() - before)
        loss_of(model, 0).backward()
        counts.append(count() - before)
        step = state.step
        if closes:
            state.close()
        del model, state
        gc.collect()
        while count() > before:  # the case has a deadline
            time.sleep(0.01)
        counts.append(count() - before)
    return {"counts": counts, "step": step}


def forked():
    """In the midst of it: the child has no thread, and asks for what is known, closes and ends."""
    model = DistributedDataParallel(made(), **SMALL)
    state = flockstep.direction_consensus(model)
    loss_of(model, 0).backward()
    child = os.fork()
    if child == 0:
        signal.alarm(CASE_S)
        state.report()
        state.close()
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    loss_of(model, 1).backward()
    step = state.step
    state.close()
    return {"status": status, "step": step}


def half(kind, factor):
    """A model in 16 bits, one worker's gradient many times the others'."""
    model = DistributedDataParallel(made().to(kind), **SMALL)
    recorded = Recorded("direction_consensus", model=model, guard=0.0)

    def backward(step):
        generator = torch.Generator().manual_seed(100 * step + dist.get_rank())
        x = torch.randn(8, 12, generator=generator).to(kind)
        loss = torch.nn.functional.cross_entropy(model(x).float(), torch.arange(8) % 3)
        (loss * (factor if dist.get_rank() == 1 else 1.0)).backward()

    for step in range(5):
        model.zero_grad()
        backward(step)
        recorded.beside.compare()
    return outcome_of(recorded, True)


def joining(rule, **options):
    """Rank r has 3 + 2 r batches."""
    model = DistributedDataParallel(made(), **SMALL)
    state = getattr(flockstep, rule)(model, transfer="sketch")
    counted, sizes = [], []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with model.join(**options):
        for step in range(3 + 2 * dist.get_rank()):
            optimizer.zero_grad()
            loss_of(model, step).backward()
            counted.append(int((state.coefficients != 0).sum()))
            sizes.append(float(sum(p.grad.square().sum() for p in model.parameters()).sqrt()))
            optimizer.step()
    findings = state.findings
    state.close()
    same = same_everywhere(torch.cat([p.detach().flatten() for p in model.parameters()]))
    return {"counted": counted, "same": same, "findings": findings, "sizes": sizes}


def zero_weights():
    model = DistributedDataParallel(made(), **SMALL)
    state = flockstep.weighted_mean(model)
    norms = []
    for step, weight in enumerate([0.0, 2.0, 0.0]):
        state.weight = weight
        model.zero_grad()
        loss_of(model, step).backward()
        norms.append(float(sum(p.grad.square().sum() for p in model.parameters())))
    state.close()
    return norms


def switching():
    """Asked for before step 2: step 2 still follows the rule before."""
    model = DistributedDataParallel(made(), **SMALL)
    state = flockstep.mean(model)
    rules = []
    for step in range(5):
        if step == 2:
            state.set_rule("direction_consensus", beta=0.5)
        model.zero_grad()
        loss_of(model, step).backward()
        rules.append(state.rule)
    refused = refusal(lambda: state.set_rule("adacons", granularity="tensor"))
    other = refusal(lambda: state.set_rule("adacons", transfer="exact"))
    state.close()
    return {"rules": rules, "refused": [refused, other]}


def switching_apart():
    model = DistributedDataParallel(made(), **SMALL)
    state = flockstep.mean(model)
    loss_of(model, 0).backward()
    state.set_rule("direction_consensus", beta=0.5 if dist.get_rank() == 1 else 0.9)
    loss_of(model, 1).backward()
    error = refusal(lambda: loss_of(model, 2).backward())
    state.close()
    return error


def starting_later():
    model = DistributedDataParallel(made(), **SMALL)
    state = flockstep.normalized_mean(model, start_step=2)
    rules = []
    for step in range(4):
        model.zero_grad()
        loss_of(model, step).backward()
        rules.append(state.rule)
    state.close()
    return rules


def resumed(how):
    """Three steps, then three more in another life, with one bucket: as six in one, to the last bit."""

    def steps(model, first):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for step in range(first, first + 3):
            optimizer.zero_grad()
            loss_of(model, step).backward()
            optimizer.step()

    through, model = (DistributedDataParallel(made(), bucket_cap_mb=25) for _ in range(2))
    states = [flockstep.direction_consensus(each, sketch_length=64) for each in (through, model)]
    steps(through, 0)
    steps(through, 3)
    steps(model, 0)
    if how == "pickle":
        other = pickle.loads(pickle.dumps(states[1]))
    elif how == "deepcopy":
        other = copy.deepcopy(states[1])
    else:
        other = flockstep.DirectionConsensusState(sketch_length=64)
        other.load_state_dict(states[1].state_dict())
    again = DistributedDataParallel(model.module, bucket_cap_mb=25)
    again.register_comm_hook(other, flockstep.direction_consensus_hook)
    steps(again, 3)
    same = all(torch.equal(p, q) for p, q in zip(through.parameters(), again.parameters(), strict=True))
    difference = max(
        float((p - q).detach().abs().max()) for p, q in zip(through.parameters(), again.parameters(), strict=True)
    )
    step = other.step
    for state in (*states, other):
        state.close()
    return {"same": same, "difference": difference, "step": step}


def apart(**options):
    model = DistributedDataParallel(made(), **SMALL)
    return refusal(lambda: flockstep.direction_consensus(model, **options))


def recorded_losses():
    """Each loss belongs to the step that was just taken."""
    model = DistributedDataParallel(made(), **SMALL)
    state = flockstep.direction_consensus(model)
    figures = []
    for step in range(3):
        loss_of(model, step).backward()
        state.record(loss=float(step))
        metrics = state.metrics()
        figures.append([metrics["step"], metrics["loss"]])
    state.close()
    return figures


def grown():
    """A state that goes on with a larger model."""
    small, large = DistributedDataParallel(made().first), DistributedDataParallel(made(), **SMALL)
    state = flockstep.DirectionConsensusState(sketch_length=64)
    for model in (small, large):
        model.register_comm_hook(state, flockstep.direction_consensus_hook)
    small(torch.ones(1, 12)).sum().backward()
    error = refusal(loss_of(large, 0).backward)
    state.close()
    return error


def bad_input():
    model = DistributedDataParallel(made(), **SMALL)
    late = DistributedDataParallel(made(), **SMALL)
    late_state = flockstep.DirectionConsensusState(sketch_length=1 << 20)
    late.register_comm_hook(late_state, flockstep.direction_consensus_hook)
    outcome = {
        "too long": refusal(lambda: flockstep.direction_consensus(model, sketch_length=1 << 20)),
        "too long, late": refusal(loss_of(late, 0).backward),
        "zero": refusal(lambda: flockstep.direction_consensus(model, sketch_length=0)),
        "no power": refusal(lambda: flockstep.direction_consensus(model, sketch_length=1000)),
        "no number": refusal(lambda: flockstep.direction_consensus(model, sketch_length="long")),
        "tensor": refusal(lambda: flockstep.adacons(model, transfer="sketch", granularity="tensor")),
        "wire": refusal(lambda: flockstep.adacons(model, transfer="sketch", wire="bfloat16")),
        "transfer": refusal(lambda: flockstep.adacons(model, transfer="quick")),
        "guard": refusal(lambda: flockstep.adacons(model, guard=-1)),
        "guard, type": refusal(lambda: flockstep.adacons(model, guard="three")),
        "patience": refusal(lambda: flockstep.adacons(model, non_finite_patience=-1)),
        "seed": refusal(lambda: flockstep.adacons(model, seed=-1)),
        "watch": refusal(lambda: flockstep.adacons(model, watch=0.5)),
    }
    late_state.close()
    return outcome


def broken_backward(layer):
    """Backward breaks off in step 2 on rank 1: the others take that step, and all raise in the next."""
    model = DistributedDataParallel(made(), **SMALL)
    state = flockstep.direction_consensus(model)
    errors = []
    for step in range(4):
        breaks = step == 2 and dist.get_rank() == 1
        handle = getattr(model.module, layer).register_forward_hook(
            lambda module, inputs, output, breaks=breaks: Breaks.apply(output, breaks)
        )
        errors.append(refusal(lambda step=step: loss_of(model, step).backward()))
        handle.remove()
    state.close()
    return errors


def scaler_doubles():
    """A loss scale that doubles in step 3 is shared by all: it costs one step at most."""
    return all_times(2.0, 3)


def accumulated():
    """From one backward pass a step to eight."""
    model = DistributedDataParallel(made(), **SMALL)
    state = flockstep.direction_consensus(model, guard=3.0)
    sizes = []
    for step in range(8):
        model.zero_grad()
        passes = 1 if step < 4 else 8
        for part in range(passes - 1):
            with model.no_sync():
                loss_of(model, 10 * step + part).backward()
        loss_of(model, 10 * step + 9).backward()
        sizes.append(float(sum(p.grad.square().sum() for p in model.parameters()).sqrt()))
    clipped = state.report()["guards"]["clipped"]
    state.close()
    return {"sizes": sizes, "clipped": clipped}


def by_bucket():
    model = DistributedDataParallel(made(), **SMALL)
    state = flockstep.direction_consensus(model, granularity="bucket")
    same = True
    for step in range(5):
        model.zero_grad()
        loss_of(model, step).backward()
        same = same and same_everywhere(torch.cat([p.grad.flatten() for p in model.parameters()]))
    report = state.report()
    state.close()
    return {"same": same, "coefficients": report["coefficients"], "step": report["step"]}


def watching(every):
    model = DistributedDataParallel(made(), **SMALL)
    state = flockstep.mean(model, watch=every)
    told = []
    for step in range(4):
        model.zero_grad()
        loss_of(model, step).backward()
        told.append(state.agreement is not None)
    norms = len(state.norms)
    state.close()
    return {"told": told, "norms": norms}


def calls_of(rule):
    """What each pass asks streams for, and what it raises. All ask for another rule in pass 4; pass 6 of rank 1 breaks off."""
    recorded = Recorded(rule)
    passes = []
    for step in range(8):
        if step == 4:
            recorded.state.set_rule("mean" if rule == "adasum" else "adasum")
        breaks = step == 6 and dist.get_rank() == 1
        handle = recorded.model.module.first.register_forward_hook(
            lambda module, inputs, output, breaks=breaks: Breaks.apply(output, breaks)
        )
        calls.clear()
        error = refusal(lambda step=step: loss_of(recorded.model, step).backward())
        passes.append(calls + ([error["type"]] if error else []))
        handle.remove()
    recorded.state.close()
    return passes


def cases_of_the_world():
    workers = dist.get_world_size()
    cases = {f"rule {rule}": functools.partial(rule_of, rule) for rule in RULES}
    cases |= {f"calls, {rule}": functools.partial(calls_of, rule) for rule in RULES}
    if workers > 1:
        cases["beside collectives of DDP"] = beside_collectives_of_ddp
    if workers == 2:
        cases |= {"threads": threads, "forked": forked}
        for rule, transfer in (("mean", "sketch"), ("mean", "exact"), ("adacons", "sketch"), ("adacons", "exact")):
            cases[f"one of two, {rule}, {transfer}"] = functools.partial(said, rule, transfer, [1.0, math.nan])
            cases[f"zeros, {rule}, {transfer}"] = functools.partial(said, rule, transfer, [0.0, 0.0])
        cases |= {f"resumed, {how}": functools.partial(resumed, how) for how in ("pickle", "deepcopy", "state_dict")}
    if workers == 3:
        for rule in ("mean", "adacons", "normalized_mean", "direction_consensus"):
            cases[f"spike, {rule}"] = functools.partial(times, 1000.0, [3], rule=rule)
        cases |= {
            "spike without a guard": functools.partial(times, 1000.0, [3], guard=0.0),
            "spike, mean with a guard": functools.partial(times, 1000.0, [3], rule="mean", guard=3),
            "never finite on any": functools.partial(never_finite, non_finite="propagate"),
            "never finite on any, excluded": functools.partial(never_finite, non_finite="exclude"),
            "spike at first": functools.partial(times, 1000.0, [0]),
            "a thousandth": functools.partial(times, 0.001, range(9)),
            "zeros": functools.partial(times, 0.0, range(2, 9)),
            "zeros every other step": functools.partial(times, 0.0, [1, 3, 5, 7]),
            "not finite once": functools.partial(times, math.nan, [2]),
            "infinite once": functools.partial(times, math.inf, [2]),
            "not finite at first": functools.partial(times, math.nan, [0]),
            "not finite for ever": functools.partial(times, math.nan, range(1, 9)),
            "not finite for ever, mean": functools.partial(times, math.nan, range(1, 9), rule="mean"),
            "not finite for ever, no patience": functools.partial(times, math.nan, range(1, 9), non_finite_patience=0),
            "not finite once, excluded": functools.partial(times, math.nan, [2], non_finite="exclude"),
            "not finite for ever, excluded": functools.partial(times, math.nan, range(9), non_finite="exclude"),
            "all times ten": functools.partial(all_times, 10.0, 3),
            "a scaler doubles": scaler_doubles,
            "accumulated": accumulated,
            "mean is DDP, three": functools.partial(mean_is_ddp, [0, 1, 2]),
            "until start_step it is DDP": functools.partial(
                mean_is_ddp, [0, 1, 2], "direction_consensus", start_step=9
            ),
            "mean is DDP, two": functools.partial(mean_is_ddp, [0, 2]),
            "bfloat16": functools.partial(half, torch.bfloat16, 1000.0),
            "float16": functools.partial(half, torch.float16, 1000.0),
            "joining, direction_consensus": functools.partial(joining, "direction_consensus"),
            "joining, mean": functools.partial(joining, "mean", divide_by_initial_world_size=False),
            "joining, mean over all": functools.partial(joining, "mean"),
            "zero weights": zero_weights,
            "switching": switching,
            "switching apart": switching_apart,
            "starting later": starting_later,
            "by bucket": by_bucket,
            "watching, never": functools.partial(watching, False),
            "watching, every other": functools.partial(watching, 2),
            "watching, always": functools.partial(watching, True),
            "seeds": lambda: apart(seed=dist.get_rank()),
            "lengths": lambda: apart(sketch_length=128 if dist.get_rank() == 2 else 64),
            "options": lambda: apart(beta=0.5 if dist.get_rank() == 1 else 0.9),
            "recorded losses": recorded_losses,
            "grown": grown,
            "bad input": bad_input,
            "broken in the first bucket": functools.partial(broken_backward, "last"),
            "broken later": functools.partial(broken_backward, "first"),
        }
    return cases


if __name__ == "__main__":
    with pretended() if IN_STREAM else contextlib.nullcontext():
        run(cases_of_the_world)
