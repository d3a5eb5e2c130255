"""Gradient rules on models of fully_shard(), against a recomputation in double precision from what every rank hands over."""

from pathlib import Path

import flockstep
import pytest
import torch
from flockstep import _sharded_model
from results import Results, each_of
from sharded_program import CASES

PROGRAM = Path(__file__).with_name("sharded_program.py")


@pytest.fixture(scope="module")
def of():
    """of(case, workers): runs it on every rank."""
    results = {workers: Results(PROGRAM, workers) for workers in (1, 2, 4)}
    return lambda case, workers: results[workers][case]


@each_of(CASES)
def test_on_every_rank(of, case, workers):
    of(case, workers)


def test_a_torch_without_the_call_is_named(monkeypatch):
    class Older(torch.nn.Module):
        pass

    monkeypatch.setattr(_sharded_model, "_kind", lambda: Older)
    with pytest.raises(flockstep.BadInputError, match=r"has no FSDPModule.set_custom_reduce_scatter\(\)"):
        flockstep.adacons(Older())
