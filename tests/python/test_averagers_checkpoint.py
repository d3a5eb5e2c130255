"""Checkpoints of averagers: which worker may save them, which can go on from them, and what they hold."""

import averagers_checkpoint
import pytest
from results import Results

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return Results(averagers_checkpoint.__file__, 3, tmp_path_factory.mktemp("checkpoints"))


@pytest.mark.parametrize("case", averagers_checkpoint.CASES, ids=lambda case: case.__name__)
def test_on_three_workers(results, case):
    results[case.__name__]  # fails if a worker raised something
