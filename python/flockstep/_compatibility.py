"""Whether the torch that is here is the one that the compiled half was built for."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path


def _torch_here() -> str | None:
    """The version that `import torch` would bring, without bringing it; None where there is none."""
    found = find_spec("torch")
    if found is None or found.origin is None:
        return None
    text = Path(found.origin).with_name("version.py").read_text(encoding="utf-8")
    version = re.search(r"^__version__ = ['\"](.+)['\"]", text, re.MULTILINE)
    return version[1] if version else None


def require_torch() -> None:
    """Raises ImportError, before any library is loaded, where the compiled half would not work.

    The report alone, as the command has it, was built for no torch and needs none.
    """
    try:
        from flockstep._built_for import TORCH
    except ModuleNotFoundError:
        return
    here = _torch_here()
    if here is None:
        raise ImportError(f"flockstep was built for torch {TORCH}, but there is no torch here: install torch {TORCH}")
    if here.split(".")[:2] != TORCH.split("."):
        raise ImportError(
            f"flockstep was built for torch {TORCH}, but torch {here} is here: install torch {TORCH}, or build flockstep "
            "again, with `pip install --no-build-isolation` in this environment"
        )
