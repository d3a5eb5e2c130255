"""Averagers around DDP models, beside a worker that is asleep, and what they say where they cannot work."""

from pathlib import Path

import pytest
from results import Results

pytestmark = pytest.mark.thorough

SCRIPT = Path(__file__).parent / "averagers_ddp.py"


@pytest.fixture(scope="module")
def results():
    return Results(SCRIPT, 3)


@pytest.mark.parametrize("options", ["defaults", "unused", "static", "bucket view", "no buffers"])
def test_ddp_synchronises_before_and_after_an_averager_and_not_meanwhile(results, options):
    for worker in results["ddp_synchronises_only_before_and_after"]:
        assert worker[options] == {"meanwhile": False, "consolidated": True, "again": True}


def test_a_static_graph_that_saw_no_synchronised_pass_is_warned_of(results):
    for messages in results["a_static_graph_without_a_first_pass"]:
        assert len(messages) == 1
        assert "wrap its module in DDP again" in messages[0]


def test_post_local_sgd_leaves_the_first_steps_to_ddp(results):
    """Whether gradients are the same everywhere, and models then."""
    for worker in results["post_local_sgd_leaves_the_first_steps_to_ddp"]:
        assert worker == [[True, True]] * 3 + [[False, False], [False, True]] * 2


def test_a_ddp_model_is_found_inside_of_torch_compile(results):
    assert all(results["compiled_wrapper"])


@pytest.mark.parametrize("kind", ["plain", "DDP"])
@pytest.mark.parametrize("averager", ["Flock", "Wagma", "ADPSGD"])
def test_nobody_waits_for_a_worker_that_sleeps(results, averager, kind):
    workers = [worker[f"{averager}, {kind}"] for worker in results["nobody_waits_for_a_worker_that_sleeps"]]
    assert workers == [True] * 3


def test_those_in_lockstep_do_wait(results):
    assert results["those_in_lockstep_wait"] == [True] * 3


def test_a_thread_goes_on_while_the_worker_waits_in_step(results):
    assert results["a_thread_goes_on_while_the_worker_waits"] == [True] * 3


def test_a_group_of_some_workers_averages_by_itself(results):
    first, other, last = results["a_group_of_some_workers"]
    assert other is None
    assert first == last


@pytest.mark.parametrize(
    ("what", "sentence"),
    {
        "group_size": "bad_input: group_size takes",
        "groups": "bad_input: groups takes dynamic, fixed or nodes, not 'static'",
        "group_size of nodes": "bad_input: group_size is not for groups nodes",
        "across": "bad_input: across needs groups nodes, not 'dynamic'",
        "workers_per_node": "mismatch: workers 1, 2 have flock.workers_per_node 2 where worker 0 has 1",
        "neighbours": "bad_input: neighbours takes a whole number from 1 to",
        "period": "bad_input: period takes",
        "activation": "bad_input: activation",
        "twice": "bad_input: the model is in an averager already: close() that one before Flock takes it",
        "around an averager": "bad_input: Flock communicates with other workers by itself, and Wagma goes around an optimizer",
        "another model": "bad_input: the optimizer has a parameter of shape (6, 4) that is not in the model",
        "another group": "bad_input: the optimizer has a parameter of shape (2,) that is not in the model",
        "no optimizer": "bad_input: Flock goes around a torch.optim.Optimizer, not a Sequential",
        "no model": "bad_input: Flock averages a torch.nn.Module, not a list",
        "two devices": "bad_input: the model is on cpu and meta",
        "another device": "bad_input: the model is on meta",
        "a hook": "bad_input: the DDP model has a communication hook, which would never run",
        "SyncBatchNorm": "bad_input: 1 is a SyncBatchNorm, which waits for all workers in every forward pass",
        "frozen": "bad_input: the model has no parameter that needs a gradient",
        "doubles": "bad_input: 0.weight Double [6, 4] cannot be trained in parallel",
        "unfrozen": "bad_input: 0.weight was frozen when training began",
        "closed": "bad_input: this LocalSGD is closed: make another one to continue",
        "differs": "mismatch: workers 1, 2 have local_sgd.period 3 where worker 0 has 2",
        "replaced": "bad_input: a parameter or buffer of the model was replaced",
        "not ours": "bad_file: ",
    }.items(),
)
def test_one_sentence_says_what_does_not_work(results, what, sentence):
    for worker in results["sentences"]:
        assert worker[what].startswith(sentence)
        assert "\n" not in worker[what]
