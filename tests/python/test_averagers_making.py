"""Making averagers where workers are not alike, and what averagers refuse."""

import averagers_making
import pytest
from results import Results

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def results():
    return Results(averagers_making.__file__, 3)


@pytest.mark.parametrize("case", averagers_making.CASES, ids=lambda case: case.__name__)
def test_on_three_workers(results, case):
    results[case.__name__]  # fails if a worker raised something
