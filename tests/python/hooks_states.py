"""Cases of hooks_program.py: what becomes of a state that is switched, resumed, copied or forked."""

import copy
import gc
import os
import pickle
import signal
import sys
import warnings
from datetime import timedelta

import flockstep
import torch
import torch.distributed as dist
from cases import CASE_S
from ddp_training import batch, distance, flat, loss_of
from hooks_shared import SMALL, STATES, gradient_of, refusal, train, wrapped
from rule_oracle import RULES, Expected
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel, update_bn


def switching():
    """Each rank asks one step later than the one before: all switch with the last."""
    model = wrapped()
    state = flockstep.mean(model, transfer="exact")
    rules, saved, worst = [], [], 0.0
    expected = {"mean": Expected("mean"), "adacons": Expected("adacons", beta=0.5)}
    for step in range(6):
        if step == dist.get_rank() + 1:
            state.set_rule("adacons", beta=0.5, guard=0.0)
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
        other = getattr(flockstep, rule)(fresh, transfer="exact", **options)
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
    state = flockstep.normalized_mean(model, start_step=2, transfer="exact", guard=0.0)
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
        state, worst = (
            pickle.loads(pickle.dumps(copy.deepcopy(made_by(start_step=0, transfer="exact", guard=0.0)))),
            0.0,
        )
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
        signal.alarm(CASE_S)
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


def averaged_model():
    model = wrapped()
    state = flockstep.adacons(model)
    averaged = AveragedModel(model)
    for step in range(2):
        loss_of(model, step).backward()
        averaged.update_parameters(model)
    with torch.no_grad():
        same = torch.equal(averaged(batch(0)[0]), model(batch(0)[0]))
    update_bn([batch(0)[0]], averaged)
    with averaged.module.no_sync():
        loss_of(averaged, 0).backward()
    loss_of(model, 2).backward()
    outcome = {"evaluated": same, "trains on": state.step == 3}
    state.close()
    return outcome


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
