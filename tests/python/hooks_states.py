"""Cases of hooks_program.py: what becomes of a state that is switched, resumed, copied or forked."""

import copy
import gc
import io
import os
import pickle
import signal
import warnings
from contextlib import closing

import flockstep
import torch
import torch.distributed as dist
from cases import CASE_S
from ddp_training import batch, distance, flat, loss_of
from hooks_shared import (
    CASES,
    SMALL,
    backward,
    check_refusals,
    distance_of_step,
    raised,
    state_of,
    train,
    under,
    wrapped,
)
from rule_oracle import RULES, Expected
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel, update_bn

case = CASES.case


@case()
def all_switch_the_rule_with_the_last_that_asks():
    """Each rank asks one step later than the one before."""
    rules, worst = [], 0.0
    expected = {"mean": Expected("mean"), "adacons": Expected("adacons", beta=0.5)}
    with under("mean", transfer="exact") as (model, state):
        for step in range(6):
            if step == dist.get_rank() + 1:
                state.set_rule("adacons", beta=0.5, guard=0.0)
            worst = max(worst, distance_of_step(model, step, expected["mean" if step < 3 else "adacons"]))
            rules.append(state.rule)
            assert state.state_dict()["rule"] == state.rule
        assert raised(lambda: state.set_rule("adacon")).code == "bad_input"
    assert rules == ["mean"] * 3 + ["adacons"] * 3
    assert worst < 1e-5


@case()
def a_rule_that_is_switched_to_begins_anew_at_any_time():
    """From before the first step on: each time as if the rule were new."""
    step = 0
    with under("adacons", start_step=1) as (model, state):
        for rule, options in (
            ("mean", {}),
            ("adacons", {"beta": 0.5}),
            ("direction_consensus", {}),
            ("adacons", {"granularity": "tensor"}),
            ("direction_consensus", {"granularity": "bucket"}),
            ("adacons", {}),
        ):
            state.set_rule(rule, **options)
            with under(rule, transfer="exact", **options) as (fresh, _):
                for _ in range(3):
                    backward(model, step)
                    backward(fresh, step)
                    if options.get("granularity") != "bucket":  # of which a new DDP has others at first
                        assert distance(flat(model.parameters()), flat(fresh.parameters())) < 1e-5
                    step += 1


@case("exact")
@case("sketch", thorough=True)
def start_step_averages_before(transfer):
    with under("normalized_mean", start_step=2, transfer=transfer, guard=0.0) as (model, state):
        for step, rule in enumerate(["mean", "mean", "normalized_mean", "normalized_mean"]):
            apart = distance_of_step(model, step, Expected(rule))
            assert apart < 1e-5 or (transfer == "sketch" and step >= 2)
            assert state.rule == rule


def through_a_file(state):
    file = io.BytesIO()
    torch.save(state.state_dict(), file)
    file.seek(0)
    other = type(state)(sketch_length=64)
    other.load_state_dict(torch.load(file))
    return other


COPIES = {
    "pickle": lambda state: pickle.loads(pickle.dumps(state)),
    "deepcopy": copy.deepcopy,
    "state_dict": through_a_file,
}


@case("adacons", "pickle")
@case("adacons", "deepcopy")
@case("adacons", "state_dict")
@case("direction_consensus", "pickle", thorough=True)
@case("direction_consensus", "deepcopy", thorough=True)
@case("direction_consensus", "state_dict", thorough=True)
def a_resumed_training_gives_what_one_gives_that_goes_on(rule, how):
    """Three steps, then three more in another life, to the last bit. Both go on with a new DDP, which orders parameters anew."""
    ends = []
    for copied in (lambda state: state, COPIES[how]):
        first, hook = wrapped(), getattr(flockstep, f"{rule}_hook")
        state = state_of(rule, sketch_length=64)
        first.register_comm_hook(state, hook)
        train(first, 3)
        other, again = copied(state), DistributedDataParallel(first.module, **SMALL)
        again.register_comm_hook(other, hook)
        ends.append(train(again, 3, first=3))
        assert other.step == 6
        state.close()
        other.close()
    assert torch.equal(*ends)


@case(thorough=True)
def every_state_can_be_copied_but_not_with_a_process_group_of_its_own():
    """Each before its first step and after it; then one more step with the copy."""
    for rule in RULES:
        state = pickle.loads(pickle.dumps(copy.deepcopy(state_of(rule, transfer="exact", guard=0.0))))
        expected = Expected(rule)
        for step, copied in enumerate([copy.copy, copy.deepcopy, COPIES["pickle"]]):
            model = wrapped()
            model.register_comm_hook(state, getattr(flockstep, f"{rule}_hook"))
            assert distance_of_step(model, step, expected) < 1e-5
            other = copied(state)
            state.close()
            state = other
    own = flockstep.AdaConsState(process_group=dist.new_group([0, 1, 2]))
    check_refusals(*(("process_group", lambda action=action: action(own)) for action in (copy.deepcopy, pickle.dumps)))


@case(thorough=True)
def a_copied_model_says_that_it_lost_its_hook_and_can_get_it_again():
    with under("adacons") as (model, _):
        train(model, 2)
        for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            lost = raised(lambda other=other: loss_of(other, 0))
            assert isinstance(lost, flockstep.BadInputError)
            assert "has lost its communication hook" in str(lost)
            with under("adacons", other):
                assert distance_of_step(other, 5, Expected("adacons")) < 1e-5


@case(thorough=True)
def so_does_a_copy_that_torch_hooked_as_far_as_it_can_be_told():
    model = wrapped()
    with closing(flockstep.AdaConsState()) as state:
        model.register_comm_hook(state, flockstep.adacons_hook)
        train(model, 1)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            copy.deepcopy(state)
            copy.deepcopy(model)
    [warning] = caught
    assert "has lost its communication hook" in str(warning.message)


@case(thorough=True)
def a_copy_evaluates_without_its_hook():
    """Also one that torch.optim.swa_utils has made. The model itself trains on."""
    with under("adacons") as (model, state):
        averaged = AveragedModel(model)
        for step in range(2):
            loss_of(model, step).backward()
            averaged.update_parameters(model)
        with torch.no_grad():
            assert torch.equal(averaged(batch(0)[0]), model(batch(0)[0]))
        update_bn([batch(0)[0]], averaged)
        with averaged.module.no_sync():
            loss_of(averaged, 0).backward()
        loss_of(model, 2).backward()
        assert state.step == 3


@case("exact", thorough=True)
@case("sketch", thorough=True)
def a_forked_child_leaves_the_state_alone(transfer):
    """The child has no thread. It lets go of the state, or asks for what is known and closes it; training goes on here."""
    with under("adacons", transfer=transfer) as (model, state):
        train(model, 1)
        child = os.fork()
        if child == 0:
            signal.alarm(CASE_S)
            if transfer == "sketch":
                state.report()
                state.close()
            else:
                state.__dict__.clear()
                gc.collect()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        train(model, 2)
        assert state.step == 3
