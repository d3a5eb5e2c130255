"""Sketches in torch operations against their definition, and against the kernel."""

import pytest
import torch
from flockstep import _native
from flockstep._sketch import CHUNK, add_sketch
from sketch_oracle import sketched


@pytest.mark.parametrize("length", [32, 128, 1024, 4096])
@pytest.mark.parametrize("size", [1, 31, 1023, 1024, 1025, 5000])
@pytest.mark.parametrize("first_chunk", [0, 3, 5])
def test_a_sketch_follows_its_definition(length, size, first_chunk):
    key = _native.sketch_key(7, 42)
    bucket = torch.randn(size, generator=torch.Generator().manual_seed(size))
    expected = sketched(bucket, (key.k0, key.k1), first_chunk, length)
    ours, kernels = torch.zeros(length), torch.zeros(length)
    norm = add_sketch(bucket, key, first_chunk, ours)
    assert norm.dtype == torch.float64
    assert float(norm) == pytest.approx(float(bucket.double().norm()), rel=1e-9)
    assert torch.allclose(ours.double(), expected, atol=1e-4)
    assert _native.sketch_and_scale(bucket, key, first_chunk, kernels, 1.0) == pytest.approx(float(norm), rel=1e-5)
    assert torch.allclose(kernels, ours, atol=1e-4)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_numbers_of_16_bits_are_sketched_in_float(kind):
    key = _native.sketch_key(1, 0)
    bucket = torch.randn(3000).to(kind)
    ours, expected = torch.zeros(128), torch.zeros(128)
    norm = add_sketch(bucket, key, 2, ours)
    assert float(norm) == pytest.approx(float(add_sketch(bucket.float(), key, 2, expected)))
    assert torch.equal(ours, expected)


@pytest.mark.parametrize("length", [1024, 8192])
def test_long_buckets_are_taken_in_parts(monkeypatch, length):
    key = _native.sketch_key(1, 5)
    bucket = torch.randn(40_000)
    whole, parts = torch.zeros(length), torch.zeros(length)
    norm = add_sketch(bucket, key, 3, whole)
    monkeypatch.setattr("flockstep._sketch._AT_ONCE", 8 * CHUNK)
    assert float(add_sketch(bucket, key, 3, parts)) == pytest.approx(float(norm), rel=1e-12)
    assert torch.allclose(whole, parts, atol=1e-4)
