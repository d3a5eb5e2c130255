"""float16 with a stock GradScaler: overflow on all ranks is no rank's fault, and the scaler hears of it."""

import pytest
from results import each_of, worlds
from scaled_program import CASES

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def of():
    return worlds("scaled_program.py")


@each_of(CASES)
def test_on_every_rank(of, case, workers):
    of(case, workers)
