"""The sketch of a bucket of gradients in torch operations, for devices and types that have no kernel.

Signs and bins are those of ``src/kernels/sketch.h``, to the bit; sums are rounded differently. Nothing is added up in an
order that may change from run to run, and nothing waits for the device.
"""

from __future__ import annotations

import torch
from torch import Tensor

from flockstep import _native

CHUNK = 1024  # every bucket begins on a multiple of so many elements
_WORDS = 32  # of signs in a chunk, 32 each
_AT_ONCE = 1 << 22  # elements: their temporaries take about 64 MB
_MASK = 0xFFFFFFFF


def chunks_of(size: int) -> int:
    """How many chunks a bucket takes."""
    return -(-size // CHUNK)


# A product of two numbers of 32 bits wraps around in 64, which leaves its lower half right.
def _mixed(numbers: Tensor, a: int, b: int) -> Tensor:
    """Hashes numbers of 32 bits, held in int64."""
    h = (numbers * 0x9E3779B1 + a).bitwise_and_(_MASK)
    h.bitwise_xor_(h >> 16)
    h.mul_(0x85EBCA6B).add_(b).bitwise_and_(_MASK)
    h.bitwise_xor_(h >> 13)
    h.mul_(0xC2B2AE35).bitwise_and_(_MASK)
    return h.bitwise_xor_(h >> 16)


def _signed(numbers: Tensor, key: _native.SketchKey, first_chunk: int) -> Tensor:
    """Whole chunks of float32, each number with its sign or the other one."""
    chunks = numbers.numel() // CHUNK
    device = numbers.device
    places = torch.arange(first_chunk * _WORDS, (first_chunk + chunks) * _WORDS, device=device).bitwise_and_(_MASK)
    words = _mixed(places, key.k0, key.k1).to(torch.int32).view(chunks, 1, _WORDS)  # the same 32 bits
    shifts = torch.arange(_WORDS, dtype=torch.int32, device=device).view(1, _WORDS, 1)
    flips = torch.bitwise_left_shift(words, shifts).bitwise_and_(-(1 << 31))
    flips.bitwise_xor_(numbers.view(torch.int32).view(chunks, _WORDS, _WORDS))
    return flips.view(-1).view(torch.float32)


def _folded(signed: Tensor, key: _native.SketchKey, first_block: int, length: int) -> Tensor:
    """The sum of all blocks, each rotated by its own offset."""
    blocks = signed.numel() // length
    device = signed.device
    numbers = torch.arange(first_block, first_block + blocks, device=device).bitwise_and_(_MASK)
    offsets = _mixed(numbers, key.k1, key.k0).bitwise_and_(length - 1).to(torch.int32).view(blocks, 1)
    # Bin j holds what stands at j - offset in its block.
    sources = torch.arange(length, dtype=torch.int32, device=device) - offsets
    sources.bitwise_and_(length - 1)
    sources.add_(torch.arange(0, blocks * length, length, dtype=torch.int32, device=device).view(blocks, 1))
    return signed.index_select(0, sources.view(-1)).view(blocks, length).sum(0)


def add_sketch(bucket: Tensor, key: _native.SketchKey, first_chunk: int, sketch: Tensor | None) -> Tensor:
    """Adds the sketch of a bucket that begins on chunk ``first_chunk`` of the model, if there is one to add to.

    Returns the bucket's norm, a float64 of no dimensions on its device; not finite where a number of the bucket is not.
    """
    norms: list[Tensor] = []
    length = CHUNK if sketch is None else sketch.numel()
    before = 0 if sketch is None else first_chunk * CHUNK % length  # where a block begins in an earlier bucket
    step = max(_AT_ONCE // max(length, CHUNK), 1) * max(length, CHUNK)
    begin = 0
    while begin < bucket.numel():
        end = min(begin + step - before, bucket.numel())
        part = bucket[begin:end].float()
        norms.append(torch.linalg.vector_norm(part, dtype=torch.float64))
        if sketch is not None:
            first = first_chunk + begin // CHUNK
            behind = -(before + end - begin) % max(length, CHUNK)
            padded = torch.nn.functional.pad(part, (before, behind)) if before or behind else part
            signed = _signed(padded, key, first - before // CHUNK)
            sketch.add_(_folded(signed, key, (first * CHUNK - before) // length, length))
        begin, before = end, 0
    if len(norms) == 1:
        return norms[0]
    if not norms:
        return torch.zeros((), dtype=torch.float64, device=bucket.device)
    norm: Tensor = torch.linalg.vector_norm(torch.stack(norms))
    return norm
