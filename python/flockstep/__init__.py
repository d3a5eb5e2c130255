"""Data-parallel deep learning without lockstep, for people who train with PyTorch's DistributedDataParallel.

Names are loaded when they are first used, so that ``python -m flockstep.report``, which needs no torch, stays quick.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

from flockstep._compatibility import require_torch

# Every public name and the module that it lives in, as __init__.pyi lists them.
_HOME = {
    name: module
    for module, name in re.findall(
        r"^from (\S+) import (\w+) as \2$", Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"), re.MULTILINE
    )
}
__all__ = sorted(_HOME)

require_torch()


def __getattr__(name: str) -> object:
    if name == "report":  # a module that can be called
        return import_module("flockstep.report")
    if name not in _HOME:
        raise AttributeError(f"module 'flockstep' has no attribute '{name}'")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
