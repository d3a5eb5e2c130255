"""The c10d engine: the conformance suite of all engines, and what is different about workers of a PyTorch program."""

import json
import os
from pathlib import Path

import engine_cases
import pytest
from launching import environment, run_workers
from layers import only
from paths import ROOT
from results import Results

HERE = Path(__file__).parent
SOON_S = 300  # half of what the workers wait for each other: what takes less has not waited


def with_tests_importable():
    return environment(PYTHONPATH=os.pathsep.join([environment()["PYTHONPATH"], str(ROOT / "tests")]))


@pytest.mark.parametrize("workers", only(2, 3, of=[1, 2, 3, 4, 5, 8]))
def test_the_conformance_suite_passes(torchrun, workers):
    done = torchrun(HERE / "engine_conformance.py", workers, "*", env=with_tests_importable())
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("[  PASSED  ]") == workers


@pytest.fixture(scope="module")
def results():
    return Results(HERE / "engine_cases.py", 3)


@pytest.mark.parametrize("case", engine_cases.CASES, ids=lambda case: case.__name__)
def test_on_three_workers(results, case):
    results[case.__name__]  # fails if a worker raised something


def ends_of(workers, script, *arguments):
    """Not under torchrun, which ends all workers as soon as one has failed."""
    done = run_workers(HERE / script, workers, *arguments, env=with_tests_importable())
    return [(worker.returncode, worker.stdout, worker.stderr) for worker in done]


def test_all_others_hear_of_a_worker_that_was_killed_in_the_middle_of_a_transfer():
    ends = ends_of(3, "engine_conformance.py", "lose_a_peer")
    assert [code for code, _, _ in ends] == [3, -9, 3], ends
    for _, out, _ in [ends[0], ends[2]]:
        code, seconds = json.loads(out)
        assert code == "peer_lost"
        assert seconds < SOON_S


@pytest.mark.parametrize("case", engine_cases.ENDINGS)
def test_a_process_ends_well(case):
    assert ends_of(2, "engine_cases.py", case) == [(0, "", "")] * 2
