"""Flockstep's callbacks for Lightning, in the example's trainer on two ranks."""

from pathlib import Path

import pytest
from trainer_runs import told_by_ranks

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def ranks(torchrun, tmp_path_factory):
    """What each rank tells of all fits."""
    folder = tmp_path_factory.mktemp("fits")
    done = torchrun(Path(__file__).with_name("lightning_program.py"), 2, folder)
    told = told_by_ranks(done)
    assert "adacons: accuracy 0." in done.stdout, "of the example itself"
    assert (folder / "runs" / "lightning" / "metrics.csv").exists()
    return told


@pytest.mark.parametrize("fit", ["adacons", "hook", "flock"])
def test_both_ranks_end_with_the_same_parameters_and_have_learnt(ranks, fit):
    assert ranks[0][fit]["parameters"] == ranks[1][fit]["parameters"]
    assert ranks[0][fit]["accuracy"] > 0.6
    losses = ranks[0][fit]["losses"]
    assert sum(losses[-10:]) < 0.7 * sum(losses[:10])


@pytest.mark.parametrize("fit", ["adacons", "hook"])
def test_the_loggers_get_coefficients_which_are_not_those_of_averaging(ranks, fit):
    rows = ranks[0]["rows"][fit]
    assert [row["flockstep/step"] for row in rows] == [10 * (1 + each) for each in range(len(rows))]
    assert [row["step"] for row in rows] == [row["flockstep/step"] - 1 for row in rows]
    coefficients = [row[f"flockstep/coefficient/{rank}"] for row in rows for rank in (0, 1)]
    assert max(abs(each - 0.5) for each in coefficients) > 0.01


def test_a_resumed_rule_ends_with_the_parameters_of_an_uninterrupted_fit(ranks):
    assert ranks[0]["adacons resumed"]["steps_at_start"] == [40]
    assert ranks[0]["adacons resumed"]["steps"] == ranks[0]["adacons"]["steps"] == 80
    assert ranks[0]["adacons resumed"]["parameters"] == ranks[0]["adacons"]["parameters"]


def test_a_callback_of_two_fits_begins_the_second_anew(ranks):
    assert ranks[0]["fitted twice"] == [80, 5]


def test_an_averager_counts_steps_and_not_batches_under_accumulation(ranks):
    assert ranks[0]["flock"]["steps"] == 46
    last = ranks[0]["rows"]["flock"][-1]
    assert last["flockstep/step"] == 40
    assert last["flockstep/fresh_fraction"] > 0
    assert last["flockstep/bytes_sent_per_step"] > 1000


def test_checkpoints_amid_an_epoch_hold_one_model(ranks):
    assert {"15", "30"} <= set(ranks[0]["flock"]["saved"])
    assert ranks[0]["flock"]["saved"] == ranks[1]["flock"]["saved"]


def test_all_ranks_validate_one_model(ranks):
    assert ranks[0]["flock"]["in_validation"][2:]  # the first two are of the sanity check
    assert ranks[0]["flock"]["in_validation"][2:] == ranks[1]["flock"]["in_validation"][2:]


def test_a_resumed_averager_goes_on_from_its_step(ranks):
    assert [told["flock resumed"]["steps_at_start"] for told in ranks] == [[30], [30]]
    assert ranks[0]["flock resumed"]["steps"] >= 50
    assert ranks[0]["flock resumed"]["parameters"] == ranks[1]["flock resumed"]["parameters"]


def test_two_optimizers_get_a_sentence(ranks):
    assert ranks[0]["two optimizers"].startswith("BadInputError: Flock goes around one optimizer, and")
