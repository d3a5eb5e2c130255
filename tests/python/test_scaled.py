"""float16 with a stock GradScaler: overflow on all ranks is no rank's fault, and the scaler hears of it. See scaled_program.py."""

from pathlib import Path

import pytest
from ddp_training import outcomes
from rule_oracle import RULES

PROGRAM = Path(__file__).with_name("scaled_program.py")
PLAIN = ["plain, DDP", "plain, FSDP2"]
SHORT = ["mean, sketch, DDP", "adacons, exact, DDP"]
GRID = [f"{rule}, {way}" for rule in RULES for way in ("exact, DDP", "sketch, DDP", "sketch, FSDP2")]


@pytest.fixture(scope="module")
def run(torchrun):
    """run(cases): what they gave on every rank, beside plain training."""

    def run(cases):
        process = torchrun(PROGRAM, 2, *PLAIN, *cases)
        assert process.returncode == 0, process.stdout + process.stderr
        return outcomes(process)

    return run


def check_that_it_trains(of, case):
    plain = of[PLAIN[0] if case.endswith("DDP") else PLAIN[1]]
    for ours, theirs in zip(of[case], plain, strict=True):
        assert "raised" not in ours, ours
        assert ours["first"] == theirs["first"]
        assert ours["last"] < 0.02 * ours["first"], "plain training comes to 0.005"
        assert ours["scale"] <= 64 * theirs["scale"], "the scaler has backed off"
        assert not [finding for finding in ours["findings"] if "in a row" in finding], "no rank is at fault for long"


def test_a_network_in_float16_trains_under_a_stock_scaler(run):
    of = run(SHORT)
    for case in SHORT:
        check_that_it_trains(of, case)


@pytest.mark.longer
def test_so_it_does_under_every_rule_and_transfer(run):
    of = run(GRID)
    for case in GRID:
        check_that_it_trains(of, case)
