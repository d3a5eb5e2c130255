"""Sketches in torch operations against their definition, and against the kernel."""

import math

import pytest
import torch
from flockstep import _native
from flockstep._sketch import CHUNK, add_sketch, chunks_of
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


def test_buckets_add_up_to_the_sketch_of_the_model():
    key, length = _native.sketch_key(3, 1), 128
    buckets = [torch.randn(1500), torch.randn(100), torch.randn(2048)]
    total, chunk, expected = torch.zeros(length), 0, torch.zeros(length, dtype=torch.float64)
    for bucket in buckets:
        add_sketch(bucket, key, chunk, total)
        expected += sketched(bucket, (key.k0, key.k1), chunk, length)
        chunk += chunks_of(bucket.numel())
    assert torch.allclose(total.double(), expected, atol=1e-4)


def test_inner_products_are_those_of_the_gradients_on_average():
    x = torch.randn(50_000)
    y = 0.5 * x + torch.randn(50_000)
    cosine = float(torch.nn.functional.cosine_similarity(x, y, dim=0))
    found = []
    for step in range(50):
        key = _native.sketch_key(1, step)
        z = torch.zeros(2, 1024)
        add_sketch(x, key, 0, z[0])
        add_sketch(y, key, 0, z[1])
        found.append(float(torch.nn.functional.cosine_similarity(z[0], z[1], dim=0)))
    found = torch.tensor(found)
    assert float(found.mean()) == pytest.approx(cosine, abs=0.02)
    assert float(found.std()) < 2 / math.sqrt(1024)


@pytest.mark.parametrize("number", [math.nan, math.inf])
@pytest.mark.parametrize("kernel", [False, True])
def test_a_norm_tells_that_a_number_is_not_finite(number, kernel):
    key, sketch = _native.sketch_key(1, 0), torch.zeros(32)
    bucket = torch.randn(100)
    bucket[50] = number
    norm = _native.sketch_and_scale(bucket, key, 0, sketch, 1.0) if kernel else add_sketch(bucket, key, 0, sketch)
    assert not math.isfinite(norm)


def test_a_bucket_is_multiplied_after_it_was_sketched():
    key = _native.sketch_key(1, 0)
    bucket = torch.randn(10_000)
    before, plain, scaled = bucket.clone(), torch.zeros(1024), torch.zeros(1024)
    norm = _native.sketch_and_scale(before.clone(), key, 0, plain, 1.0)
    assert _native.sketch_and_scale(bucket, key, 0, scaled, 1 / 3) == norm
    assert torch.equal(plain, scaled)
    assert torch.equal(bucket, before * (1 / 3))
