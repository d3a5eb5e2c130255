"""What gradient states do beside the rules themselves, one case after the other, on three ranks."""

import copy
import functools
import gc
import os
import pickle
import signal
import sys
import threading
import time
import warnings
from datetime import timedelta

import flockstep
import torch
import torch.distributed as dist
from ddp_training import batch, distance, flat, loss_of, made, of_all, own_gradient, run_cases
from rule_oracle import RULES, Expected
from torch import nn
from torch.nn.parallel import DistributedDataParallel

SMALL = {"bucket_cap_mb": 0.005}
STATES = {
    "mean": "MeanState",
    "weighted_mean": "WeightedMeanState",
    "normalized_mean": "NormalizedMeanState",
    "adacons": "AdaConsState",
    "direction_consensus": "DirectionConsensusState",
    "geometric_median": "GeometricMedianState",
    "adasum": "AdasumState",
}


def wrapped(**options):
    return DistributedDataParallel(made(), **{**SMALL, **options})


def gradient_of(module, step, rank):
    """Any rank's, computed here: all have the same model."""

    def backward(replica):
        x, y = batch(step, rank=rank)
        nn.functional.cross_entropy(replica(x), y).backward()

    return own_gradient(module, backward)


def refusal(action):
    try:
        action()
    except Exception as error:
        return {"type": type(error).__name__, "code": getattr(error, "code", None), "text": str(error)}
    return None


def train(model, steps, *, lr=0.05, scaler=None, first=0):
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for step in range(first, first + steps):
        optimizer.zero_grad()
        loss = loss_of(model, step)
        if scaler is None:
            loss.backward()
            optimizer.step()
        else:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    return torch.cat([p.detach().double().flatten() for p in model.parameters()])


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
    state = flockstep.adacons(model, non_finite=non_finite)
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
    state = getattr(flockstep, rule)(model) if then is None else flockstep.adacons(model)
    if then is not None:
        state.set_rule(rule, **then)
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


def switching():
    """Each rank asks one step later than the one before: all switch with the last."""
    model = wrapped()
    state = flockstep.mean(model)
    rules, saved, worst = [], [], 0.0
    expected = {"mean": Expected("mean"), "adacons": Expected("adacons", beta=0.5)}
    for step in range(6):
        if step == dist.get_rank() + 1:
            state.set_rule("adacons", beta=0.5)
        gradients = [gradient_of(model.module, step, rank) for rank in range(3)]
        model.zero_grad()
        loss_of(model, step).backward()
        rules.append(state.rule)
        saved.append(state.state_dict()["rule"])
        worst = max(worst, distance(flat(model.parameters()), expected["mean" if step < 3 else "adacons"](gradients)))
    refused = refusal(lambda: state.set_rule("adacon"))
    state.close()
    return {"rules": rules, "saved": saved, "distance": worst, "refused": refused}


def switching_often():
    """From before the first step on: each time as if the rule were new."""
    model = wrapped()
    state = flockstep.adacons(model, start_step=1)
    step, worst = 0, 0.0
    for rule, options in (
        ("mean", {}),
        ("adacons", {"beta": 0.5}),
        ("direction_consensus", {}),
        ("adacons", {"granularity": "tensor"}),
        ("direction_consensus", {"granularity": "bucket"}),
        ("adacons", {}),
    ):
        state.set_rule(rule, **options)
        fresh = wrapped()
        other = getattr(flockstep, rule)(fresh, **options)
        for _ in range(3):
            for each in (model, fresh):
                each.zero_grad()
                loss_of(each, step).backward()
            if options.get("granularity") != "bucket":  # of which a new DDP has others at first
                worst = max(worst, distance(flat(model.parameters()), flat(fresh.parameters())))
            step += 1
        other.close()
    state.close()
    return worst


