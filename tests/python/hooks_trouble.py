"""Cases of hooks_program.py: waits, broken backward passes and wrong calls."""

import copy
import sys
import threading
import time
from datetime import timedelta

import flockstep
import torch
import torch.distributed as dist
from cases import tell, wait_to_hear
from ddp_training import batch, loss_of, made
from hooks_shared import CASES, SMALL, Breaks, breaking, check_refusals, distance_of_step, raised, train, under, wrapped
from rule_oracle import Expected
from torch import nn
from torch.nn.parallel import DistributedDataParallel

case = CASES.case


@case()
def python_threads_run_while_backward_waits():
    """Rank 0 comes into backward once a thread of each other has counted, which waits there."""

    def count():
        for _ in range(50):
            time.sleep(0.001)
        tell(f"counted, {dist.get_rank()}")

    with under("adacons") as (model, _):
        train(model, 2)
        loss = loss_of(model, 2)
        thread = threading.Thread(target=count)
        thread.start()
        if dist.get_rank() == 0:
            wait_to_hear("counted, 1", "counted, 2")
        loss.backward()
        thread.join()


@case([1])
@case([0, 1, 2])
@case([1], "last")
@case([1], bucket_cap_mb=25)
@case([0, 1, 2], bucket_cap_mb=25)
@case([1], find_unused_parameters=True)
@case([1], "last", gradient_as_bucket_view=True)
def a_backward_pass_that_breaks_off_leaves_nothing_pending_and_training_goes_on(broken, layer="first", **options):
    """In steps 2 and 4, on one rank or on all, where it comes to a layer's output."""
    expected = Expected("adacons")
    with under("adacons", wrapped(**options)) as (model, _):
        for step in range(6):
            if step not in (2, 4):
                assert distance_of_step(model, step, expected) < 1e-5
                continue
            model.zero_grad()
            with breaking(getattr(model.module, layer), dist.get_rank() in broken):
                loss = loss_of(model, step)
            error = raised(loss.backward)
            if dist.get_rank() in broken:
                assert isinstance(error, ValueError)
            else:
                assert isinstance(error, flockstep.PeerLostError)
                assert "worker 1's backward pass ended before its last bucket" in str(error)


@case()
def a_step_that_only_the_others_have_taken_ends_the_training_on_all_ranks():
    """Backward breaks off behind the model, on rank 1: the others have the result by then."""
    with under("adacons") as (model, _):
        train(model, 2)  # DDP itself exchanges something before the second forward pass
        x, y = batch(2)
        before = Breaks.apply(x.requires_grad_(), dist.get_rank() == 1)
        first = raised(nn.functional.cross_entropy(model(before), y).backward)
        later = raised(lambda: loss_of(model, 3).backward())
    kinds = [ValueError] if dist.get_rank() == 1 else [type(None), flockstep.MismatchError]  # which is faster
    assert type(first) in kinds
    assert later.code == "mismatch"
    assert "a step that worker 1 has not" in str(later)


@case()
def a_backward_pass_without_all_parameters_gets_the_sentence_of_ddp():
    """Without find_unused_parameters: backward comes to its end, but not to all of its buckets."""
    with under("adacons") as (model, _):
        loss_of(model, 0, uses_extra=False).backward()
        error = raised(lambda: loss_of(model, 1, uses_extra=False))
    assert type(error) is RuntimeError
    assert "find_unused_parameters=True" in str(error)


@case()
def steps_that_differ_after_loading_keep_their_error_type_through_backward_and_in_a_future():
    futures = []
    with under("adacons") as (model, state):
        add = state._add

        def kept(bucket):
            futures.append(add(bucket))
            return futures[-1]

        state._add = kept
        state.load_state_dict({"rule": "adacons", "step": 5 * (dist.get_rank() == 1), "memory": []})
        errors = [raised(loss_of(model, 0).backward), raised(futures[0].wait)]
    for error in errors:
        assert isinstance(error, flockstep.MismatchError)
        assert error.code == "mismatch"
        assert "worker 1 has step 5 where worker 0 has 0" in str(error)
        assert "[mismatch" not in str(error)


