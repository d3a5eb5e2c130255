"""Gradient rules on models of fully_shard(), against a recomputation in double precision from what every rank hands over."""

import flockstep
import pytest
import torch
from flockstep import _sharded_model
from results import each_of, worlds
from sharded_program import CASES


@pytest.fixture(scope="module")
def of():
    return worlds("sharded_program.py")


@each_of(CASES)
def test_on_every_rank(of, case, workers):
    of(case, workers)


def test_a_torch_without_the_call_is_named(monkeypatch):
    class Older(torch.nn.Module):
        pass

    monkeypatch.setattr(_sharded_model, "_kind", lambda: Older)
    with pytest.raises(flockstep.BadInputError, match=r"has no FSDPModule.set_custom_reduce_scatter\(\)"):
        flockstep.adacons(Older())
