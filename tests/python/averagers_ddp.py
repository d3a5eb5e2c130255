"""Averagers around DDP models, beside a worker that is asleep, and where they cannot work. Three workers."""

import threading
import time
import warnings

import cases
import flockstep
import torch
import torch.distributed as dist
from cases import (
    backward,
    everybodys,
    gradient_of,
    is_told,
    normalised,
    numbers,
    sgd,
    small_model,
    tell,
    train_step,
    wait_to_hear,
)
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def is_same_everywhere(value):
    values = everybodys(value)
    return all(each == values[0] for each in values)


def ddp_synchronises_only_before_and_after(rank):
    seen = {}
    for name, options in {
        "defaults": {},
        "unused": {"find_unused_parameters": True},
        "static": {"static_graph": True},
        "bucket view": {"gradient_as_bucket_view": True},
        "no buffers": {"broadcast_buffers": False},
    }.items():
        model = DDP(normalised(rank), **options)
        backward(model, rank, 9)  # what a static graph needs
        states = [model.require_backward_grad_sync, model.broadcast_buffers]
        synchronised = []
        optimizer = flockstep.LocalSGD(sgd(model), model, period=100)
        for step in range(3):
            optimizer.zero_grad()
            if step == 1:
                with model.no_sync():
                    backward(model, rank, step)
            backward(model, rank, step)
            synchronised.append(is_same_everywhere(gradient_of(model)))
            optimizer.step()
        synchronised.append(is_same_everywhere(model.module[1].running_mean.tolist()))
        synchronised.append(is_same_everywhere(numbers(model)))
        optimizer.consolidate()
        equal = is_same_everywhere(numbers(model))
        optimizer.close()
        restored = [model.require_backward_grad_sync, model.broadcast_buffers] == states
        again = []
        for step in range(3):
            model.zero_grad()
            backward(model, rank, step)
            again.append(is_same_everywhere(gradient_of(model)))
        seen[name] = {"meanwhile": any(synchronised), "consolidated": equal and restored, "again": all(again)}
    return seen


