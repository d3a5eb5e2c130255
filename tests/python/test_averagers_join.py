"""Workers with different numbers of batches, and a worker that is away for a while."""

from pathlib import Path

import numpy as np
import pytest
from results import Results

pytestmark = pytest.mark.thorough

SCRIPT = Path(__file__).parent / "averagers_join.py"
AVERAGERS = ["Flock", "Wagma", "LocalSGD", "PostLocalSGD", "DiLoCo", "DPSGD", "ADPSGD", "SGP", "Swarm"]


@pytest.fixture(scope="module")
def results():
    return Results(SCRIPT, 3)


@pytest.mark.parametrize("kind", ["plain", "DDP"])
@pytest.mark.parametrize("averager", AVERAGERS)
def test_workers_with_different_numbers_of_batches_end_together(results, averager, kind):
    first, *others = [worker[f"{averager}, {kind}"] for worker in results["uneven_shards"]]
    assert all([end["model"] for end in worker] == [end["model"] for end in first] for worker in others)
    models = [end["model"] for end in first]
    assert models[0] != models[1] != models[2]


def test_post_local_sgd_switches_inside_of_join(results):
    plain, wrapped = zip(*results["post_local_sgd_switches_inside_of_join"], strict=True)
    assert plain[0] == plain[1] == plain[2]
    assert wrapped[0] == wrapped[1] == wrapped[2]
    np.testing.assert_allclose(plain[0], wrapped[0], rtol=0, atol=1e-5)


def test_local_sgd_averages_over_those_who_are_there(results):
    workers = results["local_sgd_averages_over_those_who_are_there"]
    for step in range(1, 9, 2):
        present = [worker for worker in workers if len(worker["updated"]) > step]
        mean = np.mean([worker["updated"][step] for worker in present], axis=0)
        for worker in present:
            np.testing.assert_allclose(worker["met"][step], mean, rtol=0, atol=1e-6)
    last = workers[2]["met"][7]  # the last meeting, of one worker alone, and everybody has it
    assert all(worker["end"] == last for worker in workers[:2])


@pytest.mark.parametrize("joinables", ["optimizer", "DDP and optimizer"])
@pytest.mark.parametrize("averager", ["Flock", "LocalSGD"])
def test_torchs_own_context_works(results, averager, joinables):
    models = [worker[f"{averager}, {joinables}"] for worker in results["torchs_own_context"]]
    assert models[0] == models[1] == models[2]


def test_torchs_own_context_in_the_wrong_order_is_refused(results):
    for sentence in results["torchs_own_context_in_the_wrong_order"]:
        assert sentence == "in Join([...]) the DDP model comes before the optimizer, as its forward pass comes first"


@pytest.mark.parametrize("averager", ["Flock", "Wagma", "ADPSGD", "Swarm"])
def test_nobody_waits_for_an_evaluation_on_rank_0(results, averager):
    away, *others = [worker[averager] for worker in results["a_long_evaluation_on_rank_0"]]
    assert away["untouched"]
    assert away["taken over"]
    assert away["refused"].startswith("this worker has left the others")
    assert all(worker["model"] == away["model"] for worker in others)


def test_pausing_in_lockstep_does_nothing(results):
    models = results["pausing_in_lockstep_does_nothing"]
    assert models[0] == models[1] == models[2]


@pytest.mark.parametrize("averager", ["Flock", "Wagma", "equal replicas"])
def test_nobody_waits_for_one_that_has_more_steps_left_after_a_pause(results, averager):
    models = [worker[averager] for worker in results["as_many_steps_after_a_pause"]]
    assert models[0] == models[1] == models[2]


@pytest.mark.parametrize(
    ("steps", "place"), {"5": "is in step 6", "6": "is in consolidate() after 7 steps"}.items(), ids=["step", "end"]
)
def test_different_numbers_of_batches_in_lockstep_are_told(results, steps, place):
    for sentences in results["lockstep_without_join"]:
        code, sentence = sentences[steps]
        assert code == "mismatch"
        assert sentence == (
            f"worker 1 is in consolidate() after {steps} steps where worker 0 {place}: workers with different numbers of "
            'batches train in "with optimizer.join():"'
        )