def check_mismatches(*rows):
    for sentence, action in rows:
        error = raised(action)
        assert isinstance(error, flockstep.MismatchError), (sentence, error)
        assert str(error) == f"{sentence}: give all ranks the same"


def check_lone_failure(failing, kind, sentence, action):
    """One rank raises an error, and the others say so at once."""
    error = raised(action)
    if dist.get_rank() == failing:
        assert isinstance(error, kind)
        assert str(error).startswith(sentence)
    else:
        assert isinstance(error, flockstep.MismatchError)
        told = f"rank {failing} has not registered a gradient rule: {kind.__name__}: {sentence}"
        assert str(error).startswith(told)


@case()
def what_ranks_disagree_on_is_named_before_anything_is_exchanged_and_later_all_may_meet():
    """Ranks that differ in one thing each; the patience is generous if all ranks come."""
    rank, second = dist.get_rank(), timedelta(seconds=1)
    plain, alone = wrapped(), wrapped()  # on all ranks: DDP itself compares models
    averaged = torch.optim.SGD(plain.parameters(), lr=0.1)

    def register(rule="adacons", **options):
        return flockstep.register(wrapped(), rule, **options)

    check_mismatches(
        ("rank 1 has rule adacons where rank 0 has mean", lambda: register("adacons" if rank == 1 else "mean")),
        (
            "ranks 1, 2 have transfer exact where rank 0 has sketch",
            lambda: register(transfer="exact" if rank else "sketch"),
        ),
        ("rank 1 has beta 0.5 where rank 0 has 0.9", lambda: register(beta=0.5 if rank == 1 else 0.9)),
        ("ranks 1, 2 have seed 1 where rank 0 has 0", lambda: register(seed=min(rank, 1))),
        (
            "rank 2 has sketch_length 128 where rank 0 has 64",
            lambda: register("mean", sketch_length=128 if rank == 2 else 64),
        ),
        (
            "rank 1 has made Flock where rank 0 has registered a gradient rule",
            lambda: flockstep.Flock(averaged, plain) if rank == 1 else flockstep.register(alone, "mean"),
        ),
        (
            "rank 2 has made Flock where rank 0 has made Wagma",
            lambda: (flockstep.Flock if rank == 2 else flockstep.Wagma)(averaged, plain),
        ),
    )
    misspelt = "AdaConsState has no option 'betta' (did you mean beta?); there are "
    check_lone_failure(1, flockstep.BadTypeError, misspelt, lambda: register(**{"betta" if rank == 1 else "beta": 0.5}))
    unknown = "there is no gradient rule 'meen': take one of mean, "
    check_lone_failure(0, flockstep.BadInputError, unknown, lambda: register("mean" if rank else "meen"))
    if rank == 0:
        error = raised(lambda: flockstep.mean(alone, timeout=second))
        sentence = "ranks 1, 2 have not registered a gradient rule within 1 s, as rank 0 has: "
    dist.barrier()
    if rank:
        error = raised(lambda: flockstep.Flock(averaged, plain, timeout=second))
        sentence = "rank 0 has not made Flock within 1 s, as rank "
    dist.barrier()
    assert isinstance(error, flockstep.DeadlineExceededError)
    assert str(error).startswith(sentence)
    with under("mean") as (model, state):
        train(model, 1)
        assert state.step == 1
    keys = [f"flockstep/0/0,1,2/{kind}/{place}" for kind in ("call", "answer") for place in range(3)]
    keys += [f"flockstep/0/0,1,2/failure/{number}.{attempt}" for number in range(9) for attempt in range(9)]
    left = [key for key in keys if dist.distributed_c10d._get_default_store().check([key])]
    dist.barrier()
    assert left == []


@case()
def a_closed_state_says_so():
    with under("adacons") as (model, state):
        train(model, 1)
        state.close()
    error = raised(lambda: train(model, 1))
    assert error.code == "unavailable"
    assert "was closed" in str(error)


def with_hook(model, **options):
    """Under a state that has seen no model so far: it refuses one in the first backward pass."""
    model = DistributedDataParallel(copy.deepcopy(model), **SMALL)
    model.kept_state = flockstep.MeanState(**options)
    model.register_comm_hook(model.kept_state, flockstep.mean_hook)
    return model


