"""What gradient states do beside the rules themselves: scalers, join, watching, switching, resuming, errors."""

import json

import pytest
from hooks_program import CASES
from results import each_of, worlds


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("hooks")


@pytest.fixture(scope="module")
def of(folder):
    return worlds("hooks_program.py", folder)


@each_of(CASES)
def test_on_every_rank(of, case, workers):
    of(case, workers)


def test_a_state_that_is_never_closed_leaves_whole_files(of, folder):
    of("a state is never closed", 3)
    steps = [json.loads(line) for line in (folder / "left open" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in steps if "seconds" in line or "loss" in line][-1] == 3
    assert json.loads((folder / "left open" / "trace.json").read_text())
