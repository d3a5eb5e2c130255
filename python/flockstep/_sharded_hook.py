"""Gradient rules on models that ``fully_shard`` has sharded (FSDP2): coefficients of the step before, from sketches.

Each worker multiplies the gradient of an FSDP module by its own coefficient, before the ordinary reduce-scatter of the
module's group adds it to the others'. After the backward pass a small record of every worker is gathered over all of them,
and what comes of it is decided in the shadow of the next forward pass.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from flockstep import _native
from flockstep._errors import BadInputError
from flockstep._lane import lost
from flockstep._scaling import Pass, StreamScaling
from flockstep._sketch import chunks_of
from flockstep._sketching import Sketching, divide_anew
from flockstep._torch_private import ShardedGroup, backward_number, call_after_backward, divide_factor_of

if TYPE_CHECKING:
    from flockstep._gradient_state import GradientState


@dataclass
class ShardedPass(Pass[Any]):
    """The modules' gradients are its buckets, which come in any order, and not in every pass.

    Attributes:
        at: index of the module whose gradient is being scaled.
    """

    at: int = 0

    def enter(self, size: int) -> tuple[int, bool]:
        """The module's index, and whether there is a coefficient for it."""
        knows = self.plan.knows
        if self.plan.is_blind or self.known > 0:
            return self.at, self.plan.is_blind or knows[self.at]
        return self.at, not self.plan.by_bucket and bool(knows) and knows[0]

    def begins_sketch(self, index: int) -> bool:
        """All of them were cleared when the pass began."""
        return False


class Collective(Protocol):
    """The interface that an FSDP module calls for an all-gather or a reduce-scatter."""

    def allocate(self, size: Any, *, dtype: torch.dtype, device: torch.device) -> Tensor: ...
    def __call__(self, *arguments: Any, **named: Any) -> dist.Work | None: ...


