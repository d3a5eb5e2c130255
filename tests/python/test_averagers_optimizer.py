"""Averagers are optimizers: what a training script does with one, it can do with them."""

import averagers_optimizer
import pytest
from results import Results

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def results():
    return Results(averagers_optimizer.__file__, 2)


@pytest.mark.parametrize("case", averagers_optimizer.CASES, ids=lambda case: case.__name__)
def test_on_two_workers(results, case):
    results[case.__name__]  # fails if a worker raised something
