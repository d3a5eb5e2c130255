"""Warnings that name a line of the user's code, also where none of it is running: in a hook, or at the end."""

from __future__ import annotations

import os
import sys
import warnings

import torch

Line = tuple[str, int]  # file, number

_NOT_THE_USERS = tuple(os.path.dirname(os.path.abspath(file)) + os.sep for file in (__file__, str(torch.__file__)))


def users_line() -> Line:
    """The one that is running, below what it has called of this package and of torch."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_NOT_THE_USERS) and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def warn(sentence: str, line: Line) -> None:
    warnings.warn_explicit(sentence, RuntimeWarning, *line)
