"""Averagers are optimizers: what a training script does with one, it can do with them."""

from pathlib import Path

import pytest
from results import Results

pytestmark = pytest.mark.thorough

SCRIPT = Path(__file__).parent / "averagers_optimizer.py"


@pytest.fixture(scope="module")
def results():
    return Results(SCRIPT, 2)


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


def test_wrong_calls_get_one_sentence_in_words_of_python(results):
    there_are = "; there are group_size, groups, across, "
    for sentences in results["mistakes"]:
        misspelt, joined, *others = sentences
        assert misspelt.startswith(f"BadTypeError: Flock has no option 'perod' (did you mean period?){there_are}")
        assert joined.startswith(f"BadTypeError: Flock has no option 'rundir' (did you mean run_dir?){there_are}")
        assert others == [
            "BadTypeError: period is a whole number, not '3'",
            "BadInputError: period takes a whole number at least 1, not 0",
            "BadTypeError: elastic is True or False, not 1",
            "BadTypeError: timeout is a datetime.timedelta or None, not 3",
            "BadInputError: a timeout is at most 11574 days, not 999999999 days, 23:59:59.999999: every wait comes to an end",
            "BadInputError: load_state_dict() takes what state_dict() of an averager or an optimizer returned, which has "
            "state, param_groups: this has 0.weight, 0.bias, 2.weight, ...",
            "BadTypeError: load_state_dict() takes what state_dict() of an averager or an optimizer returned, not a list",
        ]


def test_an_optimizer_that_communicates_by_itself_is_refused(results):
    rest = " communicates with other workers by itself, and {} goes around an optimizer of one worker: "
    for sentences in results["optimizers_that_communicate"]:
        for sentence, name, holder in zip(
            sentences,
            ("PostLocalSGDOptimizer", "ZeroRedundancyOptimizer", "SGD", "Reducing"),
            ("DiLoCo", "DiLoCo", "DiLoCo", "Flock"),
            strict=True,
        ):
            assert sentence.startswith(f"BadInputError: {name}{rest.format(holder)}")