def starting_later():
    model = wrapped()
    state = flockstep.normalized_mean(model, start_step=2)
    rules, worst = [], 0.0
    for step in range(4):
        gradients = [gradient_of(model.module, step, rank) for rank in range(3)]
        model.zero_grad()
        loss_of(model, step).backward()
        rules.append(state.rule)
        worst = max(worst, distance(flat(model.parameters()), Expected(rules[-1])(gradients)))
    state.close()
    return {"rules": rules, "distance": worst}


def resumed(how):
    """Three steps, then three more in another life: as six in one."""
    through, model = wrapped(), wrapped()
    state = flockstep.adacons(through)
    whole = train(through, 6)
    state.close()
    state = flockstep.adacons(model)
    train(model, 3)
    if how == "pickle":
        other = pickle.loads(pickle.dumps(state))
    elif how == "deepcopy":
        other = copy.deepcopy(state)
    else:
        folder = sys.argv[1]
        path = f"{folder}/state-{dist.get_rank()}.pt"
        torch.save(state.state_dict(), path)
        other = flockstep.AdaConsState()
        other.load_state_dict(torch.load(path))
    state.close()
    again = DistributedDataParallel(model.module, **SMALL)
    again.register_comm_hook(other, flockstep.adacons_hook)
    rest = train(again, 3, first=3)
    step = other.step
    other.close()
    return {"distance": distance(rest, whole), "step": step}


def every_state_copied():
    """Each before its first step and after it; then one more step with the copy."""
    outcome = {}
    for rule in RULES:
        made_by, hook = getattr(flockstep, STATES[rule]), getattr(flockstep, f"{rule}_hook")
        state, worst = pickle.loads(pickle.dumps(copy.deepcopy(made_by(start_step=0)))), 0.0
        expected = Expected(rule)
        for step, copies in enumerate([copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))]):
            model = wrapped()
            model.register_comm_hook(state, hook)
            gradients = [gradient_of(model.module, step, rank) for rank in range(3)]
            loss_of(model, step).backward()
            worst = max(worst, distance(flat(model.parameters()), expected(gradients, [1, 1, 1])))
            other = copies(state)
            state.close()
            state = other
        outcome[rule] = worst
    group = dist.new_group([0, 1, 2])
    own = flockstep.AdaConsState(process_group=group)
    return {"distances": outcome, "refused": [refusal(lambda: copy.deepcopy(own)), refusal(lambda: pickle.dumps(own))]}


