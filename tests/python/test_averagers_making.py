"""Making averagers where workers are not alike."""

from pathlib import Path

import pytest
from results import Results

pytestmark = pytest.mark.thorough

SCRIPT = Path(__file__).parent / "averagers_making.py"


@pytest.fixture(scope="module")
def results():
    return Results(SCRIPT, 3)


def test_after_one_rank_alone_failed_to_make_an_averager_all_make_the_next(results):
    workers = results["one_fails_to_make_an_averager"]
    for round, failing in enumerate((1, 0)):
        for rank, worker in enumerate(workers):
            assert worker[round]["model"] == workers[0][round]["model"]
            sentence = worker[round]["refusal"]
            if rank == failing:
                assert sentence.startswith("bad_input: the model has no parameter that needs a gradient")
            else:
                error = "BadInputError: the model has no parameter that needs a gradient"
                assert sentence.startswith(f"mismatch: rank {failing} has not made Flock: {error}")


def test_different_learning_rates_are_warned_of_once_at_the_users_line(results):
    workers = results["learning_rates"]
    for worker in workers:
        assert worker["same"] == worker["tensors"] == []
    assert workers[1]["different"] == workers[2]["different"] == []
    ((sentence, is_users_line),) = workers[0]["different"]
    assert sentence.startswith("worker 2 has the learning rate 0.3 where worker 0 has 0.1, ")
    assert is_users_line


def test_a_deadline_that_is_no_time_is_refused_in_the_words_of_python(results):
    for worker in results["deadlines"]:
        assert worker == [
            "bad_input: deadline is a datetime.timedelta or None, not 0.5",
            "bad_input: deadline is a datetime.timedelta or None, not '500ms'",
            "bad_input: deadline is a datetime.timedelta above 0, not datetime.timedelta(days=-1, seconds=86399)",
        ]


def test_an_overlap_that_will_not_do_is_refused_in_the_words_of_python(results):
    for no_truth_value, published in results["overlaps"]:
        assert no_truth_value == "bad_input: overlap is True or False, not 'on'"
        assert published == ("bad_input: overlap on needs merge additive: the published merge waits for its round")
