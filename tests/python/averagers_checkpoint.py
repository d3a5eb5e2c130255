"""Checkpoints of averagers, and averagers that were pickled. Three workers; the argument is a folder."""

import copy
import io
import pickle
import sys
import warnings
from pathlib import Path

import cases
import flockstep
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from cases import backward, everybodys, numbers, small_model, tell, train_step, wait_to_hear
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.nn.parallel import DistributedDataParallel as DDP

FOLDER = Path(sys.argv[1])


def momentum(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def adam(model):
    return torch.optim.Adam(model.parameters(), lr=0.01)


def kinds_in(value):
    if isinstance(value, dict):
        return set().union(*map(kinds_in, value), *map(kinds_in, value.values()))
    if isinstance(value, (list, tuple)):
        return set().union(*map(kinds_in, value))
    return {type(value).__name__}


def rank_0_takes_a_state_dict_alone(rank):
    model = small_model()
    with flockstep.Flock(adam(model), model) as optimizer:
        for step in range(3):
            train_step(model, optimizer, rank, step)
        seen = {}
        if rank == 0:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                state = optimizer.state_dict()
                optimizer.state_dict()
            seen = {
                "warnings": [str(warning.message) for warning in caught],
                "kinds": sorted(kinds_in(state)),
            }
            tell("state dict")
        else:
            wait_to_hear("state dict")
        optimizer.consolidate()
    fresh = small_model()
    with flockstep.Flock(adam(fresh), fresh) as optimizer, warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.state_dict()  # before any step
        train_step(fresh, optimizer, rank, 0)
        optimizer.consolidate()
        optimizer.state_dict()
    optimizer.state_dict()  # of a closed one
    return seen


def trained(rank, make, steps, load=None, consolidates=True):
    """The model after some steps, and what goes on from there, through torch.save and torch.load with its defaults."""
    model = small_model(rank)
    with make(momentum(model), model) as optimizer:
        if load is not None:
            saved = torch.load(io.BytesIO(load))
            model.load_state_dict(saved["model"])
            optimizer.load_state_dict(saved["optimizer"])
        for step in steps:
            train_step(model, optimizer, rank, step)
        if consolidates:
            optimizer.consolidate()
        file = io.BytesIO()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    return numbers(model), file.getvalue()


def who_goes_on_ends_as_who_was_never_interrupted(rank):
    makers = {
        "LocalSGD": lambda inner, model: flockstep.LocalSGD(inner, model, period=3),
        "PostLocalSGD": lambda inner, model: flockstep.PostLocalSGD(inner, model, switch_after=2, period=3),
        "DiLoCo": lambda inner, model: flockstep.DiLoCo(inner, model, period=3, wire="int8", rule="adacons"),
        "DPSGD": flockstep.DPSGD,
        "SGP": flockstep.SGP,
    }
    same = {}
    for name, make in makers.items():
        for consolidates in (True, False):

            def whole(inner, model, make=make, consolidates=consolidates):
                averager = make(inner, model)
                calls = [0]

                def consolidate_once(*_):
                    calls[0] += 1
                    if calls[0] == 4 and consolidates:
                        averager.consolidate()

                averager.register_step_post_hook(consolidate_once)
                return averager

            straight, _ = trained(rank, whole, range(8), consolidates=False)
            _, saved = trained(rank, make, range(4), consolidates=consolidates)
            resumed, _ = trained(rank, make, range(4, 8), load=saved, consolidates=False)
            same[f"{name}, {'consolidated' if consolidates else 'apart'}"] = straight == resumed
    return same


def anybody_goes_on_from_rank_0s_checkpoint(rank):
    """All three workers, and then two of them."""
    group = dist.new_group([0, 1])
    seen = {}
    for make in (
        flockstep.Flock,
        flockstep.Wagma,
        flockstep.ADPSGD,
        flockstep.Swarm,
        flockstep.LocalSGD,
        flockstep.DiLoCo,
        flockstep.SGP,
    ):
        model, saved = trained(rank, make, range(4))
        saved = everybodys(saved)[0]
        seen[make.__name__] = {}
        for workers in (3, 2):
            if rank >= workers:
                continue
            again = small_model(rank + 5)
            inner = momentum(again)
            averager = make(inner, again, process_group=group) if workers == 2 else make(inner, again)
            with averager as optimizer:
                loaded = torch.load(io.BytesIO(saved))
                again.load_state_dict(loaded["model"])
                optimizer.load_state_dict(loaded["optimizer"])
                started = numbers(again) == model
                train_step(again, optimizer, rank, 4)
                optimizer.consolidate()
                steps = optimizer.metrics()["step"]
            seen[make.__name__][workers] = {"started": started, "steps": steps, "model": numbers(again)}
    return seen


def a_state_without_ours(rank):
    model = small_model()
    plain = momentum(model)
    train_step(model, plain, rank, 0)
    with flockstep.Flock(momentum(model), model) as optimizer:
        optimizer.load_state_dict(plain.state_dict())
        train_step(model, optimizer, rank, 1)
        optimizer.consolidate()
        state = optimizer.state_dict()
    plain.load_state_dict(state)  # and back
    return numbers(model)


def a_plain_optimizer_keeps_nothing_of_ours(rank):
    model = small_model()
    with flockstep.Flock(adam(model), model) as optimizer:
        train_step(model, optimizer, rank, 0)
        optimizer.consolidate()
        state = optimizer.state_dict()
    plain = adam(model)
    before = [sorted(group) for group in plain.param_groups]
    plain.load_state_dict(state)
    older = adam(model).state_dict()  # with ours where it was once
    older["param_groups"][0]["flockstep"] = state["flockstep"]
    with flockstep.Flock(adam(model), model) as optimizer:
        optimizer.load_state_dict(older)
        steps = optimizer.state_dict()["flockstep"] == state["flockstep"]
    return {
        "groups": [sorted(group) for group in plain.param_groups] == before,
        "saved": list(plain.state_dict()) == ["state", "param_groups"],
        "older": steps,
    }


def in_the_middle_of_a_training(rank):
    """Back to an earlier state, as after a spike of the loss."""
    model = small_model()
    with flockstep.Flock(momentum(model), model) as optimizer:
        for step in range(3):
            train_step(model, optimizer, rank, step)
        optimizer.consolidate()
        earlier, state = copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict())
        expected = numbers(model)
        for step in range(3, 9):
            train_step(model, optimizer, rank, step)
        model.load_state_dict(earlier)
        optimizer.load_state_dict(state)
        optimizer.consolidate()
        back = numbers(model) == expected
        train_step(model, optimizer, rank, 3)
        return {"back": back, "steps": optimizer.metrics()["step"]}


