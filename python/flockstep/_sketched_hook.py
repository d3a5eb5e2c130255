"""Gradient rules over the model's own all-reduce: coefficients of the step before, decided from sketches.

Each worker multiplies its buckets by its own coefficient and hands them to the all-reduce of the model's process group.
After the last bucket a small record of every worker is gathered on the same group, and what comes of it is decided in the
shadow of the next forward pass.
"""

from __future__ import annotations

import math
from contextlib import suppress
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.futures import Future

from flockstep import _native
from flockstep._errors import BadInputError, DeadlineExceededError, Error, PeerLostError
from flockstep._scaling import HostScaling, Pass, StreamScaling, multiply
from flockstep._torch_private import GradBucket, backward_number

_HEAD = 4  # doubles of a record before its norms
_WHOLE, _BROKE_OFF, _BROKE_OFF_LATE = range(3)  # how a pass of this worker has ended
_TYPES = (torch.float32, torch.bfloat16, torch.float16)


class _Records:
    """What every worker tells about a pass: doubles, then the floats of its sketches."""

    def __init__(self, workers: int, buckets: int, sketches: int, length: int, device: torch.device) -> None:
        self.shape = (buckets, sketches)
        doubles = 8 * (_HEAD + buckets)
        size = doubles + 4 * sketches * length
        self.mine = torch.zeros(size, dtype=torch.uint8, device=device)
        self.all = torch.zeros(workers, size, dtype=torch.uint8, device=device)
        self.head = self.mine[:doubles].view(torch.float64)
        self.sketches = self.mine[doubles:].view(torch.float32).view(sketches, length) if sketches else None


