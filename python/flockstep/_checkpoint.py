"""Elastic runs: their options, and checkpoint files, each written whole or not at all, with the one before it kept."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import nn

from flockstep._errors import BadFileError, BadInputError
from flockstep._log import logger

_PARTS = ("model", "optimizer", "steps")


def previous(path: Path) -> Path:
    """The file that keeps the checkpoint before the newest one."""
    return path.with_name(f"{path.name}.previous")


def write(path: Path, contents: dict[str, Any], rank: int) -> None:
    """Replaces the file; a kill at any moment leaves at least one whole generation."""
    unfinished = path.with_name(f"{path.name}.unfinished.{rank}")  # its name is used again, so that few are left behind
    with open(unfinished, "wb") as file:
        torch.save(contents, file)
        file.flush()
        os.fsync(file.fileno())
    with suppress(FileNotFoundError):  # the first checkpoint, or another worker is writing one
        os.replace(path, previous(path))
    os.replace(unfinished, path)


def read(path: Path) -> dict[str, Any] | None:
    """The newest checkpoint that can be read; None if there is none.

    Raises:
        BadFileError: if there are files, and none of them can be read.
    """
    damaged = []
    for file in (path, previous(path)):
        try:
            found = torch.load(file, map_location="cpu", weights_only=True)
            if not isinstance(found, dict) or not all(part in found for part in _PARTS):
                raise ValueError(f"it holds no {', '.join(_PARTS)}")
        except FileNotFoundError:
            continue
        except Exception as error:  # garbage makes torch raise errors of any kind
            damaged.append(file)
            logger.warning(
                "the checkpoint %s cannot be read: %s", file, str(error).splitlines()[0] if str(error) else error
            )
        else:
            return found
    if damaged:
        raise BadFileError(
            f"no checkpoint can be read of {' and '.join(map(str, damaged))}: remove the files to begin without one"
        )
    return None


def load(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> int | None:
    """Fills model and optimizer from the newest checkpoint that can be read; returns its steps, None if there is none."""
    found = read(path)
    if found is None:
        return None
    model.load_state_dict(found["model"])
    optimizer.load_state_dict(found["optimizer"])
    if torch.cuda.is_available():
        torch.cuda.synchronize()  # another thread reads the model next
    return int(found["steps"])


def check_elastic(common: dict[str, Any]) -> None:
    """Raises for options of elastic runs that will not do."""
    if common["first_step"] < 0:
        raise BadInputError(f"first_step is 0 or more, not {common['first_step']}")
    if common["checkpoint"] is not None and not common["elastic"]:
        raise BadInputError("checkpoint is for elastic=True: load the state of other runs before the first step")
    if common["elastic"] and common["process_group"] is not None:
        raise BadInputError("an elastic run has no process group: leave process_group out")
