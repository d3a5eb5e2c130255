"""The gradient states of this process, and what is due for them at its end."""

from __future__ import annotations

import atexit
import os
import sys
import weakref
from typing import TYPE_CHECKING

import flockstep._worker  # noqa: F401
from flockstep._errors import this_rank
from flockstep._warning import Line, warn

if TYPE_CHECKING:
    from flockstep._gradient_state import GradientState

open_states: weakref.WeakSet[GradientState] = weakref.WeakSet()
# Those that no hook was called with so far, also if they are gone: the class, the rule, and where they were made.
uncalled: dict[int, tuple[str, str, Line]] = {}


# What is registered last runs first: states are closed before _worker.py, imported above, closes their workers.
@atexit.register
def _close_all() -> None:
    for state in list(open_states):
        state.close()


# A program that breaks off may not have come to its first backward pass.
@atexit.register
def _warn_of_uncalled() -> None:
    rank = this_rank()
    if hasattr(sys, "last_type") or (int(os.environ.get("RANK", "0")) if rank is None else rank) != 0:
        return
    for state, rule, line in uncalled.values():
        warn(
            f"no backward pass has called the hook of this {state}, so that gradients were not combined by {rule}: "
            f"register it on the model that is trained, as with flockstep.{rule}(model); some frameworks leave out a "
            "ddp_comm_hook on the CPU",
            line,
        )


os.register_at_fork(after_in_child=open_states.clear)
os.register_at_fork(after_in_child=uncalled.clear)