class SketchedHook:
    """Stands where :class:`_native.CommunicationHook` does.

    Args:
        native: what holds the state and decides.
        group: whose collectives carry gradients and records.
        device: of the buckets.
        timeout: of every wait for the others.
    """

    def __init__(
        self,
        native: _native.SketchedHook,
        group: dist.ProcessGroup,
        device: torch.device,
        *,
        timeout: timedelta,
    ) -> None:
        self._native = native
        self._group = group
        self._device = device
        self._timeout = timeout
        self._scaling = HostScaling(group, device)
        self._pass: Pass[float] | None = None
        self._records: _Records | None = None
        self._gathering: dist.Work | None = None
        self._failure: Error | None = None
        self._has_agreed = False
        self._end = _WHOLE
        self._divides_by_all = True

    # ---- a pass ----

    def add(self, bucket: GradBucket, weight: float, divides_by_all: bool) -> Future[Tensor]:
        """Hands over the next bucket; the future holds it with the result."""
        has_gradient = backward_number() is not None  # else a joined worker hands over zeros
        return self._add(bucket, has_gradient, weight if has_gradient else 0.0, divides_by_all)

    def _add(self, bucket: GradBucket, has_gradient: bool, weight: float, divides_by_all: bool) -> Future[Tensor]:
        tensor = bucket.buffer()
        self._check_bucket(tensor)
        if self._pass is None or self._pass.is_over:
            self._begin_pass(_native.buckets_beside(bucket), has_gradient, weight, divides_by_all)
        current = self._pass
        assert current is not None
        if current.weight == 0:
            tensor.zero_()  # the mean over no samples may be NaN
        current.norms.append(self._scaling.scale(current, tensor))
        future = dist.all_reduce(tensor, group=self._group, async_op=True).get_future()
        if current.is_over:
            self._end_pass(current)
        total, before = current.total, self._scaling.total_before()
        if total is None:
            return future.then(lambda summed: summed.value()[0])

        def divided(summed: Future[list[Tensor]]) -> Tensor:
            result = summed.value()[0]
            weights, work = total
            work.wait()
            multiply(result, torch.where(weights > 0, before / weights, 0))
            return result

        return future.then(divided)

    def _check_bucket(self, tensor: Tensor) -> None:
        if tensor.dtype not in _TYPES:
            raise BadInputError(
                f"gradients of type {str(tensor.dtype).removeprefix('torch.')} cannot be exchanged without loss: only "
                "float32, bfloat16 and float16 can"
            )
        if tensor.is_cuda and torch.cuda.is_current_stream_capturing():
            raise BadInputError(
                "a CUDA graph is being captured, and coefficients change from step to step: capture forward and backward "
                "under no_sync(), or register no gradient rule"
            )

    def _begin_pass(self, buckets: int, has_gradient: bool, weight: float, divides_by_all: bool) -> None:
        self._finish()
        self._raise_failure()
        if not self._has_agreed:
            self._native.agree()
            self._has_agreed = True
        plan = self._native.plan()
        self._divides_by_all = divides_by_all
        self._scaling.begin(self._native.factors())
        sketches = (buckets if plan.by_bucket else 1) if plan.sketches else 0
        if self._records is None or self._records.shape != (buckets, sketches):
            self._records = _Records(self._group.size(), buckets, sketches, self._native.length, self._device)
        elif self._records.sketches is not None:
            self._records.sketches.zero_()
        if not plan.uses_weights:
            weight = float(has_gradient)
        elif not 0 <= weight < math.inf:
            raise BadInputError(f"weight is a number, 0 or more, not {weight}")
        share: float | None = 1.0
        if plan.is_blind:
            share = 1 / self._group.size() if divides_by_all and not plan.uses_weights else None
        self._pass = Pass(plan, buckets, weight, share, self._records.sketches)
        if share is None:
            weights = torch.tensor([weight], dtype=torch.float64, device=self._device)
            self._pass.total = (weights, dist.all_reduce(weights, group=self._group, async_op=True))

    def _end_pass(self, current: Pass[float]) -> None:
        records = self._records
        assert records is not None
        self._native.end_pass(current.sizes, current.known)
        head = self._native.head(current.weight, self._end)
        records.head.copy_(torch.tensor([*head, *current.norms], dtype=torch.float64))
        self._end = _WHOLE
        rows = list(records.all.unbind())
        self._gathering = dist.all_gather(rows, records.mine, group=self._group, async_op=True)

    def _finish(self) -> None:
        """The pass that has ended is decided; what goes wrong is kept for the next pass."""
        if self._gathering is not None and self._records is not None:
            gathering, self._gathering = self._gathering, None
            try:
                gathering.wait(self._timeout)
            except RuntimeError as error:
                kind = DeadlineExceededError if "imed out" in str(error) else PeerLostError
                self._failure = kind(f"the records of all workers did not come: {str(error).splitlines()[0]}")
                return
            self._native.decide(self._records.all.cpu())
        self._native.settle()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure
        self._native.check()

    # ---- passes that break off ----

    def begin(self) -> None:
        """A backward pass begins."""
        if self._pass is not None and self._pass.is_over:
            self._pass = None

    def handed_over(self) -> int:
        """How many buckets of the pass."""
        return 0 if self._pass is None else len(self._pass.sizes)

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

    # ---- what is told and asked for ----

    def set_rule(self, rule: str, options: dict[str, str]) -> None:
        """Asks for another rule: from the step on after the first by which all have asked."""
        self._native.set_rule(rule, options)

    def remember(self, step: int, memory: list[list[float]]) -> None:
        """Goes on from there."""
        self._finish()
        self._native.remember(step, memory)

    def report(self) -> dict[str, Any]:
        """What the last step told."""
        self._finish()
        return self._native.report()

    def findings(self) -> list[str]:
        """What is suspicious so far."""
        self._finish()
        return self._native.findings()

    def raised(self) -> list[str]:
        """The same, as it was said first, as far as it is known: waits for nothing."""
        return self._native.raised()

    def memory(self) -> tuple[str, list[list[float]]]:
        """What a resumed training needs, and the rule whose it is."""
        self._finish()
        return self._native.memory()

    def close(self) -> None:
        """Waits for what is under way. A second call does nothing."""
        with suppress(RuntimeError):
            self._finish()
