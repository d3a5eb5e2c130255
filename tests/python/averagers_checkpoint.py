"""Checkpoints of averagers, and averagers that were pickled. Three workers; the argument is a folder."""

import copy
import io
import json
import pickle
import sys
import warnings
from functools import partial
from pathlib import Path

import cases
import flockstep
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from averagers_shared import cases_in, is_same_everywhere, momentum
from cases import backward, everybodys, gradient_of, numbers, small_model, tell, train_step, wait_to_hear
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.nn.parallel import DistributedDataParallel as DDP


def folder():
    return Path(sys.argv[1])


def adam(model):
    return torch.optim.Adam(model.parameters(), lr=0.01)


def kinds_in(value):
    if isinstance(value, dict):
        return set().union(*map(kinds_in, value), *map(kinds_in, value.values()))
    if isinstance(value, (list, tuple)):
        return set().union(*map(kinds_in, value))
    return {type(value).__name__}


def rank_0_may_take_a_state_dict_alone_and_is_warned_once(rank):
    model = small_model()
    with flockstep.Flock(adam(model), model) as optimizer, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        optimizer.state_dict()  # before any step
        for step in range(3):
            train_step(model, optimizer, rank, step)
        assert not caught
        if rank == 0:
            state = optimizer.state_dict()
            optimizer.state_dict()
            tell("state dict")
        else:
            wait_to_hear("state dict")
        optimizer.consolidate()
        optimizer.state_dict()
    optimizer.state_dict()  # of a closed one
    assert ["call consolidate() on all workers" in str(each.message) for each in caught] == [True] * (rank == 0)
    if rank == 0:
        assert kinds_in(state) <= {"Tensor", "NoneType", "bool", "float", "int", "str"}


def trained(rank, make, steps, load=None, consolidates=True):
    """The model after some steps, and what goes on from there, through torch.save and torch.load with its defaults."""
    model = small_model(rank)
    with make(momentum(model), model) as optimizer:
        if load is not None:
            resume(model, optimizer, load)
        for step in steps:
            train_step(model, optimizer, rank, step)
            if step == 3 and consolidates:
                optimizer.consolidate()
        file = io.BytesIO()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    return numbers(model), file.getvalue()


def resume(model, optimizer, saved):
    loaded = torch.load(io.BytesIO(saved))
    model.load_state_dict(loaded["model"])
    optimizer.load_state_dict(loaded["optimizer"])


def a_resumed_training_ends_on_the_bits_of_an_uninterrupted_one(rank):
    makers = {
        "LocalSGD": partial(flockstep.LocalSGD, period=3),
        "PostLocalSGD": partial(flockstep.PostLocalSGD, switch_after=2, period=3),
        "DiLoCo": partial(flockstep.DiLoCo, period=3, wire="int8", rule="adacons"),
        "DPSGD": flockstep.DPSGD,
        "SGP": flockstep.SGP,
    }
    same = {}
    for name, make in makers.items():
        for consolidates in (True, False):
            straight, _ = trained(rank, make, range(8), consolidates=consolidates)
            _, saved = trained(rank, make, range(4), consolidates=consolidates)
            resumed, _ = trained(rank, make, range(4, 8), load=saved)
            same[name, consolidates] = straight == resumed
    assert all(same.values()), same


def any_number_of_workers_goes_on_from_rank_0s_checkpoint(rank):
    """All three workers, and then two of them."""
    two = dist.new_group([0, 1])
    for name in ("Flock", "Wagma", "ADPSGD", "Swarm", "LocalSGD", "DiLoCo", "SGP"):
        make = getattr(flockstep, name)
        model, saved = trained(rank, make, range(4))
        saved = everybodys(saved)[0]
        for workers, group in ((3, None), (2, two)):
            seen = None
            if rank < workers:
                again = small_model(rank + 5)
                with make(momentum(again), again, process_group=group) as optimizer:
                    resume(again, optimizer, saved)
                    started = numbers(again) == model
                    train_step(again, optimizer, rank, 4)
                    optimizer.consolidate()
                    seen = [started, optimizer.metrics()["step"], numbers(again)]
            ends = everybodys(seen)[:workers]
            assert ends == [[True, 5, ends[0][2]]] * workers, (name, workers, ends)


