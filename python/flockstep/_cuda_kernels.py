"""A bucket of gradients on a CUDA device, sketched, measured and multiplied by two kernels in Triton.

Imported only where it is needed, for Triton is not installed everywhere. Signs and bins are those of
``src/kernels/sketch.h``, to the bit. Sums are taken in an order that depends on sizes alone, so results are the same from
run to run. With ``TRITON_INTERPRET=1`` the kernels run on the CPU, slowly, for tests.
"""

from __future__ import annotations

import contextlib
import os
import struct
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from flockstep import _native

_CHUNK = 1024
_TILE = 1024  # numbers that a program of the first kernel takes at once
_PROGRAMS = 512  # of the first kernel, at most, while sketches are no longer than _TILE * _PROGRAMS
_WIDTH = 4096  # numbers that a program of the second kernel multiplies
_BINS, _ROWS = 32, 64  # of the partial sketches that it adds up at once
_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


@triton.jit
def _mixed(n, a, b):
    h = n * 0x9E3779B1 + a
    h = h ^ (h >> 16)
    h = h * 0x85EBCA6B + b
    h = h ^ (h >> 13)
    h = h * 0xC2B2AE35
    return h ^ (h >> 16)


@triton.jit
def _double(low, high):
    """A float64 from its halves: Triton passes a Python float as a float32."""
    bits = (high.to(tl.int64) << 32) | (low.to(tl.int64) & 0xFFFFFFFF)
    return bits.to(tl.float64, bitcast=True)


# No argument but pointers is specialized for its value: nothing is compiled again in the middle of a training.
@triton.jit(do_not_specialize=["size", "before", "blocks", "chunk", "block", "k0", "k1"])
def _measure(
    bucket,
    size,
    before,  # how far into its first block the bucket begins
    blocks,
    chunk,  # that in which the first block begins, modulo 2^32
    block,  # the number of the first block, modulo 2^32
    k0,
    k1,
    partial_sketches,  # [programs, LENGTH]
    partial_squares,  # [programs, tiles]
    LENGTH: tl.constexpr,
    ROWS: tl.constexpr,
    BINS: tl.constexpr,
    SKETCHES: tl.constexpr,
):
    """A program takes every so many-th ROWS blocks, and of them the elements of BINS bins."""
    program, tile = tl.program_id(0), tl.program_id(1)
    programs, tiles = tl.num_programs(0), tl.num_programs(1)
    rows = tl.arange(0, ROWS)[:, None]
    bins = tile * BINS + tl.arange(0, BINS)[None, :]
    a, b = k0.to(tl.uint32), k1.to(tl.uint32)
    z = tl.zeros([ROWS, BINS], tl.float32)
    squares = tl.zeros([ROWS, BINS], tl.float64)
    for first in range(program * ROWS, blocks, programs * ROWS):
        row = first + rows
        within = bins + tl.zeros([ROWS, BINS], tl.int32)
        if SKETCHES:
            # Bin j holds what stands at j - offset in its block.
            offset = _mixed((block + row).to(tl.uint32), b, a) & (LENGTH - 1)
            within = (bins - offset.to(tl.int32)) & (LENGTH - 1)
        place = row.to(tl.int64) * LENGTH + within
        k = place - before
        x = tl.load(bucket + k, mask=(k >= 0) & (k < size), other=0.0).to(tl.float32)
        exact = x.to(tl.float64)
        squares += exact * exact
        if SKETCHES:
            word = (chunk + (place >> 10).to(tl.int32)).to(tl.uint32) * 32 + (place & 31).to(tl.uint32)
            flip = (_mixed(word, a, b) << ((place & 1023) >> 5).to(tl.uint32)) & 0x80000000
            z += (x.to(tl.uint32, bitcast=True) ^ flip).to(tl.float32, bitcast=True)
    tl.store(partial_squares + program * tiles + tile, tl.sum(tl.sum(squares, axis=1), axis=0))
    if SKETCHES:
        places = program.to(tl.int64) * LENGTH + tile * BINS + tl.arange(0, BINS)
        tl.store(partial_sketches + places, tl.sum(z, axis=0))