class NamingLosses:
    """A collective of one module that says which peer is lost where torch's own error does not.

    Args:
        inner: the collective.
        state: of the rule.
    """

    def __init__(self, inner: Collective, state: GradientState) -> None:
        self._inner: Collective = inner
        self._state = state

    def allocate(self, size: Any, *, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Memory for what the collective reads and writes."""
        return self._inner.allocate(size, dtype=dtype, device=device)

    def __call__(self, *arguments: Any, **named: Any) -> dist.Work | None:
        """Calls the collective."""
        try:
            return self._inner(*arguments, **named)
        except RuntimeError as error:
            if not (sentence := self._state._loss()):
                raise
            raise lost("", error, lambda: sentence) from error


class ScaledReduceScatter(NamingLosses):
    """Has a rule's state scale the gradient of one module before it is summed.

    Args:
        group: the module's parameters.
        state: of the rule.
        index: of the module.
    """

    def __init__(self, group: ShardedGroup, state: GradientState, index: int) -> None:
        super().__init__(group.reduce_scatter, state)
        self._group = group
        self._index = index

    def __call__(
        self, output_tensor: Tensor, input_tensor: Tensor, group: dist.ProcessGroup, op: Any, async_op: bool = False
    ) -> dist.Work | None:
        """The scaled sum of all workers in the group, each with its part of it."""
        if op != dist.ReduceOp.SUM or divide_factor_of(self._group) != 1:
            raise BadInputError(
                "FSDP divides gradients, but the rule does so already: call neither set_gradient_divide_factor() nor "
                "set_force_sum_reduction_for_comms() on a model that has a rule"
            )
        hook = self._state._sharded(input_tensor)
        hook.scale(self._index, input_tensor, self._state.weight, self._state._divides_by_all())
        work = super().__call__(output_tensor, input_tensor, group, op, async_op)
        return hook.corrected(output_tensor, work)


class ShardedHook(Sketching):
    """Stands where :class:`flockstep._sketched_hook.SketchedHook` does for DDP.

    Args:
        native: what holds the state and decides.
        group: over all workers.
        device: of the gradients.
        timeout: of every wait for the others.
        groups: the modules' parameters.
        loss: what is known of a lost peer.
    """

    def __init__(
        self,
        native: _native.SketchedHook,
        group: dist.ProcessGroup,
        device: torch.device,
        *,
        timeout: timedelta,
        groups: list[ShardedGroup],
        loss: Callable[[], str] = str,
    ) -> None:
        super().__init__(native, group, device, timeout, loss)
        self._sizes = [each.numbers for each in groups]
        self._chunks = [0, *itertools.accumulate(chunks_of(each.padded_numbers) for each in groups)]
        self._pass: ShardedPass | None = None
        self._is_expected = False  # the end of a backward pass
        self._number: int | None = None  # of that pass, if nobody has said that it begins
        self._stream: torch.cuda.Stream | None = None  # FSDP's, in whose order gradients are scaled

    @property
    def is_under_way(self) -> bool:
        """Whether a gradient of this pass has come."""
        return self._pass is not None

    def begin(self) -> None:
        """A backward pass through the whole model begins. One before it that has not ended broke off."""
        if not self._is_expected or self._number != backward_number():
            self._begin(None)

    # FSDP reduces some gradients in a callback of its own: what is queued by a callback comes after all of those.
    def _begin(self, number: int | None) -> None:
        self._pass, self._number, self._is_expected = None, number, True
        call_after_backward(lambda: call_after_backward(self._finish_pass))

    def _finish_pass(self) -> None:
        current, self._pass, self._is_expected = self._pass, None, False
        if current is None:
            return
        with nullcontext() if self._stream is None else torch.cuda.stream(self._stream):
            self._end_pass(current, 0)

    def scale(self, index: int, gradient: Tensor, weight: float, divides_by_all: bool) -> None:
        """Multiplies the gradient of a module, in place."""
        # Where another method than forward() was called, no hook of the model's has said that backward begins.
        number = backward_number()
        if not self._is_expected or (self._number is not None and self._number != number):
            self._begin(number)
        if self._pass is None:
            self._pass = self._cleared(self._begin_pass(ShardedPass, len(self._sizes), True, weight, divides_by_all))
        current = self._pass
        if current.weight == 0:
            gradient.zero_()
        if gradient.is_cuda:
            self._stream = torch.cuda.current_stream(gradient.device)
        current.at, current.chunk = index, self._chunks[index]
        before = current.norms[index]
        before = before.clone() if isinstance(before, Tensor) else before
        current.norms[index] = _together(self._exchange.scaling.scale(current, gradient), before)
        scaling = self._exchange.scaling
        if isinstance(scaling, StreamScaling) and current.plan.excludes:  # what has come before may have a higher index
            gradient.masked_fill_(scaling.is_excluded(current.places), 0)

    # Modules without a gradient in this pass report a norm of 0.
    def _cleared(self, begun: ShardedPass) -> ShardedPass:
        begun.sizes = self._sizes
        begun.known = len(self._sizes) if begun.plan.sizes == self._sizes else 0
        begun.norms = [0.0] * len(self._sizes)
        begun.places.zero_()
        if begun.sketches is not None:
            begun.sketches.zero_()
        return begun

    def corrected(self, output: Tensor, work: dist.Work | None) -> dist.Work | None:
        """The same with the sum of this pass's weights, where ``output`` was divided by that of the last one's."""
        if self._pass is None or self._pass.total is None:
            return work
        if work is not None:
            work.wait()
        divide_anew(output, self._pass)
        return None


# A module's gradient may come in several parts: they are taken for orthogonal.
def _together(norm: float | Tensor, before: float | Tensor) -> float | Tensor:
    if isinstance(norm, Tensor):
        return norm.copy_(torch.hypot(norm, before)) if isinstance(before, Tensor) else norm
    return math.hypot(norm, float(before))
