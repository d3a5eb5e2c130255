"""Averagers are optimizers: what a training script does with one, it can do with them."""

from pathlib import Path

import pytest
from cases import results_of

SCRIPT = Path(__file__).parent / "averagers_optimizer.py"


@pytest.fixture(scope="module")
def results(torchrun):
    return results_of(torchrun(SCRIPT, 2))


@pytest.mark.parametrize(
    "case",
    ["groups_and_state_are_the_inner_ones", "any_optimizer", "closures", "schedulers", "scalers_change_nothing"],
)
def test_it_is_as_with_the_inner_optimizer(results, case):
    for seen in results[case]:
        assert all(seen.values()), seen


def test_step_hooks_of_both_run_in_order(results):
    around = ["inner pre", "inner post"]
    for order in results["step_hooks"]:
        assert order == ["pre True", *around, "post", "pre True", *around, "loads 1"]


@pytest.mark.parametrize("sync", ["rolling", "barrier", "lockstep"])
def test_a_worker_with_an_overflow_takes_part_without_an_update(results, sync):
    healthy, overflown = (worker[sync] for worker in results["an_overflow_on_one_worker"])
    assert (healthy["updates"], overflown["updates"]) == (6, 5)
    assert (healthy["steps"], overflown["steps"]) == (6, 6)
    assert (healthy["scale"], overflown["scale"]) == (1024, 512)
    assert healthy["model"] == overflown["model"]


def test_an_overflow_in_averaged_gradients_keeps_everybody_from_updating(results):
    healthy, overflown = (worker["gradients"] for worker in results["an_overflow_on_one_worker"])
    assert (healthy["updates"], overflown["updates"]) == (5, 5)
    assert healthy["model"] == overflown["model"]


def test_two_averagers_side_by_side_and_one_after_the_other(results):
    one, two = results["copies_and_repeated_use"]
    assert one == two
    assert one["together"]


def test_options_that_do_not_exist_are_refused_as_in_any_call(results):
    for sentences in results["mistakes"]:
        assert sentences == [
            "BadTypeError: Flock.__init__() got an unexpected keyword argument 'perod'",
            "BadTypeError: Flock.__init__() got an unexpected keyword argument 'rundir'",
            "BadTypeError: a timeout is a datetime.timedelta, and 3 is none",
            "BadInputError: a timeout is at most 11574 days, not 999999999 days, 23:59:59.999999: every wait comes to an end",
        ]