@triton.jit(
    do_not_specialize=[
        "size",
        "programs",
        "squares",
        "sketch",
        "begins",
        "factors",
        "coefficient_low",
        "coefficient_high",
        "coefficient_place",
        "share_low",
        "share_high",
        "limit_place",
        "excludes",
        "norms",
        "index",
    ]
)
def _scale(
    bucket,
    size,
    partial_sketches,
    partial_squares,
    programs,  # partial sketches
    squares,  # partial squares
    sketch,
    begins,  # whether this bucket's is the first to be added up in the sketch
    factors,
    coefficient_low,
    coefficient_high,
    coefficient_place,  # where it stands in the factors, or -1 for the one given
    share_low,
    share_high,  # or 0 for the reciprocal of the last sum of weights
    limit_place,  # where that of the guard stands in the factors, or -1 for none
    excludes,
    norms,  # of all buckets of the pass
    index,  # of this one
    LENGTH: tl.constexpr,
    BINS: tl.constexpr,
    ROWS: tl.constexpr,
    SQUARES: tl.constexpr,
    BUCKETS: tl.constexpr,
    WIDTH: tl.constexpr,
    SKETCHES: tl.constexpr,
):
    """Every program finds the norm and the factor for itself; the first ones add up the partial sketches as well."""
    program = tl.program_id(0)
    k = program.to(tl.int64) * WIDTH + tl.arange(0, WIDTH)
    x = tl.load(bucket + k, mask=k < size, other=0.0)

    numbers = tl.arange(0, SQUARES)
    norm = tl.sqrt(tl.sum(tl.load(partial_squares + numbers, mask=numbers < squares, other=0.0), axis=0))
    is_broken = (norm < float("inf")) == 0

    c = tl.load(factors + coefficient_place, mask=coefficient_place >= 0, other=0.0)
    c = tl.where(coefficient_place >= 0, c, _double(coefficient_low, coefficient_high))
    share = _double(share_low, share_high)
    factor = tl.where(share == 0.0, c / tl.load(factors + 1), c * share)
    limit = tl.load(factors + limit_place, mask=limit_place >= 0, other=float("inf"))
    # The norm alone where c is a number of samples.
    ratio = limit / (tl.where(coefficient_place >= 0, tl.abs(c), 1.0) * norm)
    factor = tl.where(ratio < 1.0, factor * ratio, factor)  # not where it is NaN

    before = tl.arange(0, BUCKETS)
    known = tl.load(norms + before, mask=(before < index) & (excludes != 0), other=0.0)
    was_broken = tl.max((known < float("inf")).to(tl.int32) ^ 1, axis=0) > 0
    is_left_out = tl.load(factors) != 0.0
    clears = was_broken | (is_broken & (is_left_out | (excludes != 0)))

    # In float32, rounded once; NaN stays NaN.
    scaled = tl.where(clears, 0.0, x.to(tl.float32) * factor.to(tl.float32))
    tl.store(bucket + k, scaled.to(x.dtype), mask=k < size)
    if program == 0:
        tl.store(norms + index, norm)

    if SKETCHES:  # noqa: SIM102 (known to the compiler, unlike the other)
        if program < LENGTH // BINS:
            bins = program * BINS + tl.arange(0, BINS)
            z = tl.zeros([ROWS, BINS], tl.float32)
            for first in range(0, programs, ROWS):
                row = first + tl.arange(0, ROWS)[:, None]
                z += tl.load(
                    partial_sketches + row.to(tl.int64) * LENGTH + bins[None, :], mask=row < programs, other=0.0
                )
            sum_before = tl.load(sketch + bins, mask=(bins >= 0) & (begins == 0), other=0.0)
            tl.store(sketch + bins, sum_before + tl.sum(z, axis=0))


