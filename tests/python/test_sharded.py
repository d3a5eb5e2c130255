"""Gradient rules on models of fully_shard(), against a recomputation in double precision from what every rank hands over."""

from pathlib import Path

import flockstep
import pytest
import torch
from flockstep import _sharded_model
from layers import only
from results import Results
from rule_oracle import RULES

PROGRAM = Path(__file__).with_name("sharded_program.py")


@pytest.fixture(scope="module")
def of():
    """of(case, workers): what a case gave on every rank."""
    results = {workers: Results(PROGRAM, workers) for workers in (1, 2, 4)}
    return lambda case, workers=4: results[workers][case]


@pytest.mark.parametrize("workers", only(2, of=[2, 4]))
@pytest.mark.parametrize("rule", RULES)
def test_every_rule_gives_what_the_step_before_decides(of, rule, workers):
    for rank in of(f"rule {rule}", workers):
        assert rank["distance"] < 1e-6
        assert (rank["step"], rank["workers"]) == (6, workers)


@pytest.mark.thorough
@pytest.mark.parametrize("rule", ["mean", "weighted_mean", "adacons", "direction_consensus"])
def test_replicas_of_shards_are_workers_too(of, rule):
    for rank in of(f"replicated shards, {rule}"):
        assert rank["distance"] < 1e-6
        assert (rank["step"], rank["workers"]) == (6, 4)


@pytest.mark.thorough
@pytest.mark.parametrize(("kind", "workers"), [("FSDP", 1), ("FSDP", 2), ("FSDP", 4), ("HSDP", 4)])
def test_plain_averaging_is_that_of_fsdp(of, kind, workers):
    for apart in of(f"mean is that of {kind}", workers):
        assert apart < 1e-6


@pytest.mark.thorough
@pytest.mark.parametrize("workers", [2, 4])
def test_gradients_may_be_reduced_in_bfloat16(of, workers):
    for rank in of("bfloat16", workers):
        assert rank["distance"] < 0.01


@pytest.mark.thorough
@pytest.mark.parametrize("case", ["padded", "together", "in another order"])
def test_so_it_is_however_modules_are_sharded(of, case):
    for rank in of(case):
        assert rank["distance"] < 1e-6
        assert (rank["step"], rank["workers"]) == (6, 4)


@pytest.mark.thorough
def test_a_module_that_is_unfrozen_later_is_summed_too(of):
    for apart in of("unfrozen"):
        assert max(apart) < 1e-6


@pytest.mark.thorough
def test_modules_may_have_coefficients_of_their_own(of):
    for step, finite, total in of("by module"):
        assert (step, finite) == (6, True)
        assert total == pytest.approx(1, abs=0.2)


@pytest.mark.thorough
@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("case", ["excluded", "without samples"])
def test_what_does_not_count_spoils_nothing(of, case, workers):
    assert of(case, workers) == [True] * workers


@pytest.mark.thorough
def test_modules_may_stay_whole_from_forward_to_backward(of):
    for rank in of("unsharded between the passes"):
        assert rank["distance"] < 1e-6


@pytest.mark.thorough
def test_gradients_may_be_accumulated_before_or_after_they_are_summed(of):
    for rank in of("accumulation"):
        *before, steps_before, a, b, c, steps_after = rank
        assert max(*before, a, b, c) < 1e-6
        assert (steps_before, steps_after) == (3, 6)


@pytest.mark.thorough
def test_gradients_are_clipped_over_all_shards(of):
    for norm, after in of("clipping"):
        assert norm == pytest.approx(1, rel=1e-5)
        assert after == pytest.approx(0.5, rel=1e-5)


@pytest.mark.thorough
@pytest.mark.parametrize("case", ["several passes", "reentrant checkpoints"])
def test_a_module_may_have_several_backward_passes_in_a_step(of, case):
    for step, total, event, apart in of(case):
        assert (step, event) == (6, "none")
        assert total == pytest.approx(1, abs=0.2)
        assert apart < 1e-6


@pytest.mark.thorough
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_a_resumed_training_is_the_uninterrupted_one(of, workers):
    steps = 0 if workers == 1 else 6  # one rank sums nothing
    assert of("resumed", workers) == [[True, steps, steps]] * workers


@pytest.mark.thorough
def test_a_broken_worker_is_found_and_weighs_next_to_nothing(of):
    for findings, share, steps in of("broken"):
        assert any(sentence.startswith("worker 1 points against the others") for sentence in findings)
        assert share < 0.1
        assert steps == 60


@pytest.mark.thorough
def test_a_backward_pass_that_broke_off_is_no_step(of):
    for outcome in of("broken off"):
        if outcome is None:
            pytest.skip("this torch cannot go on either")
        *told, apart = outcome
        assert told == ["for the test", 4]
        assert apart < 1e-6


@pytest.mark.thorough
def test_the_rule_may_change(of):
    assert of("another rule") == [["direction_consensus", 5]] * 4


@pytest.mark.thorough
def test_steps_are_counted_where_another_method_than_forward_was_called(of):
    assert of("another method") == [3] * 4


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("case", "sentence"),
    [
        ("parts alone", "parts of this model alone: call it on the whole model, too"),
        ("ignored", "fully_shard() does not manage parameter last.weight"),
        ("exact", 'takes only transfer="sketch", not transfer="exact"'),
        ("tensors", 'takes only transfer="sketch", not granularity="tensor"'),
        (
            "differently wrapped",
            "rank 1 has modules under fully_shard(): 2 where rank 0 has 1: give all ranks the same",
        ),
        ("taken before", "has a gradient rule already"),
        ("tensor parallel", "is sharded for tensor parallelism, too"),
        ("no shards", "the shard dimension of this mesh has one rank"),
        ("divided before", "has a gradient divide factor"),
        ("changed divisor", "FSDP divides gradients, but the rule does so already"),
        ("changed sum", "FSDP divides gradients, but the rule does so already"),
        ("closed", "this state of mean was closed"),
        ("averager", "BadInputError: Flock averages whole models, and this one's parameters are sharded"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(of, case, sentence):
    for said in of(case):
        assert sentence in said


def test_a_torch_without_the_call_is_named(monkeypatch):
    class Older(torch.nn.Module):
        pass

    monkeypatch.setattr(_sharded_model, "_kind", lambda: Older)
    with pytest.raises(flockstep.BadInputError, match=r"has no FSDPModule.set_custom_reduce_scatter\(\)"):
        flockstep.adacons(Older())
