"""Gradient rules with transfer="sketch", against a recomputation in double precision from what every rank hands over."""

import pytest
from layers import only
from results import each_of, worlds
from sketched_program import ASKED, CASES, FOLLOWED

STREAMED = [name for name, workers, _, _ in FOLLOWED.known if workers == 3]


@pytest.fixture(scope="module")
def of():
    return worlds("sketched_program.py")


@each_of(FOLLOWED)
def test_results_are_those_of_the_oracle(of, case, workers):
    of(case, workers)


@each_of(CASES)
def test_on_every_rank(of, case, workers):
    of(case, workers)


@pytest.fixture(scope="module")
def in_stream():
    return worlds("sketched_program.py", "--in-stream")


@pytest.mark.parametrize("case", only("every rule gives what the step before decides, adacons", of=STREAMED))
def test_so_they_are_where_factors_are_tensors_that_no_worker_waits_for(in_stream, case):
    """As on CUDA devices, but for the device."""
    in_stream(case, 3)


@each_of(ASKED)
def test_calls_of_streams(in_stream, case, workers):
    in_stream(case, workers)
