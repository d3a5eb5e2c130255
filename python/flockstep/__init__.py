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
    from flockstep._gradient_state import GradientState as GradientState
    from flockstep._telemetry import TensorBoardWriter as TensorBoardWriter
    from flockstep.averager import Averager as Averager
    from flockstep.averagers import ADPSGD as ADPSGD
    from flockstep.averagers import DPSGD as DPSGD
    from flockstep.averagers import SGP as SGP
    from flockstep.averagers import Flock as Flock
    from flockstep.averagers import LocalSGD as LocalSGD
    from flockstep.averagers import PostLocalSGD as PostLocalSGD
    from flockstep.averagers import Swarm as Swarm
    from flockstep.averagers import Wagma as Wagma
    from flockstep.hooks import adacons as adacons
    from flockstep.hooks import adacons_hook as adacons_hook
    from flockstep.hooks import adasum as adasum
    from flockstep.hooks import adasum_hook as adasum_hook
    from flockstep.hooks import direction_consensus as direction_consensus
    from flockstep.hooks import direction_consensus_hook as direction_consensus_hook
    from flockstep.hooks import geometric_median as geometric_median
    from flockstep.hooks import geometric_median_hook as geometric_median_hook
    from flockstep.hooks import mean as mean
    from flockstep.hooks import mean_hook as mean_hook
    from flockstep.hooks import normalized_mean as normalized_mean
    from flockstep.hooks import normalized_mean_hook as normalized_mean_hook
    from flockstep.hooks import watch as watch
    from flockstep.hooks import weighted_mean as weighted_mean
    from flockstep.hooks import weighted_mean_hook as weighted_mean_hook
    from flockstep.report.drawing import report as report
    from flockstep.rules import AdaConsState as AdaConsState
    from flockstep.rules import AdasumState as AdasumState
    from flockstep.rules import DirectionConsensusState as DirectionConsensusState
    from flockstep.rules import GeometricMedianState as GeometricMedianState
    from flockstep.rules import MeanState as MeanState
    from flockstep.rules import NormalizedMeanState as NormalizedMeanState
    from flockstep.rules import WeightedMeanState as WeightedMeanState

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
    "adacons": "hooks",
    "adacons_hook": "hooks",
    "adasum": "hooks",
    "adasum_hook": "hooks",
    "direction_consensus": "hooks",
    "direction_consensus_hook": "hooks",
    "geometric_median": "hooks",
    "geometric_median_hook": "hooks",
    "mean": "hooks",
    "mean_hook": "hooks",
    "normalized_mean": "hooks",
    "normalized_mean_hook": "hooks",
    "watch": "hooks",
    "weighted_mean": "hooks",
    "weighted_mean_hook": "hooks",
    "GradientState": "_gradient_state",
    "AdaConsState": "rules",
    "AdasumState": "rules",
    "DirectionConsensusState": "rules",
    "GeometricMedianState": "rules",
    "MeanState": "rules",
    "NormalizedMeanState": "rules",
    "WeightedMeanState": "rules",
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
