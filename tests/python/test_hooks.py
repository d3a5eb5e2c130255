"""What gradient states do beside the rules themselves: scalers, join, watching, switching, resuming, errors."""

import json
from pathlib import Path

import pytest
from hooks_program import CASES
from results import Results, each_of

PROGRAM = Path(__file__).with_name("hooks_program.py")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("hooks")


@pytest.fixture(scope="module")
def of(folder):
    """of(case): runs it on every rank."""
    return Results(PROGRAM, 3, folder).__getitem__


@each_of(CASES)
def test_on_every_rank(of, case, workers):
    of(case)


def test_a_state_that_is_never_closed_leaves_whole_files(of, folder):
    of("a state is never closed")
    steps = [json.loads(line) for line in (folder / "left open" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in steps if "seconds" in line or "loss" in line][-1] == 3
    assert json.loads((folder / "left open" / "trace.json").read_text())
