"""Gradient rules over the model's own all-reduce: coefficients of the step before, decided from sketches.

Each worker multiplies its buckets by its own coefficient and hands them to an all-reduce. After the last bucket a small
record of every worker is gathered on the same group, and what comes of it is decided in the shadow of the next forward pass.

That group is the model's own, but for gradients in main memory that Gloo carries. There a thread beside the backward pass
does all of it, so that the pass goes on meanwhile, on a group of its own: DDP issues collectives on the model's, such as
the broadcasts of buffers, and theirs and the thread's would be in another order on every worker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.futures import Future

from flockstep import _native
from flockstep._errors import BadInputError, DeadlineExceededError
from flockstep._lane import Lane, Summed, Summing
from flockstep._scaling import Pass
from flockstep._sketching import Sketching, divide_anew
from flockstep._torch_private import GradBucket, backward_number

_WHOLE, _BROKE_OFF, _BROKE_OFF_LATE = range(3)  # how a pass of this worker has ended
_TYPES = (torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class _Offer:
    """A bucket as backward hands it over, one of ``count``."""

    tensor: Tensor
    count: int
    has_gradient: bool
    weight: float
    divides_by_all: bool
    end: int  # of the pass, if this is its last


class SketchedHook(Sketching):
    """Stands where :class:`_native.CommunicationHook` does.

    Args:
        native: what holds the state and decides.
        group: whose collectives carry gradients and records.
        device: of the buckets.
        timeout: of every wait for the others.
        is_ours: whether nobody else uses the group, so that a thread can carry buckets beside the backward pass.
        loss: what is known of a lost peer.
    """

    def __init__(
        self,
        native: _native.SketchedHook,
        group: dist.ProcessGroup,
        device: torch.device,
        *,
        timeout: timedelta,
        is_ours: bool = False,
        loss: Callable[[], str] = str,
    ) -> None:
        super().__init__(native, group, device, timeout, loss)  # with a lane, only its thread touches passes
        self._lane = Lane(timeout.total_seconds(), loss) if is_ours else None
        self._handed_over = self._count = 0  # buckets of the pass
        self._pass: Pass[Any] | None = None
        self._end = _WHOLE
        self._divides_by_all = True

    # ---- a pass ----

    def add(self, bucket: GradBucket, weight: float, divides_by_all: bool) -> Future[Tensor]:
        """Hands over the next bucket; the future holds it with the result."""
        has_gradient = backward_number() is not None  # else a joined worker hands over zeros
        return self._add(bucket, has_gradient, weight if has_gradient else 0.0, divides_by_all)

    def _add(self, bucket: GradBucket, has_gradient: bool, weight: float, divides_by_all: bool) -> Future[Tensor]:
        tensor = bucket.buffer()
        self._check(bucket, tensor)
        offer = _Offer(tensor, _native.buckets_beside(bucket), has_gradient, weight, divides_by_all, self._end)
        self._divides_by_all = divides_by_all
        if self._lane is not None:
            future = self._lane.carry(lambda: self._sum(offer))
        else:
            summing, result_of = self._sum(offer)
            future = summing.then(result_of)
        self._handed_over, self._count = (0 if self._handed_over == self._count else self._handed_over) + 1, offer.count
        if self._handed_over == self._count:
            self._end = _WHOLE
        return future

    def _sum(self, offer: _Offer) -> Summing:
        tensor = offer.tensor
        if self._pass is None or self._pass.is_over:
            self._pass = self._begin_pass(Pass, offer.count, offer.has_gradient, offer.weight, offer.divides_by_all)
        current = self._pass
        if current.weight == 0:
            tensor.zero_()  # the mean over no samples may be NaN
        current.norms.append(self._exchange.scaling.scale(current, tensor))
        future: Summed = self._group.allreduce([tensor]).get_future()
        if current.is_over:
            self._end_pass(current, offer.end)
        if current.total is None:
            return future, lambda summed: summed.value()[0]

        def divided(summed: Summed) -> Tensor:
            result = summed.value()[0]
            divide_anew(result, current)
            return result

        return future, divided

    def _check(self, bucket: GradBucket, tensor: Tensor) -> None:
        if tensor.layout != torch.strided:
            raise BadInputError(
                "a parameter has a sparse gradient, which cannot be exchanged: make its Embedding with sparse=False"
            )
        if tensor.dtype not in _TYPES:
            raise BadInputError(
                f"gradients of type {str(tensor.dtype).removeprefix('torch.')} cannot be exchanged without loss: parameters "
                "are float32, bfloat16 or float16"
            )
        if not self._has_passed and any(parameter.is_complex() for parameter in bucket.parameters()):
            raise BadInputError("a parameter is complex, and only gradients of real numbers can be exchanged")

    def _raise_failure(self) -> None:
        if self._lane is not None:
            self._lane.check()
        super()._raise_failure()

    # ---- passes that break off ----

    def begin(self) -> None:
        """A backward pass begins."""
        if self._handed_over == self._count:
            self._handed_over = self._count = 0

    def handed_over(self) -> int:
        """How many buckets of the pass."""
        return self._handed_over

    def break_off(self, zeros: list[GradBucket]) -> None:
        """The backward pass has raised an exception. ``zeros`` are all buckets as DDP has them.

        They stand for those that it has not come to. The others take a step that this worker lacks, and hear of it with
        the record.
        """
        self._raise_failure()
        if self.handed_over() == len(zeros):
            self._end = _BROKE_OFF_LATE
            return
        self._end = _BROKE_OFF
        for bucket in zeros[self.handed_over() :]:
            self._add(bucket, False, 0.0, self._divides_by_all)

    def abandon(self) -> bool:
        """Whether the last pass has failed on all workers, and they go on without it."""
        return False

    # ---- the end ----

    def close(self) -> None:
        """Waits for what is under way. A second call does nothing."""
        super().close()
        if self._lane is not None:
            self._lane.close()

    def _finish(self) -> None:
        if self._lane is None:
            super()._finish()
            return
        try:
            self._lane.call(self._exchange.finish)
        except DeadlineExceededError as error:
            self._exchange.failure = error
