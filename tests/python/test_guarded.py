"""A worker whose model goes wrong does not spoil the others', and says so."""

from pathlib import Path

import numpy as np
import pytest
from results import Results

pytestmark = pytest.mark.thorough

SCRIPT = Path(__file__).parent / "guarded.py"
WORKERS, BROKEN = 4, 2
AVERAGERS = [
    *["flock", "flock_overlapped", "wagma", "local_sgd", "post_local_sgd", "diloco", "diloco_without_waiting"],
    *["dpsgd", "sgp", "adpsgd", "swarm"],
]


@pytest.fixture(scope="module")
def results():
    return Results(SCRIPT, WORKERS)


def distance(results, averager, case):
    """Of the model that all end with to that of healthy workers, in lengths of what these have done."""
    healthy, other = (np.array(results[averager][0][which]["model"]) for which in ("healthy", case))
    return np.linalg.norm(other - healthy) / np.sqrt(len(healthy))


@pytest.mark.parametrize("averager", AVERAGERS)
def test_a_model_that_is_not_finite_stays_with_its_worker(results, averager):
    assert distance(results, averager, "not_a_number") < 0.3
    for worker in results[averager]:
        [said] = worker["not_a_number"]["findings"]
        assert f"updates of worker {BROKEN}'s model were not finite" in said


@pytest.mark.parametrize("averager", AVERAGERS)
def test_a_worker_that_goes_far_off_is_cut_and_says_so(results, averager):
    assert distance(results, averager, "unguarded") > 2, "so that this says something"
    assert distance(results, averager, "far_off") < distance(results, averager, "unguarded") / 4
    for worker in results[averager]:
        [said] = worker["far_off"]["findings"]
        assert said.startswith(f"worker {BROKEN} pulls the others away: ")


# Adam gives a wrong gradient the length of all others.
@pytest.mark.parametrize("weights", ["mean", "direction_consensus"])
@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
def test_flock_names_a_wrong_gradient_on_all_workers(results, optimizer, weights):
    for worker in results["wrong_gradients"]:
        [said] = worker[f"{optimizer}, {weights}, -5"]
        assert said.startswith((f"worker {BROKEN} pulls", f"worker {BROKEN}'s updates do not point where")), said
        assert worker[f"{optimizer}, {weights}, 1"] == []


def test_what_is_no_truth_value_is_refused(results):
    assert results["wrong"][0] == "bad_input: guard is True or False, not 'on'"
