"""Data-parallel deep learning without lockstep, for people who train with PyTorch's DistributedDataParallel.

Names are loaded when they are first used, so that ``python -m flockstep.report``, which needs no torch, stays quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from flockstep._compatibility import require_torch

if TYPE_CHECKING:
    from flockstep._errors import DeadlineExceeded as DeadlineExceeded
    from flockstep._errors import Error as Error
    from flockstep._errors import PeerLost as PeerLost
    from flockstep.averager import Averager as Averager
    from flockstep.averagers import ADPSGD as ADPSGD
    from flockstep.averagers import DPSGD as DPSGD
    from flockstep.averagers import SGP as SGP
    from flockstep.averagers import Flock as Flock
    from flockstep.averagers import LocalSGD as LocalSGD
    from flockstep.averagers import PostLocalSGD as PostLocalSGD
    from flockstep.averagers import Swarm as Swarm
    from flockstep.averagers import Wagma as Wagma
    from flockstep._telemetry import TensorBoardWriter as TensorBoardWriter
    from flockstep.report.drawing import report as report

# Every public name and the module that it lives in.
_HOME = {
    "ADPSGD": "averagers",
    "Averager": "averager",
    "DeadlineExceeded": "_errors",
    "DPSGD": "averagers",
    "Error": "_errors",
    "Flock": "averagers",
    "LocalSGD": "averagers",
    "PeerLost": "_errors",
    "PostLocalSGD": "averagers",
    "SGP": "averagers",
    "Swarm": "averagers",
    "Wagma": "averagers",
    "TensorBoardWriter": "_telemetry",
}
__all__ = sorted([*_HOME, "report"])

require_torch()


def __getattr__(name: str) -> object:
    if name == "report":  # a module that can be called
        return import_module("flockstep.report")
    if name not in _HOME:
        raise AttributeError(f"module 'flockstep' has no attribute '{name}'")
    value = getattr(import_module(f"flockstep.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
