"""Gradient rules in a world of one, and without a process group."""

import json
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("alone_program.py")


@pytest.fixture(scope="module")
def outcome(python):
    process = python(PROGRAM)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


def test_a_worker_alone_keeps_its_gradient(outcome):
    assert outcome["distance"] < 1e-6
    assert outcome["coefficients"] == pytest.approx([1.0])


def test_without_a_process_group_one_sentence_says_what_to_call(outcome):
    assert outcome["error"]["code"] == "bad_input"
    assert "init_process_group" in outcome["error"]["text"]
