"""Averagers where optimizers are used: groups, schedulers, closures, hooks, scalers. Two workers."""

import copy
import warnings
from datetime import timedelta

import cases
import flockstep
import torch
import torch.distributed as dist
from cases import backward, numbers, small_model, train_step
from torch import nn
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer
from torch.optim import lr_scheduler


def momentum(model, **options):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, **options)


def is_inner(optimizer, inner):
    return all(getattr(optimizer, name) is getattr(inner, name) for name in ("param_groups", "state", "defaults"))


def groups_and_state_are_the_inner_ones(rank):
    model = small_model()
    model.extra = nn.Parameter(torch.zeros(2))
    inner = torch.optim.Adam(model[:2].parameters(), lr=0.1)
    with flockstep.Flock(inner, model) as optimizer:
        seen = {"is an optimizer": isinstance(optimizer, torch.optim.Optimizer), "at first": is_inner(optimizer, inner)}
        train_step(model, optimizer, rank, 0)
        seen["after a step"] = is_inner(optimizer, inner) and len(optimizer.state) == 2
        optimizer.add_param_group({"params": model[2].parameters(), "lr": 0.01})
        optimizer.add_param_group({"params": model.extra})
        seen["after add_param_group"] = is_inner(optimizer, inner) and len(optimizer.param_groups) == 3
        optimizer.load_state_dict(optimizer.state_dict())
        seen["after load_state_dict"] = is_inner(optimizer, inner) and len(optimizer.state) == 2
        seen["nothing of ours in the groups"] = all("flockstep" not in group for group in optimizer.param_groups)
        optimizer.param_groups[0]["lr"] = 0.5
        seen["writes go through"] = inner.param_groups[0]["lr"] == 0.5
        train_step(model, optimizer, rank, 1)
        seen["every group learns"] = len(optimizer.state) == 4
        optimizer.zero_grad()
        seen["zero_grad"] = all(parameter.grad is None for parameter in model.parameters())
        seen["repr"] = "Flock" in repr(optimizer) and "lr: 0.5" in repr(optimizer)
    return seen


# Two workers with the same batches stay equal to the last bit, and so equal to one that trains alone. Without a guard: a
# rate that more than doubles from one step to the next would meet it.
def as_one_alone(rank, make_inner, wrap=flockstep.DPSGD, steps=6, step_of=train_step):
    alone = small_model()
    plain = make_inner(alone)
    for step in range(steps):
        step_of(alone, plain, 0, step)
    model = small_model()
    with wrap(make_inner(model), model, guard=False) as optimizer:
        for step in range(steps):
            step_of(model, optimizer, 0, step)
    return numbers(model) == numbers(alone)


def any_optimizer(rank):
    kinds = {
        "SGD": momentum,
        "SGD, nesterov": lambda model: momentum(model, nesterov=True),
        "SGD, foreach": lambda model: momentum(model, foreach=True),
        "SGD, fused": lambda model: momentum(model, fused=True),
        "Adam": lambda model: torch.optim.Adam(model.parameters()),
        "Adam, foreach": lambda model: torch.optim.Adam(model.parameters(), foreach=True),
        "AdamW, fused": lambda model: torch.optim.AdamW(model.parameters(), fused=True),
        "Adagrad": lambda model: torch.optim.Adagrad(model.parameters()),
        "RMSprop": lambda model: torch.optim.RMSprop(model.parameters()),
    }
    return {name: as_one_alone(rank, make) for name, make in kinds.items()}


def with_closure(model, optimizer, rank, step):
    calls = []

    def closure():
        optimizer.zero_grad()
        calls.append(0)
        return backward(model, rank, step)

    loss = optimizer.step(closure)
    assert isinstance(loss, torch.Tensor)
    return len(calls)


def closures(rank):
    def lbfgs(model):
        return torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4)

    model = small_model()
    with flockstep.LocalSGD(lbfgs(model), model) as optimizer:
        calls = with_closure(model, optimizer, 0, 0)
    return {
        "LBFGS": as_one_alone(rank, lbfgs, steps=3, step_of=with_closure),
        "SGD": as_one_alone(rank, momentum, step_of=with_closure),
        "gradients averaged": as_one_alone(rank, lbfgs, flockstep.PostLocalSGD, steps=3, step_of=with_closure),
        "is called more than once": calls > 1,
    }


def schedulers(rank):
    makers = {
        "StepLR": lambda optimizer: lr_scheduler.StepLR(optimizer, 2, 0.5),
        "OneCycleLR": lambda optimizer: lr_scheduler.OneCycleLR(optimizer, 0.5, total_steps=8),
        "SequentialLR": lambda optimizer: lr_scheduler.SequentialLR(
            optimizer,
            [lr_scheduler.LinearLR(optimizer), lr_scheduler.CosineAnnealingLR(optimizer, 4)],
            milestones=[2],
        ),
        "ReduceLROnPlateau": lambda optimizer: lr_scheduler.ReduceLROnPlateau(optimizer, patience=1),
    }

    def rates(model, optimizer, make):
        scheduler = make(optimizer)
        seen = []
        for _ in range(6):
            loss = train_step(model, optimizer, 0, 0)
            scheduler.step(*([loss] if isinstance(scheduler, lr_scheduler.ReduceLROnPlateau) else []))
            seen.append((optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["momentum"]))
        return seen

    same = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of a scheduler that misses the optimizer's steps
        for name, make in makers.items():
            alone, model = small_model(), small_model()
            expected = rates(alone, momentum(alone), make)
            with flockstep.DPSGD(momentum(model), model, guard=False) as optimizer:
                same[name] = rates(model, optimizer, make) == expected and numbers(model) == numbers(alone)
    return same