@dataclass
class Factor:
    """What a bucket is multiplied by.

    Attributes:
        factors: the tensor that what was decided stands in.
        coefficient: as it is given, where it has no place.
        place: where it stands in ``factors``.
        share: multiplied with it, or None for the reciprocal of the last sum of weights.
        limit: where it stands in ``factors`` how long the guard lets the bucket be; None without a guard.
        excludes: whether a bucket that follows one that is not finite is cleared.
    """

    factors: Tensor
    coefficient: float
    place: int | None
    share: float | None
    limit: int | None
    excludes: bool


class Kernels:
    """The kernels on a device, with the memory that they need between each other."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._of_stream: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}

    def scale(
        self,
        bucket: Tensor,
        key: _native.SketchKey,
        first_chunk: int,
        sketch: Tensor | None,
        begins: bool,
        factor: Factor,
        norms: Tensor,
        index: int,
    ) -> None:
        """Multiplies a bucket that begins on chunk ``first_chunk`` of the model, in place.

        Its norm before goes into ``norms[index]``, and its sketch is added to ``sketch``, or put there where it ``begins``
        a sum. All of that happens in the order of the current stream.
        """
        size, sketches = bucket.numel(), sketch is not None
        length = _TILE if sketch is None else sketch.numel()
        columns = min(length, _TILE)
        rows, tiles = _TILE // columns, length // columns
        before = first_chunk * _CHUNK % length if sketches else 0
        first = first_chunk * _CHUNK - before
        blocks = -(-(before + size) // length)
        programs = min(-(-blocks // rows), max(_PROGRAMS // tiles, 1))
        partial_sketches, partial_squares = self._scratch(length if sketches else 0)
        bins = min(length, _BINS)
        with torch.cuda.device(self._device) if bucket.is_cuda else contextlib.nullcontext():
            _measure[(programs, tiles)](
                bucket,
                size,
                before,
                blocks,
                _as_int32(first // _CHUNK),
                _as_int32(first // length),
                _as_int32(key.k0),
                _as_int32(key.k1),
                partial_sketches,
                partial_squares,
                LENGTH=length,
                ROWS=rows,
                BINS=columns,
                SKETCHES=sketches,
                num_warps=4,
            )
            _scale[(max(-(-size // _WIDTH), length // bins if sketches else 1),)](
                bucket,
                size,
                partial_sketches,
                partial_squares,
                programs,
                programs * tiles,
                partial_sketches if sketch is None else sketch,
                int(begins),
                factor.factors,
                *_halves(factor.coefficient),
                -1 if factor.place is None else factor.place,
                *_halves(factor.share or 0.0),
                -1 if factor.limit is None else factor.limit,
                int(factor.excludes),
                norms,
                index,
                LENGTH=length,
                BINS=bins,
                ROWS=_ROWS,
                SQUARES=max(_PROGRAMS, tiles),
                BUCKETS=max(64, 1 << (norms.numel() - 1).bit_length()),
                WIDTH=_WIDTH,
                SKETCHES=sketches,
                num_warps=8,
            )

    def _scratch(self, length: int) -> tuple[Tensor, Tensor]:
        """Partial sketches and squares; buckets that follow each other in a stream share them."""
        stream = torch.cuda.current_stream(self._device).cuda_stream if self._device.type == "cuda" else 0
        if (stream, length) not in self._of_stream:
            sketches = torch.empty(max(_PROGRAMS * _TILE, length) if length else 1, device=self._device)
            squares = torch.empty(max(_PROGRAMS, length // _TILE), dtype=torch.float64, device=self._device)
            self._of_stream[stream, length] = sketches, squares
        return self._of_stream[stream, length]


def runs_on(device: torch.device) -> bool:
    """Whether there are kernels for it."""
    return device.type == "cuda" or _INTERPRETED


def _as_int32(number: int) -> int:
    """Its lower 32 bits: Triton's type of a larger one would be another."""
    return (number + (1 << 31)) % (1 << 32) - (1 << 31)


def _halves(number: float) -> tuple[int, int]:
    low, high = struct.unpack("<ii", struct.pack("<d", number))
    return low, high
