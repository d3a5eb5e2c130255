"""Gradient rules with transfer="sketch", against a recomputation in double precision from what every rank hands over."""

from pathlib import Path

import pytest
from results import Results, each_of
from sketched_program import CASES, FOLLOWED

PROGRAM = Path(__file__).with_name("sketched_program.py")


@pytest.fixture(scope="module")
def of():
    """of(case, workers): runs it on every rank."""
    results = {workers: Results(PROGRAM, workers) for workers in (1, 2, 3)}
    return lambda case, workers: results[workers][case]


@each_of(FOLLOWED)
def test_results_are_those_of_the_oracle(of, case, workers):
    of(case, workers)


@each_of(CASES)
def test_on_every_rank(of, case, workers):
    of(case, workers)


@pytest.fixture(scope="module")
def in_stream():
    return Results(PROGRAM, 3, "--in-stream")


@pytest.mark.thorough
@pytest.mark.parametrize("case", [name for name, workers, _, _ in FOLLOWED.known if workers == 3])
def test_so_they_are_where_factors_are_tensors_that_no_worker_waits_for(in_stream, case):
    """As on CUDA devices, but for the device."""
    assert in_stream[case]
