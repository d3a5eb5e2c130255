"""A worker whose model goes wrong does not spoil the others', and says so."""

import pytest
from guarded import CASES
from results import each_of, worlds

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def of():
    return worlds("guarded.py")


@each_of(CASES)
def test_on_every_rank(of, case, workers):
    of(case, workers)
