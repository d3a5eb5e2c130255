"""Gradient rules behind DDP's hooks, against a recomputation from every rank's own gradient, with each feature of DDP."""

from pathlib import Path

import pytest
from results import Results, each_of
from rules_program import CASES

PROGRAM = Path(__file__).with_name("rules_program.py")


@pytest.fixture(scope="module")
def of():
    """of(case, workers): runs it on every rank."""
    results = {workers: Results(PROGRAM, workers) for workers in (1, 3)}
    return lambda case, workers: results[workers][case]


@each_of(CASES)
def test_the_result_is_that_of_the_oracle_with(of, case, workers):
    of(case, workers)
