"""Finds out when a backward pass begins, and whether it raised an exception before its end."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

import torch
from torch import nn
from torch.utils.hooks import unserializable_hook

from flockstep._errors import Error
from flockstep._torch_private import backward_number, call_after_backward, tensors_in

_OF_A_CONNECTION = re.compile("[Cc]onnection|[Tt]imed out|gloo/")


# DDP broadcasts buffers in forward(). What torch calls in such a case can change an error, but not replace it.
def _name_loss(error: RuntimeError, loss: Callable[[], str]) -> None:
    """Puts in front of an error of Gloo's which peer is lost."""
    text = str(error)
    if not isinstance(error, Error) and _OF_A_CONNECTION.search(text) and (sentence := loss()):
        error.args = (f"{sentence} ({text})",)


class BackwardPasses:
    """A forward hook on a DDP or sharded model, which does nothing in copies of it.

    ``loss`` returns what is known of a lost peer.

    Backward begins with what the model has returned, before DDP sees anything of it, and autograd calls back at the end of
    a pass that raises nothing.
    """

    def __init__(self, begins: Callable[[], None], loss: Callable[[], str] | None = None) -> None:
        self._begins: Callable[[], None] | None = begins
        self._loss = loss
        self._running: set[int] = set()  # autograd's numbers of them

    def __getstate__(self) -> dict[str, object]:
        return {"_begins": None, "_loss": None, "_running": set()}

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def __call__(self, model: nn.Module, inputs: object, output: object) -> None:
        error = sys.exc_info()[1]
        if output is None and self._loss is not None and isinstance(error, RuntimeError):
            _name_loss(error, self._loss)
        if (
            self._begins is None
            or not torch.is_grad_enabled()
            or not getattr(model, "require_backward_grad_sync", True)
        ):
            return

        @unserializable_hook  # type: ignore[untyped-decorator]
        def begin(gradient: torch.Tensor) -> None:
            self._begin(backward_number())

        for tensor in tensors_in(output):
            if tensor.requires_grad:
                tensor.register_hook(begin)  # type: ignore[no-untyped-call]

    def _begin(self, number: int | None) -> None:
        if number is None or number in self._running or self._begins is None:
            return
        self._running.add(number)
        self._begins()
        call_after_backward(lambda: self._running.discard(number))

    def broke_off(self) -> bool:
        """Whether one has since the last call."""
        broke_off = bool(self._running)
        self._running.clear()
        return broke_off