def copied_model_of_torchs_form():
    model = wrapped()
    state = flockstep.AdaConsState()
    model.register_comm_hook(state, flockstep.adacons_hook)
    train(model, 1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        copy.deepcopy(state)
        copy.deepcopy(model)
    state.close()
    return [str(each.message) for each in caught]


def forked():
    """A child lets go of the state, and training goes on here."""
    model = wrapped()
    state = flockstep.adacons(model)
    train(model, 1)
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        state.__dict__.clear()
        gc.collect()
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    train(model, 2)
    step = state.step
    state.close()
    return {"status": status, "step": step}


def sub_group_in_torchs_form():
    """Two of the ranks, whose state is not told so. Comes last: what was made on these is not made on the third."""
    group = dist.new_group([0, 1])
    if dist.get_rank() == 2:
        return None
    model = wrapped(process_group=group)
    state = flockstep.AdaConsState(timeout=timedelta(seconds=1))
    model.register_comm_hook(state, flockstep.adacons_hook)
    return refusal(loss_of(model, 0).backward)


def copied_model():
    model = wrapped()
    state = flockstep.adacons(model)
    train(model, 2)
    outcome = []
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        lost = refusal(lambda other=other: loss_of(other, 0))
        again = flockstep.adacons(other)
        gradients = [gradient_of(other.module, 5, rank) for rank in range(3)]
        other.zero_grad()
        loss_of(other, 5).backward()
        outcome.append({"lost": lost, "distance": distance(flat(other.parameters()), Expected("adacons")(gradients))})
        again.close()
    state.close()
    return outcome


def a_thread_counts_meanwhile():
    """Rank 0 comes late into backward; a thread of the others counts while they wait there."""
    model = wrapped()
    state = flockstep.adacons(model)
    train(model, 2)
    loss = loss_of(model, 2)
    counted, ends = [0], threading.Event()

    def count():
        while not ends.wait(0.001):
            counted[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    if dist.get_rank() == 0:
        time.sleep(0.6)
    before, begin = counted[0], time.monotonic()
    loss.backward()
    outcome = {"counted": counted[0] - before, "seconds": time.monotonic() - begin}
    ends.set()
    thread.join()
    state.close()
    return outcome


class Breaks(torch.autograd.Function):
    @staticmethod
    def forward(context, x, breaks):
        context.breaks = breaks
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        if context.breaks:
            raise ValueError("something in backward")
        return gradient, None


def broken_backward(everywhere):
    """Backward breaks off after some buckets in steps 2 and 4, on rank 1 or on all; then training goes on."""
    model = wrapped()
    state = flockstep.adacons(model)
    expected, errors, worst = Expected("adacons"), [], 0.0
    for step in range(6):
        gradients = [gradient_of(model.module, step, rank) for rank in range(3)]
        model.zero_grad()
        x, y = batch(step)
        hidden = {}
        handle = model.module.first.register_forward_hook(
            lambda module, inputs, output, hidden=hidden: Breaks.apply(output, hidden["breaks"])
        )
        hidden["breaks"] = step in (2, 4) and (everywhere or dist.get_rank() == 1)
        loss = nn.functional.cross_entropy(model(x), y)
        error = refusal(loss.backward)
        handle.remove()
        if error is None:
            worst = max(worst, distance(flat(model.parameters()), expected(gradients)))
        else:
            errors.append(error)
    state.close()
    return {"errors": errors, "distance": worst}


def unused_parameters():
    """Without find_unused_parameters: backward comes to its end, but not to all of its buckets."""
    model = wrapped()
    state = flockstep.adacons(model)
    loss_of(model, 0, uses_extra=False).backward()
    error = refusal(lambda: loss_of(model, 1, uses_extra=False))
    state.close()
    return error


def different_options():
    model = wrapped()
    state = flockstep.adacons(model, beta=0.5 if dist.get_rank() == 1 else 0.9)
    error = refusal(loss_of(model, 0).backward)
    state.close()
    return error


def closed_state():
    model = wrapped()
    state = flockstep.adacons(model)
    train(model, 1)
    state.close()
    state.close()
    return refusal(lambda: train(model, 1))


class Sparse(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 4, sparse=True)

    def forward(self, x):
        return self.table(x)


def bad_input():
    plain = made()
    hooked, builtin = wrapped(), wrapped()
    state = flockstep.mean(hooked)
    builtin._register_builtin_comm_hook(dist.BuiltinCommHookType.ALLREDUCE)
    apart = wrapped()
    apart.module.last = apart.module.last.to("meta")
    elsewhere = wrapped()
    elsewhere.module.to("meta")
    sparse = DistributedDataParallel(Sparse())
    sparse_hook = DistributedDataParallel(Sparse())
    sparse_state = flockstep.MeanState()
    sparse_hook.register_comm_hook(sparse_state, flockstep.mean_hook)
    double, double_hook = DistributedDataParallel(made().double()), DistributedDataParallel(made().double())
    double_state, complex_state = flockstep.MeanState(), flockstep.MeanState()
    double_hook.register_comm_hook(double_state, flockstep.mean_hook)
    complex_model = DistributedDataParallel(nn.Linear(12, 3, dtype=torch.complex64))
    complex_hook = DistributedDataParallel(nn.Linear(12, 3, dtype=torch.complex64))
    complex_hook.register_comm_hook(complex_state, flockstep.mean_hook)
    frozen = wrapped()
    frozen.requires_grad_(False)
    mixed = DistributedDataParallel(
        made(), mixed_precision=torch.nn.parallel.distributed._MixedPrecision(param_dtype=torch.bfloat16)
    )
    skips = wrapped(find_unused_parameters=True, skip_all_reduce_unused_params=True)
    outcome = {
        "plain model": refusal(lambda: flockstep.adacons(plain)),
        "second hook": refusal(lambda: flockstep.adacons(hooked)),
        "built-in hook": refusal(lambda: flockstep.adacons(builtin)),
        "two devices": refusal(lambda: flockstep.adacons(apart)),
        "another device": refusal(lambda: flockstep.adacons(elsewhere)),
        "sparse": refusal(lambda: flockstep.adacons(sparse)),
        "sparse in a hook": refusal(lambda: sparse_hook(torch.tensor([1, 2])).sum().backward()),
        "double": refusal(lambda: flockstep.mean(double)),
        "double in a hook": refusal(lambda: double_hook(torch.randn(2, 12).double()).sum().backward()),
        "complex": refusal(lambda: flockstep.mean(complex_model)),
        "complex in a hook": refusal(
            lambda: complex_hook(torch.randn(2, 12, dtype=torch.complex64)).abs().sum().backward()
        ),
        "frozen": refusal(lambda: flockstep.adacons(frozen)),
        "mixed precision": refusal(lambda: flockstep.adacons(mixed)),
        "skips buckets": refusal(lambda: flockstep.adacons(skips)),
        "fsdp2": refusal(lambda: flockstep.adacons(sharded())),
        "unknown word": refusal(lambda: flockstep.AdaConsState(magnitude="huge")),
        "beta": refusal(lambda: flockstep.AdaConsState(beta=1.5)),
        "start_step": refusal(lambda: flockstep.AdaConsState(start_step=-1)),
        "half a step": refusal(lambda: flockstep.AdaConsState(start_step=1.5)),
        "timeout": refusal(lambda: flockstep.AdaConsState(timeout=5)),
    }
    for each in (state, double_state, complex_state, sparse_state):
        each.close()
    return outcome


def sharded():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    net = made()
    fully_shard(net, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    return net


def left_open():
    """A state that nobody closes, with files."""
    model = wrapped()
    model.kept_state = flockstep.watch(model, run_dir=f"{sys.argv[1]}/left open")
    train(model, 3)
    globals()["kept"] = model
    return None


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    cases = {
        "a scaler changes nothing": a_scaler_changes_nothing,
        "overflow, propagate": functools.partial(overflow, "propagate"),
        "overflow, exclude": functools.partial(overflow, "exclude"),
        "join, adacons": functools.partial(join, "adacons"),
        "join, mean over all": functools.partial(join, "mean"),
        "join, mean over those who train": functools.partial(join, "mean", divide_by_initial_world_size=False),
        "join, mean after another rule": functools.partial(join, "mean", {"divide_by_initial_world_size": False}),
        "join with a finding to miss": join_with_a_finding_to_miss,
        "watching, three": functools.partial(watching_is_ddp, [0, 1, 2]),
        "watching, two": functools.partial(watching_is_ddp, [0, 2]),
        "forgotten sampler": forgotten_sampler,
        "switching": switching,
        "switching often": switching_often,
        "starting later": starting_later,
        "resumed from a pickle": functools.partial(resumed, "pickle"),
        "resumed from a copy": functools.partial(resumed, "deepcopy"),
        "resumed from a state_dict": functools.partial(resumed, "state_dict"),
        "every state copied": every_state_copied,
        "copied model": copied_model,
        "copied model of torch's form": copied_model_of_torchs_form,
        "forked": forked,
        "a thread counts meanwhile": a_thread_counts_meanwhile,
        "broken backward on one rank": functools.partial(broken_backward, False),
        "broken backward on all ranks": functools.partial(broken_backward, True),
        "unused parameters": unused_parameters,
        "different options": different_options,
        "closed state": closed_state,
        "bad input": bad_input,
        "left open": left_open,
        "sub-group in torch's form": sub_group_in_torchs_form,
    }
    chosen = sys.argv[2:]
    run_cases({name: case for name, case in cases.items() if not chosen or name in chosen})
    dist.destroy_process_group()
