"""An averager never waits for everybody through DDP, whatever a script does to the DDP model."""

from pathlib import Path

import pytest
from results import Results

pytestmark = pytest.mark.thorough

SCRIPT = Path(__file__).parent / "averagers_takeover.py"


@pytest.fixture(scope="module")
def results():
    return Results(SCRIPT, 3)


@pytest.mark.parametrize("options", ["defaults", "unused", "static", "bucket view"])
@pytest.mark.parametrize(
    "script",
    [
        "a_script_that_switches_ddp_itself",
        "the_module_inside_of_ddp",
        "ddp_made_later",
        "ddp_made_later_around_more",
    ],
)
def test_no_backward_pass_waits_for_the_others(results, script, options):
    for worker in results["nobody_waits"]:
        assert all(worker[f"{script}, {options}"].values()), worker


@pytest.mark.parametrize("averager", ["Wagma", "LocalSGD", "DiLoCo", "DPSGD", "ADPSGD", "SGP", "Swarm"])
def test_nor_with_any_other_averager(results, averager):
    assert all(worker[averager] for worker in results["every_averager"])


def test_post_local_sgd_averages_gradients_once_wherever_ddp_is(results):
    for given, inside, later in results["post_local_sgd_averages_once"]:
        assert all(end["apart"] for end in (given, inside, later))
        assert inside["model"] == later["model"] == pytest.approx(given["model"], abs=1e-6)


def test_a_compiled_ddp_model_does_not_wait_either(results):
    assert all(results["compiled"])


def test_a_forward_pass_past_the_hooks_is_told(results):
    for sentence in results["forward_by_name"]:
        assert sentence.startswith("bad_input: DDP has synchronised gradients beside Flock")
        assert "not model.forward(inputs)" in sentence


@pytest.mark.parametrize(
    ("what", "words"),
    {
        "delayed": "delay_all_reduce_named_params",
        "delayed inside": "delay_all_reduce_named_params",
        "hook inside": "has a communication hook, which would never run",
        "failed": "uninitialized parameters",
        "hook later": "has a communication hook, which would never run",
    }.items(),
)
def test_one_sentence_says_what_ddp_cannot_do_beside_an_averager(results, what, words):
    for worker in results["sentences"]:
        assert words in worker[what]
        assert "\n" not in worker[what]