def tensor_parallel():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

    return parallelize_module(made(), init_device_mesh("cpu", (dist.get_world_size(),)), {"first": ColwiseParallel()})


def in_an_averager():
    model = wrapped()
    with flockstep.LocalSGD(torch.optim.SGD(model.parameters(), lr=0.1), model):
        flockstep.adacons(model)


@case()
def models_that_cannot_have_a_rule_are_refused_in_one_sentence():
    hooked, builtin, partly, elsewhere, frozen = (wrapped() for _ in range(5))
    state = flockstep.mean(hooked)
    builtin._register_builtin_comm_hook(dist.BuiltinCommHookType.ALLREDUCE)
    partly.module.last = partly.module.last.to("meta")
    elsewhere.module.to("meta")
    frozen.requires_grad_(False)
    half = nn.parallel.distributed._MixedPrecision(param_dtype=torch.bfloat16)
    mixed = DistributedDataParallel(made(), mixed_precision=half)
    skips = wrapped(find_unused_parameters=True, skip_all_reduce_unused_params=True)
    sparse, double = nn.Sequential(nn.Embedding(5, 4, sparse=True)), made().double()
    imaginary = nn.Linear(12, 3, dtype=torch.complex64)
    late_sparse, late_double, late_imaginary = late = [with_hook(each) for each in (sparse, double, imaginary)]
    late_long = with_hook(made(), sketch_length=1 << 20)
    x = torch.randn(2, 12)
    mean, wrap = flockstep.mean, DistributedDataParallel
    check_refusals(
        ("is registered on a DistributedDataParallel, not on 3", lambda: mean(3), "BadTypeError"),
        ("Net is not a DistributedDataParallel", lambda: mean(made()), "BadTypeError"),
        ("has a communication hook already", lambda: mean(hooked)),
        ("can only be called once", lambda: mean(builtin)),
        ("on several devices (cpu, meta)", lambda: mean(partly)),
        ("parameters are on meta", lambda: mean(elsewhere)),
        ("0 has sparse gradients", lambda: mean(wrap(sparse))),
        ("sparse=False", lambda: late_sparse(torch.tensor([1, 2])).sum().backward()),
        ("parameter first.weight is float64", lambda: mean(wrap(double))),
        ("type float64", lambda: late_double(x.double()).sum().backward()),
        ("parameter weight is complex64", lambda: mean(wrap(imaginary))),
        ("a parameter is complex", lambda: late_imaginary(x.to(torch.complex64)).abs().sum().backward()),
        ("no parameter of this model requires a gradient", lambda: mean(frozen)),
        ("mixed_precision", lambda: mean(mixed)),
        ("skip_all_reduce_unused_params", lambda: mean(skips)),
        ("DTensors, and not those of fully_shard()", lambda: mean(tensor_parallel())),
        ("is longer than the gradient of 3923", lambda: mean(wrapped(), sketch_length=1 << 20)),
        ("is longer than the gradient of 3923", loss_of(late_long, 0).backward),
        ("watch is True or False", lambda: state.set_rule("adacons", watch="no"), "BadTypeError"),
        ("an averager has this DDP model, whose hook would never run", in_an_averager),
    )
    for each in (state, late_long.kept_state, *(model.kept_state for model in late)):
        each.close()


@case()
def a_state_is_never_closed():
    """Its files are looked at when the process has ended."""
    model = wrapped()
    model.kept_state = flockstep.watch(model, run_dir=f"{sys.argv[1]}/left open")
    train(model, 3)
    globals()["kept"] = model


# Comes last: what was made on two ranks is not made on the third.
@case()
def a_sub_group_that_the_state_was_not_told_of_is_named():
    group = dist.new_group([0, 1])
    if dist.get_rank() == 2:
        return
    model = wrapped(process_group=group)
    state = flockstep.AdaConsState(timeout=timedelta(seconds=1))
    model.register_comm_hook(state, flockstep.adacons_hook)
    error = raised(loss_of(model, 0).backward)
    assert error.code == "deadline"
    assert str(error).startswith("rank 2 has not registered a gradient rule within 1 s, as rank ")
    assert "AdaConsState(process_group=...)" in str(error)
