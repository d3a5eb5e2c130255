"""Averagers where optimizers are used: groups, schedulers, closures, hooks, scalers. Two workers."""

import copy
import warnings
from functools import partial

import cases
import flockstep
import torch
from averagers_shared import cases_in, is_same_everywhere, momentum
from cases import backward, everybodys, numbers, small_model, train_step
from torch import nn
from torch.optim import lr_scheduler


def groups_and_state_are_the_inner_ones(rank):
    model = small_model()
    model.extra = nn.Parameter(torch.zeros(2))
    inner = torch.optim.Adam(model[:2].parameters(), lr=0.1)
    with flockstep.Flock(inner, model) as optimizer:

        def is_inner(groups, states):
            names = ("param_groups", "state", "defaults")
            same = all(getattr(optimizer, name) is getattr(inner, name) for name in names)
            return same and (len(optimizer.param_groups), len(optimizer.state)) == (groups, states)

        seen = {"is an optimizer": isinstance(optimizer, torch.optim.Optimizer), "at first": is_inner(1, 0)}
        train_step(model, optimizer, rank, 0)
        seen["after a step"] = is_inner(1, 2)
        optimizer.add_param_group({"params": model[2].parameters(), "lr": 0.01})
        optimizer.add_param_group({"params": model.extra})
        seen["after add_param_group"] = is_inner(3, 2)
        optimizer.load_state_dict(optimizer.state_dict())
        seen["after load_state_dict"] = is_inner(3, 2)
        seen["nothing of ours in the groups"] = all("flockstep" not in group for group in optimizer.param_groups)
        optimizer.param_groups[0]["lr"] = 0.5
        seen["writes go through"] = inner.param_groups[0]["lr"] == 0.5
        train_step(model, optimizer, rank, 1)
        seen["every group learns"] = is_inner(3, 4)
        optimizer.zero_grad()
        seen["zero_grad"] = all(parameter.grad is None for parameter in model.parameters())
        seen["repr"] = "Flock" in repr(optimizer) and "lr: 0.5" in repr(optimizer)
    assert all(seen.values()), seen


# Each makes the step of a training around an optimizer.
def plain(optimizer):
    return train_step


def with_closure(optimizer):
    def step(model, optimizer, rank, number):
        def closure():
            optimizer.zero_grad()
            return backward(model, rank, number)

        assert isinstance(optimizer.step(closure), torch.Tensor)

    return step


def with_scheduler(make, optimizer):
    scheduler = make(optimizer)

    def step(model, optimizer, rank, number):
        loss = train_step(model, optimizer, rank, 0)
        scheduler.step(*([loss] if isinstance(scheduler, lr_scheduler.ReduceLROnPlateau) else []))

    return step


def with_scaler(optimizer, clip=False, factor_of=lambda number: 1.0):
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)  # a power of two scales exactly

    def step(model, optimizer, rank, number):
        optimizer.zero_grad()
        inputs, targets = cases.batch(rank, number)
        scaler.scale(nn.functional.mse_loss(model(inputs), targets) * factor_of(number)).backward()
        if clip:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 0.3)
        scaler.step(optimizer)
        scaler.update()

    step.scaler = scaler
    return step


def in_sequence(optimizer):
    parts = [lr_scheduler.LinearLR(optimizer), lr_scheduler.CosineAnnealingLR(optimizer, 4)]
    return lr_scheduler.SequentialLR(optimizer, parts, milestones=[2])


