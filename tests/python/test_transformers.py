"""Flockstep's callbacks for the Trainer of transformers, in the example's trainings on two ranks."""

from pathlib import Path

import pytest
from trainer_runs import told_by_ranks

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def ranks(torchrun, tmp_path_factory):
    """What each rank tells of all trainings."""
    folder = tmp_path_factory.mktemp("trainings")
    done = torchrun(Path(__file__).with_name("transformers_program.py"), 2, folder)
    told = told_by_ranks(done)
    assert "validation: adacons " in done.stdout, "of the example itself"
    assert (folder / "runs" / "transformers" / "checkpoint-20" / "model.safetensors").exists()
    return told


@pytest.mark.parametrize("training", ["adacons", "flock"])
def test_both_ranks_end_with_the_same_parameters_and_have_learnt(ranks, training):
    assert ranks[0][training]["parameters"] == ranks[1][training]["parameters"]
    losses = [log["loss"] for log in ranks[0][training]["logs"] if "loss" in log]
    assert len(losses) == 2, "logged beside our metrics"
    assert losses[1] < losses[0] - 0.3


def test_the_logs_have_coefficients_which_are_not_those_of_averaging(ranks):
    logs = [log for log in ranks[0]["adacons"]["logs"] if "flockstep/step" in log]
    assert [(log["step"], log["flockstep/step"]) for log in logs] == [(20, 20), (40, 40)]
    assert max(abs(log[f"flockstep/coefficient/{rank}"] - 0.5) for log in logs for rank in (0, 1)) > 0.005


def test_a_resumed_rule_ends_with_the_parameters_of_an_uninterrupted_training(ranks):
    assert ranks[0]["adacons resumed"]["parameters"] == ranks[0]["adacons"]["parameters"]
    last = [log for log in ranks[0]["adacons resumed"]["logs"] if "flockstep/step" in log][-1]
    assert last["flockstep/step"] == 40


def test_an_averager_counts_steps_and_not_batches_under_accumulation(ranks):
    assert [told["flock"]["steps"] for told in ranks] == [40, 40]
    last = [log for log in ranks[0]["flock"]["logs"] if "flockstep/step" in log][-1]
    assert last["flockstep/bytes_sent_per_step"] > 1000


def test_checkpoints_hold_one_model_and_the_whole_of_it(ranks):
    assert set(ranks[0]["flock"]["saved"]) == {"20", "40"}
    assert ranks[0]["flock"]["saved"] == ranks[1]["flock"]["saved"]
    assert ranks[0]["saved flock"] == ranks[0]["flock"]["saved"]["40"]


def test_a_resumed_averager_goes_on_from_its_step(ranks):
    assert [told["flock resumed"]["steps"] for told in ranks] == [40, 40]
    assert ranks[0]["flock resumed"]["parameters"] == ranks[1]["flock resumed"]["parameters"]
