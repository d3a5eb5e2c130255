"""What a worker multiplies a bucket of its gradient by before it is summed: where sketches decide on a rule's coefficients.

On the host the factors are plain numbers. In the order of a CUDA stream they are tensors that nobody waits for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from flockstep import _native
from flockstep._errors import UnavailableError
from flockstep._log import logger
from flockstep._sketch import add_sketch, chunks_of
from flockstep._torch_private import all_gather_single

Norm = TypeVar("Norm", float, Tensor)

# Of the factors: 1 if this worker is left out where it is not finite, -1 if no worker was finite in the last step, so
# that nothing is excluded in this one, else 0; and the last sum of weights.
_HEAD = 2
_EACH = 2  # for each bucket: its coefficient, and how long the guard lets it be


def factor_count(buckets: int) -> int:
    """Of a pass of so many buckets."""
    return _HEAD + _EACH * buckets


@dataclass
class Pass(Generic[Norm]):
    """A backward pass under way.

    Attributes:
        plan: what the compiled half says about it.
        count: how many buckets it has.
        weight: how much this worker counts; 0 without a gradient.
        share: what every bucket is multiplied by beside its coefficient, or None for the reciprocal of the last sum of
            weights, which what is summed is corrected by.
        sketches: one for each section, or none.
        places: where the norms of its buckets stand in this worker's record.
        sizes: of the buckets so far.
        norms: of the same.
        known: how many of them are as in the pass before.
        broken: whether a bucket before was not finite, where that is left out and the host knows.
        total: where it is needed, that of all workers' weights: before, and now, which is on its way.
    """

    plan: _native.SketchedPlan
    count: int
    weight: float
    share: float | None
    sketches: Tensor | None
    places: Tensor
    sizes: list[int] = field(default_factory=list)
    norms: list[Norm] = field(default_factory=list)
    known: int = 0
    chunk: int = 0
    broken: bool = False
    total: tuple[Norm, Tensor, dist.Work] | None = None

    @property
    def is_over(self) -> bool:
        """Whether all buckets were handed over."""
        return len(self.sizes) == self.count

    def enter(self, size: int) -> tuple[int, bool]:
        """Takes the next bucket: its number, and whether it has a coefficient."""
        index, cut = len(self.sizes), self.plan.sizes
        if self.known == index and self.count == len(cut) and size == cut[index]:
            self.known += 1
        self.sizes.append(size)
        knows = self.plan.knows
        if self.plan.is_blind or self.known > index:
            return index, self.plan.is_blind or knows[index]
        return index, not self.plan.by_bucket and bool(knows) and knows[0]

    def sketch_of(self, index: int) -> Tensor | None:
        """Where the bucket's sketch is added up."""
        return None if self.sketches is None else self.sketches[index if self.plan.by_bucket else 0]

    def begins_sketch(self, index: int) -> bool:
        """Whether the bucket is the first there, and what stands there is of another pass."""
        return self.plan.by_bucket or index == 0

    def cleared_sketch_of(self, index: int) -> Tensor | None:
        """Where the bucket's sketch is added up, zero before the first."""
        sketch = self.sketch_of(index)
        return sketch.zero_() if sketch is not None and self.begins_sketch(index) else sketch

    def place(self, index: int) -> int | None:
        """Where the factors of a bucket stand; None of one that was cut anew and has no guard."""
        return _HEAD + _EACH * index if self.known > index else None


def multiply(bucket: Tensor, factor: Tensor) -> None:
    """In float32, rounded once, also where a bucket of 16 bits would round the factor before."""
    torch.mul(bucket, factor.to(torch.float32).view(1), out=bucket)