def distributed_checkpoint(rank):
    """As torch's tutorials do it, with the helpers and without."""
    ends = []
    for name in ("helpers", "state_dict"):
        path = FOLDER / name
        model = small_model(rank)
        with flockstep.LocalSGD(adam(model), model, period=2) as optimizer:
            for step in range(3):
                train_step(model, optimizer, rank, step)
            optimizer.consolidate()
            dcp.save(dict(zip(("model", "optimizer"), states(name, model, optimizer), strict=True)), checkpoint_id=path)
            expected = numbers(model)
        model = small_model(rank + 3)
        with flockstep.LocalSGD(adam(model), model, period=2) as optimizer:
            if name == "state_dict":
                train_step(model, optimizer, rank, 9)  # there has to be a state to load into
            loaded = dict(zip(("model", "optimizer"), states(name, model, optimizer), strict=True))
            dcp.load(loaded, checkpoint_id=path)
            if name == "helpers":
                set_state_dict(model, optimizer, model_state_dict=loaded["model"], optim_state_dict=loaded["optimizer"])
            else:
                model.load_state_dict(loaded["model"])
                optimizer.load_state_dict(loaded["optimizer"])
            same = numbers(model) == expected
            train_step(model, optimizer, rank, 3)
            ends.append({"same": same, "steps": optimizer.metrics()["step"], "model": numbers(model)})
    return ends


def states(name, model, optimizer):
    if name == "helpers":
        return get_state_dict(model, optimizer)
    return model.state_dict(), optimizer.state_dict()


def pickled(rank):
    ends = []
    for wrap in (lambda model: model, DDP):
        model = wrap(small_model(rank))
        with flockstep.LocalSGD(momentum(model), model, period=2) as optimizer:
            train_step(model, optimizer, rank, 0)
            again = pickle.loads(pickle.dumps(optimizer))
            train_step(model, optimizer, rank, 1)
        copied = again._model
        identity = again.param_groups[0]["params"][0] is next(copied.parameters())
        train_step(copied, again, rank, 1)
        ends.append({"identity": identity, "same": numbers(copied) == numbers(model), "steps": again.metrics()["step"]})
        again.close()
        ends[-1]["synchronises"] = getattr(copied, "require_backward_grad_sync", True)
    return ends


def post_local_sgd_goes_on_without_ddps_gradients(rank):
    model = DDP(small_model())
    with flockstep.PostLocalSGD(momentum(model), model, switch_after=2, period=3) as optimizer:
        for step in range(3):
            train_step(model, optimizer, rank, step)
        optimizer.consolidate()
        state = optimizer.state_dict()
    model = DDP(small_model())
    with flockstep.PostLocalSGD(momentum(model), model, switch_after=2, period=3) as optimizer:
        before = model.require_backward_grad_sync
        optimizer.load_state_dict(state)
        backward(model, rank, 3)
        gradients = everybodys(model.module[0].weight.grad.tolist())
        return {"before": before, "own": gradients[0] != gradients[1]}


def what_a_run_leaves(rank):
    model = small_model()
    with flockstep.Flock(momentum(model), model, run_dir=FOLDER / "run") as optimizer:
        for step in range(6):
            optimizer.record(train_step(model, optimizer, rank, step))
        optimizer.consolidate()
    figures = optimizer.metrics()  # of a closed one
    return {"figures": figures, "plain": all(type(value) is float for value in figures.values())}


if __name__ == "__main__":
    cases.run_by_rank(
        rank_0_takes_a_state_dict_alone,
        who_goes_on_ends_as_who_was_never_interrupted,
        anybody_goes_on_from_rank_0s_checkpoint,
        a_state_without_ours,
        a_plain_optimizer_keeps_nothing_of_ours,
        in_the_middle_of_a_training,
        distributed_checkpoint,
        pickled,
        post_local_sgd_goes_on_without_ddps_gradients,
        what_a_run_leaves,
    )
