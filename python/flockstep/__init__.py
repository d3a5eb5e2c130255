"""Data-parallel deep learning without lockstep, for people who train with PyTorch's DistributedDataParallel.

Names are loaded when they are first used, so that ``python -m flockstep.report``, which needs no torch, stays quick.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path

from flockstep._compatibility import require_torch

_NAMES = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
_HOME = {name: module for module, name in re.findall(r"^from (\S+) import (\w+) as \2$", _NAMES, re.MULTILINE)}
__all__ = sorted(_HOME)


def _is_command() -> bool:
    """Whether this is `flockstep ...` or `python -m flockstep ...`, which says itself what is wrong with torch."""
    program = (getattr(sys, "argv", None) or [""])[0]
    return Path(program).name == "flockstep" or (program == "-m" and "flockstep" in sys.orig_argv)


if not _is_command():
    require_torch()


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'flockstep' has no attribute '{name}'")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
