"""Gradient rules behind DDP's hooks, against a recomputation from every rank's own gradient, with each feature of DDP."""

import pytest
from results import each_of, worlds
from rules_program import CASES


@pytest.fixture(scope="module")
def of():
    return worlds("rules_program.py")


@each_of(CASES)
def test_the_result_is_that_of_the_oracle_with(of, case, workers):
    of(case, workers)
