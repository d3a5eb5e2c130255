"""Cases of hooks_program.py: waits, broken backward passes and wrong calls."""

import sys
import threading
import time
from datetime import timedelta

import flockstep
import torch
import torch.distributed as dist
from cases import tell, wait_to_hear
from ddp_training import batch, distance, flat, loss_of, made
from hooks_shared import Breaks, gradient_of, refusal, train, wrapped
from rule_oracle import Expected
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def a_thread_counts_meanwhile():
    """Rank 0 comes into backward once a thread of each other has counted, which waits there."""
    model = wrapped()
    state = flockstep.adacons(model)
    train(model, 2)
    loss = loss_of(model, 2)

    def count():
        for _ in range(50):
            time.sleep(0.001)
        tell(f"counted, {dist.get_rank()}")

    thread = threading.Thread(target=count)
    thread.start()
    if dist.get_rank() == 0:
        wait_to_hear("counted, 1", "counted, 2")
    loss.backward()
    thread.join()
    state.close()
    return True


def broken_backward(everywhere, layer="first", **options):
    """Backward breaks off in steps 2 and 4, on rank 1 or on all, where it comes to a layer's output; then training goes
    on."""
    model = wrapped(**options)
    state = flockstep.adacons(model)
    expected, errors, worst = Expected("adacons"), [], 0.0
    for step in range(6):
        gradients = [gradient_of(model.module, step, rank) for rank in range(3)]
        model.zero_grad()
        x, y = batch(step)
        hidden = {}
        handle = getattr(model.module, layer).register_forward_hook(
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


def broken_after_the_last_bucket():
    """Behind the model, on rank 1: the others have the result by then."""
    model = wrapped()
    state = flockstep.adacons(model)
    train(model, 2)  # DDP itself exchanges something before the second forward pass
    x, y = batch(2)
    before = Breaks.apply(x.requires_grad_(), dist.get_rank() == 1)
    raised = refusal(nn.functional.cross_entropy(model(before), y).backward)
    later = refusal(lambda: loss_of(model, 3).backward())
    state.close()
    return {"first": None if raised is None else raised["type"], "later": later}


def unused_parameters():
    """Without find_unused_parameters: backward comes to its end, but not to all of its buckets."""
    model = wrapped()
    state = flockstep.adacons(model)
    loss_of(model, 0, uses_extra=False).backward()
    error = refusal(lambda: loss_of(model, 1, uses_extra=False))
    state.close()
    return error


def error_of_a_future():
    """Workers that go on from different steps: what the future that a hook gave raises when it is asked itself."""
    model, futures = wrapped(), []
    state = flockstep.adacons(model)
    add = state._add

    def kept(bucket):
        futures.append(add(bucket))
        return futures[-1]

    state._add = kept
    state.load_state_dict({"rule": "adacons", "step": 5 * (dist.get_rank() == 1), "memory": []})
    raised = refusal(loss_of(model, 0).backward)
    error = refusal(futures[0].wait)
    state.close()
    return [raised, error]


def disagreements():
    """Ranks that differ in one thing each; the patience is generous if all ranks come."""
    rank, second = dist.get_rank(), timedelta(seconds=1)
    plain, alone = wrapped(), wrapped()
    averaged = torch.optim.SGD(plain.parameters(), lr=0.1)
    outcome = {
        "rules": refusal(lambda: flockstep.register(wrapped(), "adacons" if rank == 1 else "mean")),
        "transfers": refusal(lambda: flockstep.adacons(wrapped(), transfer="exact" if rank else "sketch")),
        "options": refusal(lambda: flockstep.adacons(wrapped(), beta=0.5 if rank == 1 else 0.9)),
        "kinds": refusal(lambda: flockstep.Flock(averaged, plain) if rank == 1 else flockstep.register(alone, "mean")),
        "averagers": refusal(lambda: (flockstep.Flock if rank == 2 else flockstep.Wagma)(averaged, plain)),
        "one misspelt": refusal(lambda: flockstep.adacons(wrapped(), **{"betta" if rank == 1 else "beta": 0.5})),
        "one rule unknown": refusal(lambda: flockstep.register(wrapped(), "mean" if rank else "meen")),
        "one alone": None if rank else refusal(lambda: flockstep.mean(alone, timeout=second)),
    }
    dist.barrier()
    if rank:
        outcome["all but the first"] = refusal(lambda: flockstep.Flock(averaged, plain, timeout=second))
    dist.barrier()
    model = wrapped()
    state = flockstep.mean(model)
    train(model, 1)
    outcome["step"] = state.step
    state.close()
    keys = [f"flockstep/0/0,1,2/{kind}/{place}" for kind in ("call", "answer") for place in range(3)]
    keys += [f"flockstep/0/0,1,2/failure/{number}.{attempt}" for number in range(9) for attempt in range(9)]
    outcome["keys"] = [key for key in keys if dist.distributed_c10d._get_default_store().check([key])]
    dist.barrier()
    return outcome


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
        "no model": refusal(lambda: flockstep.register(3, "adacons")),
        "unknown rule": refusal(lambda: flockstep.register(hooked, "adacon")),
        "a state for a rule": refusal(lambda: flockstep.register(hooked, flockstep.AdaConsState)),
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
        "tensor parallel": refusal(lambda: flockstep.adacons(tensor_parallel())),
        "unknown word": refusal(lambda: flockstep.AdaConsState(magnitude="huge")),
        "adasum matched": refusal(lambda: flockstep.AdasumState(magnitude="matched")),
        "beta": refusal(lambda: flockstep.AdaConsState(beta=1.5)),
        "start_step": refusal(lambda: flockstep.AdaConsState(start_step=-1)),
        "half a step": refusal(lambda: flockstep.AdaConsState(start_step=1.5)),
        "timeout": refusal(lambda: flockstep.AdaConsState(timeout=5)),
        "watch": refusal(lambda: flockstep.AdaConsState(watch="no")),
        "watch, switched": refusal(lambda: state.set_rule("adacons", watch="no")),
        "in an averager": refusal(in_an_averager),
    }
    for each in (state, double_state, complex_state, sparse_state):
        each.close()
    return outcome


def in_an_averager():
    model = wrapped()
    with flockstep.LocalSGD(torch.optim.SGD(model.parameters(), lr=0.1), model):
        flockstep.adacons(model)


def tensor_parallel():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

    return parallelize_module(made(), init_device_mesh("cpu", (dist.get_world_size(),)), {"first": ColwiseParallel()})


def left_open():
    """A state that nobody closes, with files."""
    model = wrapped()
    model.kept_state = flockstep.watch(model, run_dir=f"{sys.argv[1]}/left open")
    train(model, 3)
    globals()["kept"] = model
    return None
