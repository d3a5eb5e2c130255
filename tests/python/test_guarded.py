"""A worker whose model goes wrong does not spoil the others', and says so."""

from pathlib import Path

import pytest
from guarded import CASES
from results import Results, each_of

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def results():
    return Results(Path(__file__).with_name("guarded.py"), 4)


@each_of(CASES)
def test_on_every_rank(results, case, workers):
    assert results[case]