class HostScaling:
    """For buckets on the CPU; those of another device wait for it."""

    def __init__(self, group: dist.ProcessGroup, device: torch.device) -> None:
        self._group = group
        self._device = device

    def begin(self, factors: list[float]) -> None:
        """A pass begins, with what the one before has decided."""
        self._factors = factors
        self._left_out, self._keeps_all = factors[0] > 0, factors[0] < 0

    def total_before(self) -> float:
        """Of all weights, in the step before."""
        return self._factors[1]

    def scale(self, current: Pass[float], bucket: Tensor) -> float:
        """Multiplies the next bucket of a pass in place; its norm before."""
        index, has_coefficient = current.enter(bucket.numel())
        share = 1 / self.total_before() if current.share is None else current.share
        place = current.place(index)
        c: float | None = None
        if current.plan.is_blind:
            c = current.weight
        elif has_coefficient:
            c = self._factors[_HEAD if place is None else place]
        norm, is_scaled = self._measured(current, index, bucket, None if c is None else c * share)
        if c is None:
            c = self._first_coefficient(norm)
        f = 1.0
        part = norm if current.plan.is_blind else abs(c) * norm  # a number of samples is no reason to be clipped
        if place is not None and 0 < part < math.inf:
            f = min(1.0, self._factors[place + 1] / part)
        if not is_scaled:
            multiply(bucket, torch.tensor(c * share * f, dtype=torch.float64, device=self._device))
        elif f < 1:
            bucket.mul_(f)
        excludes = current.plan.excludes and not self._keeps_all
        current.broken = current.broken or (excludes and not math.isfinite(norm))
        if current.broken or (self._left_out and not math.isfinite(norm)):
            bucket.zero_()
        return norm

    def _measured(self, current: Pass[float], index: int, bucket: Tensor, factor: float | None) -> tuple[float, bool]:
        """The norm, and whether the bucket was multiplied on the way."""
        sketch, chunk = current.cleared_sketch_of(index), current.chunk
        current.chunk += chunks_of(bucket.numel())
        if sketch is None or bucket.device.type != "cpu" or bucket.dtype != torch.float32:
            return float(add_sketch(bucket, current.plan.key, chunk, sketch)), False
        scale = 1.0 if factor is None else factor
        norm = _native.sketch_and_scale(bucket, current.plan.key, chunk, sketch, scale)
        return norm, factor is not None

    def _first_coefficient(self, norm: float) -> float:
        norms = torch.zeros(self._group.size(), dtype=torch.float64, device=self._device)
        mine = torch.tensor([norm], dtype=torch.float64, device=self._device)
        self._group.allgather([list(norms.view(-1, 1).unbind())], [mine]).wait()
        known: list[float] = sorted(each for each in norms.tolist() if each > 0 and math.isfinite(each))
        if not (norm > 0 and math.isfinite(norm)):
            return 0.0
        return known[(len(known) - 1) // 2] / (len(known) * norm)


def _warn_of(error: UnavailableError) -> None:
    logger.warning(
        "PyTorch operations replace the CUDA kernels for sketched gradients, and steps take longer: %s", error
    )


def _kernels_for(device: torch.device) -> _native.BucketKernels | None:
    """None where there are none."""
    if device.type != "cuda":
        return None
    try:
        return _native.BucketKernels(device)
    except UnavailableError as error:
        _warn_of(error)
        return None


class StreamScaling:
    """For buckets on a CUDA device: nothing here waits for it.

    Two kernels do all for a bucket that has a coefficient. Torch operations do where there are none for the device, or where
    they are not wanted.
    """

    def __init__(self, group: dist.ProcessGroup, device: torch.device, *, uses_kernels: bool = True) -> None:
        self._group = group
        self._device = device
        self._one = torch.ones((), dtype=torch.float64, device=device)
        self._kernels = _kernels_for(device) if uses_kernels else None

    def begin(self, factors: Tensor) -> None:
        """A pass begins, with what the one before has decided: the current stream waits for that."""
        self._factors = factors

    def total_before(self) -> Tensor:
        """Of all weights, in the step before."""
        return self._factors[1].clone()

    def scale(self, current: Pass[Tensor], bucket: Tensor) -> Tensor:
        """Multiplies the next bucket of a pass in place; its norm before, which stands in the record."""
        index, has_coefficient = current.enter(bucket.numel())
        chunk = current.chunk
        current.chunk += chunks_of(bucket.numel())
        if not has_coefficient or not self._scale_in_kernels(current, index, chunk, bucket):
            self._scale_in_operations(current, index, chunk, bucket, has_coefficient)
        return current.places[index]

    def _scale_in_kernels(self, current: Pass[Tensor], index: int, chunk: int, bucket: Tensor) -> bool:
        """Whether that was done."""
        if self._kernels is None or bucket.numel() == 0 or not bucket.is_contiguous():
            return False
        place, plan = current.place(index), current.plan
        try:
            self._kernels.scale(
                bucket,
                plan.key,
                chunk,
                current.sketch_of(index),
                begins=current.begins_sketch(index),
                factors=self._factors,
                coefficient=current.weight if plan.is_blind else 0.0,
                place=None if plan.is_blind else _HEAD if place is None else place,
                share=current.share,
                limit=None if place is None else place + 1,
                excludes=plan.excludes,
                norms=current.places,
                index=index,
            )
        except UnavailableError as error:  # the driver refuses, before anything has changed
            self._kernels = None
            _warn_of(error)
            return False
        return True

    def _scale_in_operations(
        self, current: Pass[Tensor], index: int, chunk: int, bucket: Tensor, has_coefficient: bool
    ) -> None:
        place = current.place(index)
        norm = current.places[index]
        norm.copy_(add_sketch(bucket, current.plan.key, chunk, current.cleared_sketch_of(index)))
        if current.plan.is_blind:
            c = self._one * current.weight
        elif has_coefficient:
            c = self._factors[_HEAD if place is None else place]
        else:
            c = self._first_coefficient(norm)
        factor = c / self.total_before() if current.share is None else c * current.share
        if place is not None:
            part = norm if current.plan.is_blind else c.abs() * norm
            factor = factor * (self._factors[place + 1] / part).clamp(max=1).nan_to_num(nan=1)
        multiply(bucket, factor)
        is_cleared = torch.isfinite(norm).logical_not_().logical_and_(self._factors[0] > 0)
        if current.plan.excludes:
            is_cleared.logical_or_(self.is_excluded(current.places[: index + 1]))
        bucket.masked_fill_(is_cleared, 0)

    def is_excluded(self, norms: Tensor) -> Tensor:
        """Returns True if a norm of this pass is not finite and that excludes this worker from the step."""
        return torch.isfinite(norms).all().logical_not_().logical_and_(self._factors[0] >= 0)

    def _first_coefficient(self, norm: Tensor) -> Tensor:
        norms = torch.empty(self._group.size(), dtype=torch.float64, device=self._device)
        all_gather_single(norms, norm.view(1), self._group)
        counts = (norms > 0).logical_and_(torch.isfinite(norms))
        known = torch.where(counts, norms, math.inf).sort().values
        number = counts.sum()
        median = known.gather(0, ((number - 1).clamp_(min=0) // 2).view(1)).view(())
        has_norm = (norm > 0).logical_and_(torch.isfinite(norm))
        return torch.where(has_norm, median / (number * norm), 0)