def a_static_graph_without_a_first_pass(rank):
    model = DDP(small_model(), static_graph=True)
    optimizer = flockstep.LocalSGD(sgd(model), model, period=1)
    train_step(model, optimizer, rank, 0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        optimizer.close()
    return [str(warning.message) for warning in caught]


def post_local_sgd_leaves_the_first_steps_to_ddp(rank):
    model = DDP(small_model(rank))
    with flockstep.PostLocalSGD(sgd(model), model, switch_after=3, period=2) as optimizer:
        synchronised = []
        for step in range(7):
            optimizer.zero_grad()
            backward(model, rank, step)
            synchronised.append(is_same_everywhere(gradient_of(model)))
            optimizer.step()
            synchronised[-1] = [synchronised[-1], is_same_everywhere(numbers(model))]
    return synchronised


def compiled_wrapper(rank):
    """torch.compile keeps the module inside of another one; `eager` compiles nothing."""
    model = torch.compile(DDP(small_model(rank)), backend="eager")
    with flockstep.Flock(sgd(model), model) as optimizer:
        backward(model, rank, 0)
        local = not is_same_everywhere(gradient_of(model))
        optimizer.step()
        optimizer.consolidate()
        return local and is_same_everywhere(numbers(model))


# Worker 2 takes its fourth step only once the others have taken all of theirs: should they wait for it, nobody goes on.
def steps_without_worker_2(rank, make, model, case):
    with make(sgd(model), model) as optimizer:
        for step in range(7):
            if rank == 2 and step == 3:
                wait_to_hear(f"{case}, 0", f"{case}, 1")
            train_step(model, optimizer, rank, step)
        tell(f"{case}, {rank}")
        optimizer.consolidate()
    return is_same_everywhere(numbers(model))


def nobody_waits_for_a_worker_that_sleeps(rank):
    makers = {"Flock": flockstep.Flock, "Wagma": flockstep.Wagma, "ADPSGD": flockstep.ADPSGD}
    return {
        f"{name}, {kind}": steps_without_worker_2(rank, make, model, f"{name}, {kind}")
        for name, make in makers.items()
        for kind, model in {"plain": normalised(), "DDP": DDP(normalised())}.items()
    }


# Whether worker 2 had set out for its fourth step before a worker came out of it.
def those_in_lockstep_wait(rank):
    model = normalised()
    with flockstep.LocalSGD(sgd(model), model, period=1) as optimizer:
        for step in range(4):
            if rank == 2 and step == 3:
                time.sleep(0.5)  # in which the others could go on
                tell("worker 2 sets out")
            train_step(model, optimizer, rank, step)
        return is_told("worker 2 sets out")


def a_thread_goes_on_while_the_worker_waits(rank):
    """Worker 2 comes only once the others' threads have counted; without Python's lock they never would."""
    model = small_model()

    def count():
        for _ in range(50):
            time.sleep(0.001)
        tell(f"counted, {rank}")

    with flockstep.LocalSGD(sgd(model), model, period=1) as optimizer:
        train_step(model, optimizer, rank, 0)
        thread = threading.Thread(target=count)
        backward(model, rank, 1)
        if rank == 2:
            wait_to_hear("counted, 0", "counted, 1")
        thread.start()
        optimizer.step()
        thread.join()
        return True


def a_group_of_some_workers(rank):
    group = dist.new_group([0, 2])
    if rank == 1:
        return None
    plain, wrapped = small_model(rank), DDP(small_model(rank), process_group=group)
    with (
        flockstep.Flock(sgd(plain), plain, process_group=group) as one,
        flockstep.LocalSGD(sgd(wrapped), wrapped, period=2) as two,
    ):
        for step in range(4):
            train_step(plain, one, rank, step)
            train_step(wrapped, two, rank, step)
        one.consolidate()
    return numbers(plain), numbers(wrapped)


def refused(call):
    try:
        call()
    except flockstep.Error as error:
        return f"{error.code}: {error}"
    return "nothing was refused"


def with_replaced_parameter(rank):
    model = small_model()
    with flockstep.DPSGD(sgd(model), model) as optimizer:
        model[0].weight = nn.Parameter(torch.zeros(6, 4))
        return refused(optimizer.consolidate)


def sentences(rank):
    model, other = small_model(), small_model()
    hooked = DDP(small_model())
    hooked.register_comm_hook(None, lambda _, bucket: None)
    two_devices = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2, device="meta")])
    doubles = small_model().double()
    optimizer = flockstep.Flock(sgd(model), model)
    frozen = nn.Sequential(nn.Linear(4, 4).requires_grad_(False), nn.Linear(4, 1))
    unfrozen = flockstep.LocalSGD(sgd(frozen), frozen)
    frozen.requires_grad_(True)
    closed = flockstep.LocalSGD(sgd(other), other)
    closed.close()
    everything = {
        "group_size": refused(lambda: flockstep.Flock(sgd(other), other, group_size=9)),
        "groups": refused(lambda: flockstep.Flock(sgd(other), other, groups="static")),
        "group_size of nodes": refused(lambda: flockstep.Flock(sgd(other), other, groups="nodes", group_size=2)),
        "across": refused(lambda: flockstep.Wagma(sgd(other), other, across=2)),
        "workers_per_node": refused(
            lambda: flockstep.Flock(sgd(other), other, groups="nodes", workers_per_node=min(rank, 1) + 1)
        ),
        "neighbours": refused(lambda: flockstep.SGP(sgd(other), other, neighbours=3)),
        "period": refused(lambda: flockstep.LocalSGD(sgd(other), other, period=0)),
        "activation": refused(lambda: flockstep.Wagma(sgd(other), other, activation="second")),
        "twice": refused(lambda: flockstep.Flock(sgd(model), model)),
        "around an averager": refused(lambda: flockstep.Wagma(optimizer, model)),
        "another model": refused(lambda: flockstep.Flock(sgd(small_model()), other)),
        "another group": refused(lambda: optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(2))]})),
        "no optimizer": refused(lambda: flockstep.Flock(other, other)),
        "no model": refused(lambda: flockstep.Flock(sgd(other), [other])),
        "two devices": refused(lambda: flockstep.Flock(sgd(two_devices[0]), two_devices)),
        "another device": refused(lambda: flockstep.Flock(sgd(two_devices[1]), two_devices[1])),
        "a hook": refused(lambda: flockstep.Flock(sgd(hooked), hooked)),
        "SyncBatchNorm": refused(lambda: flockstep.Flock(sgd(other), nn.Sequential(other, nn.SyncBatchNorm(2)))),
        "frozen": refused(lambda: flockstep.Flock(sgd(other), nn.Linear(2, 2).requires_grad_(False))),
        "doubles": refused(lambda: flockstep.Flock(sgd(doubles), doubles)),
        "unfrozen": refused(lambda: train_step(frozen, unfrozen, rank, 0)),
        "closed": refused(closed.step),
        "differs": refused(lambda: flockstep.LocalSGD(sgd(other), other, period=2 + min(rank, 1))),
        "replaced": with_replaced_parameter(rank),
        "not ours": refused(lambda: optimizer.load_state_dict(other_state(model, "00"))),
    }
    optimizer.close()
    unfrozen.close()
    return everything


def other_state(model, state):
    state_dict = sgd(model).state_dict()
    state_dict["param_groups"][0]["flockstep"] = {"algorithm": "flock", "state": state}
    return state_dict


if __name__ == "__main__":
    cases.run_by_rank(
        ddp_synchronises_only_before_and_after,
        a_static_graph_without_a_first_pass,
        post_local_sgd_leaves_the_first_steps_to_ddp,
        compiled_wrapper,
        nobody_waits_for_a_worker_that_sleeps,
        those_in_lockstep_wait,
        a_thread_goes_on_while_the_worker_waits,
        a_group_of_some_workers,
        sentences,
    )