# Two workers with the same batches stay equal to the last bit, and so equal to one that trains alone. Without a guard: a
# rate that more than doubles from one step to the next would meet it.
def it_is_as_with_the_inner_optimizer_alone(rank):
    def trained(make, steps, wrap=lambda inner, *_, **__: inner):
        model = small_model()
        optimizer = wrap(make(model), model, guard=False)
        step = steps(optimizer)
        for number in range(6):
            step(model, optimizer, 0, number)
        getattr(optimizer, "close", lambda: None)()
        return numbers(model)

    def of(kind, **options):
        return lambda model: kind(model.parameters(), **options)

    lbfgs, fused = of(torch.optim.LBFGS, lr=0.5, max_iter=4), of(torch.optim.Adam, fused=True)
    rows = {
        "SGD": (partial(momentum, nesterov=True, fused=True), plain),
        "Adam, foreach": (of(torch.optim.Adam, foreach=True), plain),
        "AdamW, fused": (of(torch.optim.AdamW, fused=True), plain),
        "RMSprop": (of(torch.optim.RMSprop), plain),
        "LBFGS, closure": (lbfgs, with_closure),
        "SGD, closure": (momentum, with_closure),
        "StepLR": (momentum, partial(with_scheduler, lambda it: lr_scheduler.StepLR(it, 2, 0.5))),
        "OneCycleLR": (momentum, partial(with_scheduler, lambda it: lr_scheduler.OneCycleLR(it, 0.5, total_steps=8))),
        "SequentialLR": (momentum, partial(with_scheduler, in_sequence)),
        "ReduceLROnPlateau": (
            momentum,
            partial(with_scheduler, lambda it: lr_scheduler.ReduceLROnPlateau(it, patience=0, threshold=0.9)),
        ),
        "scaled": (momentum, with_scaler),
        "scaled, clipped": (momentum, partial(with_scaler, clip=True)),
        "scaled, fused": (fused, with_scaler),
        "scaled, fused, clipped": (fused, partial(with_scaler, clip=True)),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of a scheduler that misses the optimizer's steps
        same = {name: trained(*row) == trained(*row, flockstep.DPSGD) for name, row in rows.items()}
        for name in ("LBFGS, closure", *(name for name in rows if "scaled" in name)):
            same[f"{name}, gradients averaged"] = trained(*rows[name]) == trained(*rows[name], flockstep.PostLocalSGD)
    assert all(same.values()), same


def step_hooks_of_both_run_in_order(rank):
    model = small_model()
    inner = momentum(model)
    order = []
    inner.register_step_pre_hook(lambda *_: order.append("inner pre"))
    inner.register_step_post_hook(lambda *_: order.append("inner post"))
    with flockstep.LocalSGD(inner, model, period=1) as optimizer:
        optimizer.register_step_pre_hook(lambda it, args, kwargs: order.append(f"pre {it is optimizer}"))
        handle = optimizer.register_step_post_hook(lambda *_: order.append("post"))
        train_step(model, optimizer, rank, 0)
        handle.remove()
        train_step(model, optimizer, rank, 1)
        optimizer.register_state_dict_post_hook(lambda _, state: {**state, "mine": 1})
        optimizer.register_load_state_dict_pre_hook(lambda _, state: order.append(f"loads {state['mine']}"))
        optimizer.load_state_dict(optimizer.state_dict())
    around = ["pre True", "inner pre", "inner post"]
    assert order == [*around, "post", *around, "loads 1"], order


def a_worker_with_an_overflow_takes_part_without_an_update(rank):
    makers = {
        "rolling": flockstep.Flock,
        "barrier": partial(flockstep.Wagma, period=2),
        "lockstep": partial(flockstep.LocalSGD, period=2),
        "gradients": flockstep.PostLocalSGD,
    }
    for name, make in makers.items():
        model = small_model()
        inner = momentum(model)
        updates = []
        inner.register_step_post_hook(lambda *_, updates=updates: updates.append(1))
        with make(inner, model) as optimizer:
            step = with_scaler(optimizer, factor_of=lambda number: float("inf") if (rank, number) == (1, 2) else 1.0)
            for number in range(6):
                step(model, optimizer, rank, number)
            optimizer.consolidate()
            counted = everybodys([len(updates), int(optimizer.metrics()["step"]), step.scaler.get_scale()])
        assert is_same_everywhere(numbers(model)), name
        if name == "gradients":  # those of both workers have the overflow
            assert [updates for updates, *_ in counted] == [5, 5], counted
        else:
            assert counted == [[6, 6, 1024], [5, 6, 512]], (name, counted)


def two_averagers_work_side_by_side_and_one_after_the_other(rank):
    model, other = small_model(), small_model()
    with flockstep.Flock(momentum(model), model) as one, flockstep.Wagma(momentum(other), other) as two:
        for step in range(4):
            train_step(model, one, rank, step)
            train_step(other, two, rank, step)
        one.consolidate()
        two.consolidate()
        averaged = numbers(copy.deepcopy(model)), numbers(model)  # as for an exponential average
    with flockstep.LocalSGD(momentum(model), model) as again:
        train_step(model, again, rank, 4)
        again.consolidate()
    again.close()
    assert is_same_everywhere([numbers(model), numbers(other)])
    assert averaged[0] == averaged[1]


CASES = cases_in(globals())

if __name__ == "__main__":
    cases.run_by_rank(*CASES)
