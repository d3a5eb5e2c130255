"""The example with trackers on two ranks: what it writes for Weights & Biases, offline, with the real package.

tests/python/test_telemetry.py reads what is written for TensorBoard.
"""

import re

import pytest
from launching import environment
from paths import ROOT

pytestmark = pytest.mark.thorough

EXAMPLE = ROOT / "examples" / "trackers" / "train.py"


def numbers(contents, name):
    """Of a metric in a file of wandb's, whose records hold names and values as text."""
    return [float(value) for value in re.findall(re.escape(name) + rb"\W{1,8}(\d[\d.]*)", contents)]


def test_weights_and_biases_gets_coefficients_over_our_own_step(torchrun, tmp_path):
    offline = environment(WANDB_MODE="offline", WANDB_SILENT="true")
    done = torchrun(EXAMPLE, 2, "--tracker", "wandb", "--steps", 40, "--out", tmp_path, env=offline)
    assert done.returncode == 0, done.stderr
    [file] = tmp_path.glob("wandb/offline-run-*/*.wandb")  # rank 0 writes
    contents = file.read_bytes()
    assert b"flockstep/*" in contents
    assert {10, 20, 30, 40} <= set(numbers(contents, b"flockstep/step"))
    coefficients = numbers(contents, b"flockstep/coefficient/0")
    assert len(coefficients) >= 4
    assert max(abs(each - 0.5) for each in coefficients) > 0.005
