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

# Every public name and the module that it lives in.
_HOME = {
    "DeadlineExceeded": "_errors",
    "Error": "_errors",
    "PeerLost": "_errors",
}
__all__ = sorted(_HOME)

require_torch()


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'flockstep' has no attribute '{name}'")
    value = getattr(import_module(f"flockstep.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
