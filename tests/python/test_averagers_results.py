"""What averagers compute, against a recomputation in double from the models that every worker had."""

import averagers_results
import numpy as np
import pytest
from results import Results

WORKERS = 4


@pytest.fixture(scope="module")
def results():
    return Results(averagers_results.__file__, WORKERS)


def models(workers, step, which):
    return np.array([worker["steps"][step][which] for worker in workers])


def steps_of(workers):
    """Models of each step: where it starts, after the local update, and after workers have met."""
    for step in range(len(workers[0]["steps"])):
        yield step, *(models(workers, step, which) for which in ("start", "updated", "met"))


def assert_near(values, expected, tolerance=1e-6):
    np.testing.assert_allclose(values, np.broadcast_to(expected, np.shape(values)), rtol=0, atol=tolerance)


def assert_ends_equal(workers):
    consolidated = [worker["consolidated"] for worker in workers]
    assert all(each == consolidated[0] for each in consolidated)
    return np.array(consolidated[0])


@pytest.mark.parametrize("case", averagers_results.RECORDED)
def test_everybody_starts_from_rank_0s_model_and_ends_with_the_same(results, case):
    starts = models(results[case], 0, "start")
    assert (starts == starts[0]).all()
    assert not np.array_equal(assert_ends_equal(results[case]), starts[0])


def test_local_sgd_averages_every_second_step(results):
    for step, _, updated, met in steps_of(results["local_sgd"]):
        assert_near(met, updated.mean(0) if step % 2 == 1 else updated)
    assert_near(assert_ends_equal(results["local_sgd"]), updated.mean(0))


def test_diloco_steps_the_shared_model_along_the_mean_update(results):
    workers = results["diloco"]
    outer = models(workers, 0, "start")[0]
    velocity = np.zeros_like(outer)
    for step, _, updated, met in steps_of(workers):
        if step % 2 == 0:
            assert_near(met, updated)
            continue
        update = outer - updated.mean(0)
        velocity = 0.75 * velocity + update
        outer = outer - 0.5 * (update + 0.75 * velocity)
        assert (met == met[0]).all()
        assert_near(met, outer)
    assert_near(assert_ends_equal(workers), updated.mean(0))


def test_dpsgd_averages_with_both_neighbours(results):
    for _, _, updated, met in steps_of(results["dpsgd"]):
        assert_near(met, (np.roll(updated, 1, 0) + updated + np.roll(updated, -1, 0)) / 3)
    assert_near(assert_ends_equal(results["dpsgd"]), met.mean(0))


def test_sgp_sums_shares_at_hops_of_powers_of_two(results):
    for step, _, updated, met in steps_of(results["sgp"]):
        assert_near(met, (updated + np.roll(updated, 2 ** (step % 2), 0)) / 2)


def test_post_local_sgd_averages_gradients_and_then_models(results):
    workers = results["post_local_sgd"]
    for step, start, updated, met in steps_of(workers):
        gradients = models(workers, step, "gradient")
        assert_near(updated, start - 0.2 * (gradients.mean(0) if step < 2 else gradients))
        assert_near(met, updated.mean(0) if step == 4 else updated)


@pytest.mark.parametrize("case", ["wagma_at_full_sync", "flock_at_full_sync"])
def test_at_a_period_of_one_step_everybody_has_the_mean(results, case):
    for _, _, updated, met in steps_of(results[case]):
        assert_near(met, updated.mean(0))


@pytest.mark.parametrize(
    ("case", "groups_of_steps"),
    [
        ("flock_in_nodes", [[[0, 1], [2, 3]], [[0, 2], [1, 3]]]),
        ("flock_in_fixed_groups", [[[0, 1], [2, 3]]]),
        ("wagma_in_the_launchers_nodes", [[[0, 1, 2, 3]]]),
    ],
)
def test_groups_average_as_their_kind_says(results, case, groups_of_steps):
    for step, _, updated, met in steps_of(results[case]):
        for group in groups_of_steps[step % len(groups_of_steps)]:
            assert_near(met[group], updated[group].mean(0))


@pytest.mark.parametrize(
    "case",
    [
        *["flock", "flock_with_a_deadline", "flock_overlapped", "local_sgd_overlapped"],
        *["adpsgd", "adpsgd_with_fixed_partners", "swarm"],
    ],
)
def test_no_update_is_lost_or_counted_twice(results, case):
    """However workers met: the mean of their models has moved by the mean of all their updates."""
    workers = results[case]
    moved = sum(updated - start for _, start, updated, _ in steps_of(workers))
    assert_near(assert_ends_equal(workers), models(workers, 0, "start")[0] + moved.mean(0), 1e-5)
