"""Workers with different numbers of batches, and a worker that is away for a while."""

import averagers_join
import pytest
from results import Results

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def results():
    return Results(averagers_join.__file__, 3)


@pytest.mark.parametrize("case", averagers_join.CASES, ids=lambda case: case.__name__)
def test_on_three_workers(results, case):
    results[case.__name__]  # fails if a worker raised something