def step_hooks(rank):
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
    return order


def scaled_step(scaler, factor=1.0, clip=False):
    def step(model, optimizer, rank, number):
        optimizer.zero_grad()
        loss = backward_of_scaled(scaler, model, rank, number, factor)
        if clip:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 0.3)
        scaler.step(optimizer)
        scaler.update()
        return loss

    return step


def backward_of_scaled(scaler, model, rank, number, factor):
    inputs, targets = cases.batch(rank, number)
    loss = nn.functional.mse_loss(model(inputs), targets) * factor
    scaler.scale(loss).backward()
    return loss.item()


# A power of two scales exactly.
def scalers_change_nothing(rank):
    def trained(wrap, make_inner, clip):
        model = small_model()
        optimizer = wrap(make_inner(model), model, guard=False)
        step = scaled_step(torch.amp.GradScaler("cpu", init_scale=1024.0), clip=clip)
        for number in range(4):
            step(model, optimizer, 0, number)
        if optimizer is not None and hasattr(optimizer, "close"):
            optimizer.close()
        return numbers(model)

    def fused(model):
        return torch.optim.Adam(model.parameters(), fused=True)

    return {
        f"{make.__name__}, {wrap.__name__}, {clip}": trained(wrap, make, clip)
        == trained(lambda o, *_, **__: o, make, clip)
        for make in (momentum, fused)
        for wrap in (flockstep.DPSGD, flockstep.PostLocalSGD)
        for clip in (False, True)
    }


def an_overflow_on_one_worker(rank):
    def trained(wrap):
        model = small_model()
        inner = momentum(model)
        updates = []
        inner.register_step_post_hook(lambda *_: updates.append(1))
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        with wrap(inner, model) as optimizer:
            for number in range(6):
                factor = float("inf") if rank == 1 and number == 2 else 1.0
                scaled_step(scaler, factor)(model, optimizer, rank, number)
            optimizer.consolidate()
            steps = int(optimizer.metrics()["step"])
        return {"updates": len(updates), "steps": steps, "scale": scaler.get_scale(), "model": numbers(model)}

    return {
        "rolling": trained(flockstep.Flock),
        "barrier": trained(lambda inner, model: flockstep.Wagma(inner, model, period=2)),
        "lockstep": trained(lambda inner, model: flockstep.LocalSGD(inner, model, period=2)),
        "gradients": trained(flockstep.PostLocalSGD),
    }


def copies_and_repeated_use(rank):
    model, other = small_model(), small_model()
    with flockstep.Flock(momentum(model), model) as one, flockstep.Wagma(momentum(other), other) as two:
        for step in range(4):
            train_step(model, one, rank, step)
            train_step(other, two, rank, step)
        one.consolidate()
        two.consolidate()
        averaged = copy.deepcopy(model)  # as for an exponential average
        together = numbers(averaged) == numbers(model)
    with flockstep.LocalSGD(momentum(model), model) as again:
        train_step(model, again, rank, 4)
        again.consolidate()
    again.close()
    return {"together": together, "model": numbers(model), "other": numbers(other)}


def sentence_of(call):
    try:
        call()
    except (TypeError, flockstep.Error) as error:
        return f"{type(error).__name__}: {error}"
    return "nothing was refused"


def mistakes(rank):
    model = small_model()
    wrong = (
        {"perod": 3},
        {"rundir": "somewhere"},
        {"period": "3"},
        {"period": 0},
        {"elastic": 1},
        {"timeout": 3},
        {"timeout": timedelta.max},
    )
    refused = [
        sentence_of(lambda options=options: flockstep.Flock(momentum(model), model, **options).close())
        for options in wrong
    ]
    with flockstep.LocalSGD(momentum(model), model) as optimizer:
        refused.append(sentence_of(lambda: optimizer.load_state_dict(model.state_dict())))
        refused.append(sentence_of(lambda: optimizer.load_state_dict([optimizer.state_dict()])))
    return refused


class Reducing(torch.optim.SGD):
    """As many scripts have one: it sums gradients over all ranks by itself."""

    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                dist.all_reduce(parameter.grad)
        return super().step(closure)


def optimizers_that_communicate(rank):
    model = small_model()
    averager = PeriodicModelAverager(period=4)
    of_horovod = type("SGD", (torch.optim.SGD,), {"__module__": "horovod.torch.optimizer"})
    made = [
        PostLocalSGDOptimizer(momentum(model), averager),
        ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1),
        of_horovod(model.parameters(), lr=0.1),
    ]
    refused = [sentence_of(lambda inner=inner: flockstep.DiLoCo(inner, model).close()) for inner in made]
    with flockstep.Flock(Reducing(model.parameters(), lr=0.1), model) as optimizer:
        refused.append(sentence_of(lambda: train_step(model, optimizer, rank, 0)))
    with flockstep.Flock(momentum(model), model) as optimizer:
        train_step(model, optimizer, rank, 0)
        dist.barrier()  # the script may, between steps
        train_step(model, optimizer, rank, 1)
    return refused


if __name__ == "__main__":
    cases.run_by_rank(
        groups_and_state_are_the_inner_ones,
        any_optimizer,
        closures,
        schedulers,
        step_hooks,
        scalers_change_nothing,
        an_overflow_on_one_worker,
        copies_and_repeated_use,
        mistakes,
        optimizers_that_communicate,
    )
