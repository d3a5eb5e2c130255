"""An averager never waits for all workers through DDP, whatever a script does to the DDP model."""

import averagers_ddp
import pytest
from results import Results

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def results():
    return Results(averagers_ddp.__file__, 3)


@pytest.mark.parametrize("case", averagers_ddp.CASES, ids=lambda case: case.__name__)
def test_on_three_workers(results, case):
    results[case.__name__]  # fails if a worker raised something