def a_plain_optimizer_and_an_averager_go_on_from_each_other(rank):
    model = small_model()
    plain = adam(model)
    train_step(model, plain, rank, 0)
    with flockstep.Flock(adam(model), model) as optimizer:
        optimizer.load_state_dict(plain.state_dict())
        train_step(model, optimizer, rank, 1)
        optimizer.consolidate()
        state = optimizer.state_dict()
    assert is_same_everywhere(numbers(model))
    before = plain.state_dict()
    plain.load_state_dict(state)
    after = plain.state_dict()
    assert list(after) == ["state", "param_groups"], "it keeps nothing of ours"
    assert [sorted(group) for group in after["param_groups"]] == [sorted(group) for group in before["param_groups"]]
    after["param_groups"][0]["flockstep"] = state["flockstep"]  # ours as torch's tools keep it
    with flockstep.Flock(adam(model), model) as optimizer:
        optimizer.load_state_dict(after)
        assert optimizer.state_dict()["flockstep"] == state["flockstep"]


def a_state_can_be_loaded_in_the_middle_of_a_training(rank):
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
        steps = optimizer.metrics()["step"]
    assert back
    assert steps == 4


def torch_distributed_checkpoint_saves_and_loads(rank):
    """As torch's tutorials do it, with its helpers."""

    def states(model, optimizer):
        return dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True))

    path = folder() / "distributed"
    model = small_model(rank)
    with flockstep.LocalSGD(adam(model), model, period=2) as optimizer:
        for step in range(3):
            train_step(model, optimizer, rank, step)
        optimizer.consolidate()
        dcp.save(states(model, optimizer), checkpoint_id=path)
        expected = numbers(model)
    model = small_model(rank + 3)
    with flockstep.LocalSGD(adam(model), model, period=2) as optimizer:
        loaded = states(model, optimizer)
        dcp.load(loaded, checkpoint_id=path)
        set_state_dict(model, optimizer, model_state_dict=loaded["model"], optim_state_dict=loaded["optimizer"])
        same = numbers(model) == expected
        train_step(model, optimizer, rank, 3)
        steps = optimizer.metrics()["step"]
    assert is_same_everywhere(numbers(model))
    assert same
    assert steps == 4


def a_pickled_averager_attaches_again(rank):
    for wrap in (lambda model: model, DDP):
        model = wrap(small_model(rank))
        with flockstep.LocalSGD(momentum(model), model, period=2) as optimizer:
            train_step(model, optimizer, rank, 0)
            again = pickle.loads(pickle.dumps(optimizer))
            train_step(model, optimizer, rank, 1)
        copied = again._model
        train_step(copied, again, rank, 1)
        steps = again.metrics()["step"]
        again.close()
        assert again.param_groups[0]["params"][0] is next(copied.parameters())
        assert numbers(copied) == numbers(model)
        assert steps == 2
        assert getattr(copied, "require_backward_grad_sync", True), "DDP synchronises again"


def post_local_sgd_goes_on_without_ddps_gradients(rank):
    def made():
        model = DDP(small_model())
        return model, flockstep.PostLocalSGD(momentum(model), model, switch_after=2, period=3)

    model, optimizer = made()
    with optimizer:
        for step in range(3):
            train_step(model, optimizer, rank, step)
        optimizer.consolidate()
        state = optimizer.state_dict()
    model, optimizer = made()
    with optimizer:
        assert model.require_backward_grad_sync
        optimizer.load_state_dict(state)
        backward(model, rank, 3)
        assert not is_same_everywhere(gradient_of(model))


def a_run_leaves_metrics_and_files_for_the_report(rank):
    model, run = small_model(), folder() / "run"
    with flockstep.Flock(momentum(model), model, run_dir=run) as optimizer:
        for step in range(6):
            optimizer.record(train_step(model, optimizer, rank, step))
        optimizer.consolidate()
    figures = optimizer.metrics()  # of a closed one
    everybodys(None)  # all are closed
    assert all(type(value) is float for value in figures.values())
    assert figures["step"] == 6
    assert 0 <= figures["fresh_fraction"] <= 1
    assert {"loss", "wait_share", "bytes_sent_per_step"} <= figures.keys()
    assert json.loads((run / "summary.json").read_text())["algorithm"] == "flock"


CASES = cases_in(globals())

if __name__ == "__main__":
    cases.run_by_rank(*CASES)
