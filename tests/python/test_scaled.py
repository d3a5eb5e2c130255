"""float16 with a stock GradScaler: overflow on all ranks is no rank's fault, and the scaler hears of it. See scaled_program.py."""

from pathlib import Path

import pytest
from results import Results
from rule_oracle import RULES

pytestmark = pytest.mark.thorough

PROGRAM = Path(__file__).with_name("scaled_program.py")
PLAIN = ["plain, DDP", "plain, FSDP2"]
SHORT = ["mean, sketch, DDP", "adacons, exact, DDP"]
GRID = [f"{rule}, {way}" for rule in RULES for way in ("exact, DDP", "sketch, DDP", "sketch, FSDP2")]


def check_that_they_train(cases):
    """Beside plain training."""
    of = Results(PROGRAM, 2, only=[*PLAIN, *cases])
    for case in cases:
        for ours, theirs in zip(of[case], of[PLAIN[0] if case.endswith("DDP") else PLAIN[1]], strict=True):
            assert ours["first"] == theirs["first"]
            assert ours["last"] < 0.02 * ours["first"], "plain training comes to 0.005"
            assert ours["scale"] <= 64 * theirs["scale"], "the scaler has backed off"
            assert not [finding for finding in ours["findings"] if "in a row" in finding], (
                "no rank is at fault for long"
            )


def test_a_network_in_float16_trains_under_a_stock_scaler():
    check_that_they_train(SHORT)


def test_so_it_does_under_every_rule_and_transfer():
    check_that_they_train(GRID)
