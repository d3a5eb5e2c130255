"""Gradient rules on models that ``fully_shard`` has sharded (FSDP2): coefficients of the step before, from sketches.

Each worker multiplies the gradient of an FSDP module by its own coefficient, before the ordinary reduce-scatter of the
module's group adds it to the others'. After the backward pass a small record of every worker is gathered over all of them,
and what comes of it is decided in the shadow of the next forward pass.
"""

from __future__ import annotations

import itertools
import math
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from flockstep import _native
from flockstep._errors import BadInputError
from flockstep._scaling import Pass, multiply
from flockstep._sketch import chunks_of
from flockstep._sketching import Sketching
from flockstep._torch_private import backward_number, call_after_backward

if TYPE_CHECKING:
    from flockstep._gradient_state import GradientState


@dataclass
class ShardedPass(Pass[Any]):
    """The modules' gradients are its buckets, which come in any order, and not in every pass.

    Attributes:
        at: the one that is there.
    """

    at: int = 0

    def enter(self, size: int) -> tuple[int, bool]:
        """Takes the one that is there: its number, and whether it has a coefficient."""
        knows = self.plan.knows
        if self.plan.is_blind or self.known > 0:
            return self.at, self.plan.is_blind or knows[self.at]
        return self.at, not self.plan.by_bucket and bool(knows) and knows[0]

    def begins_sketch(self, index: int) -> bool:
        """All of them were cleared when the pass began."""
        return False


class Collective(Protocol):
    """What an FSDP module calls for a reduce-scatter."""

    def allocate(self, size: Any, *, dtype: torch.dtype, device: torch.device) -> Tensor: ...
    def __call__(
        self, output_tensor: Tensor, input_tensor: Tensor, group: dist.ProcessGroup, op: Any, async_op: bool = False
    ) -> dist.Work | None: ...


class ScaledReduceScatter:
    """Has a rule's state scale the gradient of one module before it is summed.

    Args:
        inner: what sums.
        state: of the rule.
        index: of the module.
    """

    def __init__(self, inner: Collective, state: GradientState, index: int) -> None:
        self._inner = inner
        self._state = state
        self._index = index

    def allocate(self, size: Any, *, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Memory for what is summed, and for the sums."""
        return self._inner.allocate(size, dtype=dtype, device=device)

    def __call__(
        self, output_tensor: Tensor, input_tensor: Tensor, group: dist.ProcessGroup, op: Any, async_op: bool = False
    ) -> dist.Work | None:
        """The scaled sum of all workers in the group, each with its part of it."""
        if op != dist.ReduceOp.SUM:
            raise BadInputError(
                "FSDP does not ask for a sum: call neither set_gradient_divide_factor() nor "
                "set_force_sum_reduction_for_comms() after the rule is registered, which divides by itself"
            )
        hook = self._state._sharded()
        hook.scale(self._index, input_tensor, self._state.weight, self._state._divides_by_all())
        work = self._inner(output_tensor, input_tensor, group, op, async_op)
        return hook.corrected(output_tensor, work)


class ShardedHook(Sketching):
    """Stands where :class:`flockstep._sketched_hook.SketchedHook` does for DDP.

    Args:
        native: what holds the state and decides.
        group: over all workers.
        device: of the gradients.
        timeout: of every wait for the others.
        sizes: of the modules' gradients.
    """

    def __init__(
        self,
        native: _native.SketchedHook,
        group: dist.ProcessGroup,
        device: torch.device,
        *,
        timeout: timedelta,
        sizes: list[int],
    ) -> None:
        super().__init__(native, group, device, timeout)
        self._sizes = sizes
        # Where they begin in the sketch. FSDP pads them, and signs may then be used twice, which does no harm.
        self._chunks = [0, *itertools.accumulate(map(chunks_of, sizes))]
        self._pass: ShardedPass | None = None
        self._is_expected = False  # the end of a backward pass
        self._number: int | None = None  # of that pass, if nobody has said that it begins
        self._stream: torch.cuda.Stream | None = None  # FSDP's, in whose order gradients are scaled

    def begin(self) -> None:
        """A backward pass through the whole model begins. One before it that has not ended broke off."""
        self._begin(None)

    # FSDP reduces some gradients in a callback of its own: what is queued by a callback comes after all of those.
    def _begin(self, number: int | None) -> None:
        self._pass, self._number, self._is_expected = None, number, True
        call_after_backward(lambda: call_after_backward(self._finish_pass))

    def _finish_pass(self) -> None:
        current, self._pass, self._is_expected = self._pass, None, False
        if current is None:
            return
        if self._stream is not None:
            torch.cuda.current_stream(self._stream.device).wait_stream(self._stream)
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

    # Of modules whose gradients do not come, nothing is told.
    def _cleared(self, begun: ShardedPass) -> ShardedPass:
        begun.sizes = self._sizes
        begun.known = len(self._sizes) if begun.plan.sizes == self._sizes else 0
        begun.norms = [0.0] * len(self._sizes)
        begun.places.zero_()
        if begun.sketches is not None:
            begun.sketches.zero_()
        return begun

    def corrected(self, output: Tensor, work: dist.Work | None) -> dist.Work | None:
        """By the sum of all weights of this pass, where the last one's was divided by."""
        current = self._pass
        if current is None or current.total is None:
            return work
        if work is not None:
            work.wait()
        before, weights, summing = current.total
        summing.wait()
        multiply(output, torch.where(weights > 0, before / weights, 0))
        return None

    def close(self) -> None:
        """Waits for what is under way. A second call does nothing."""
        with suppress(RuntimeError):
            self._finish()


# A module's gradient may come in several parts: they are taken for orthogonal.
def _together(norm: float | Tensor, before: float | Tensor) -> float | Tensor:
    if isinstance(norm, Tensor):
        return norm.copy_(torch.hypot(norm, before)) if isinstance(before, Tensor) else norm
    return math.hypot(norm, float(before))
