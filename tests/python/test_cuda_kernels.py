"""The kernels for CUDA devices, run by Triton's interpreter on the CPU, against the definition and torch operations."""

import math
import os

import pytest
import torch
from flockstep import _native
from flockstep._scaling import Pass, StreamScaling
from flockstep._sketch import add_sketch
from sketch_oracle import sketched

os.environ["TRITON_INTERPRET"] = "1"  # which Triton looks at when it is imported
try:
    pytest.importorskip(
        "triton", reason="Triton is not installed: it comes with torch for CUDA, and CI has torch for CPUs"
    )
    from flockstep import _cuda_kernels
    from flockstep._cuda_kernels import Factor, Kernels
finally:
    del os.environ["TRITON_INTERPRET"]  # other tests start programs

pytestmark = pytest.mark.filterwarnings("ignore:.*(overflow|divide by zero|invalid value|NumPy 1.25)")  # of numpy

DEVICE = torch.device("cpu")
C, LIMIT = 2, 3  # places among the factors
FREE = math.inf


def factors(c=1.0, limit=FREE, *, left_out=0.0, total=1.0):
    return torch.tensor([left_out, total, c, limit], dtype=torch.float64)


def scaled(bucket, factor, *, sketch=None, first_chunk=0, begins=True, before=()):
    """The norm, and what has become of the bucket."""
    result = bucket.clone()
    norms = torch.tensor([*before, -1.0, -1.0], dtype=torch.float64)
    key = _native.sketch_key(7, 42)
    Kernels(DEVICE).scale(result, key, first_chunk, sketch, begins, factor, norms, len(before))
    assert float(norms[-1]) == -1
    assert norms[: len(before)].tolist() == pytest.approx([*before], nan_ok=True)
    return float(norms[-2]), result


def decided(*numbers, excludes=False, **keywords):
    return Factor(factors(*numbers, **keywords), 0.0, C, 1.0, LIMIT, excludes)


@pytest.fixture(autouse=True, scope="module")
def _interpreted():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1")
        try:
            scaled(torch.ones(1), decided())
        except Exception as error:
            if "converted to Python scalars" in str(error):
                pytest.skip("this Triton's interpreter needs numpy before 2.4")
            raise
        yield


@pytest.mark.parametrize("length", [1, 32, 128, 1024, 4096])
@pytest.mark.parametrize("size", [1, 1023, 1025, 5000])
@pytest.mark.parametrize("first_chunk", [0, 3])
def test_a_sketch_follows_its_definition(length, size, first_chunk):
    key = _native.sketch_key(7, 42)
    bucket = torch.randn(size, generator=torch.Generator().manual_seed(size))
    ours, operations = torch.full((length,), 5.0), torch.zeros(length)
    norm, result = scaled(bucket, decided(1 / 3), sketch=ours, first_chunk=first_chunk)
    assert norm == pytest.approx(float(add_sketch(bucket, key, first_chunk, operations)), rel=1e-12)
    assert torch.allclose(ours.double(), sketched(bucket, (key.k0, key.k1), first_chunk, length), atol=1e-4)
    assert torch.allclose(ours, operations, atol=1e-4)
    assert torch.equal(result, bucket * torch.tensor(1 / 3))


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_numbers_of_16_bits_are_sketched_and_multiplied_in_float(kind):
    bucket = torch.randn(3000).to(kind)
    ours, expected = torch.zeros(128), torch.zeros(128)
    norm, result = scaled(bucket, decided(1 / 3), sketch=ours, first_chunk=2)
    assert norm == scaled(bucket.float(), decided(), sketch=expected, first_chunk=2)[0]
    assert torch.equal(ours, expected)
    exact = bucket.float() * torch.tensor(1 / 3)
    if kind == torch.bfloat16:  # the interpreter cuts off where a device rounds to nearest
        exact = (exact.view(torch.int32) & -(1 << 16)).view(torch.float32)
    assert torch.equal(result, exact.to(kind))


def test_a_bucket_of_many_programs_is_added_up_in_a_fixed_order(monkeypatch):
    monkeypatch.setattr("flockstep._cuda_kernels._PROGRAMS", 8)
    bucket, key = torch.randn(70_001), _native.sketch_key(7, 42)
    for length in (64, 1024, 4096, 16384):
        first, second, expected = torch.zeros(length), torch.zeros(length), torch.zeros(length)
        norm, _ = scaled(bucket, decided(), sketch=first, first_chunk=5)
        assert norm == scaled(bucket, decided(), sketch=second, first_chunk=5)[0]
        assert norm == pytest.approx(float(add_sketch(bucket, key, 5, expected)), rel=1e-12)
        assert torch.equal(first, second)
        assert torch.allclose(first, expected, atol=1e-3)


def test_sketches_are_added_to_those_before():
    bucket, first, both = torch.randn(2000), torch.zeros(256), torch.ones(256)
    scaled(bucket, decided(), sketch=first)
    scaled(bucket, decided(), sketch=both, begins=False)
    assert torch.equal(both, first + 1)


@pytest.mark.parametrize("first_chunk", [0, 7])
def test_without_a_sketch_there_is_a_norm(first_chunk):
    bucket = 1e30 * torch.randn(5000)
    norm, result = scaled(bucket, decided(0.5), first_chunk=first_chunk)
    assert norm == pytest.approx(float(bucket.double().norm()), rel=1e-12)
    assert torch.equal(result, bucket * 0.5)


@pytest.mark.parametrize(("weight", "total", "share"), [(1.0, 1.0, 1 / 3), (2.7, 11.3, None), (0.0, 3.0, None)])
def test_a_weight_is_taken_in_double_precision(weight, total, share):
    bucket = torch.randn(100)
    _, result = scaled(bucket, Factor(factors(total=total), weight, None, share, None, False))
    expected = weight / total if share is None else weight * share
    assert torch.equal(result, bucket * torch.tensor(expected, dtype=torch.float32))


@pytest.mark.parametrize("c", [0.5, -0.5, 0.0])
@pytest.mark.parametrize("limit", [0.0, 3.0, 1e6, FREE])
def test_a_guard_shortens_what_is_too_long(c, limit):
    bucket = torch.randn(1000)
    norm, result = scaled(bucket, decided(c, limit))
    f = min(1.0, limit / (abs(c) * norm)) if c else 1.0
    assert torch.allclose(result, bucket * c * f, rtol=1e-6)
    free = Factor(factors(c, limit), 0.0, C, 1.0, None, False)
    assert torch.equal(scaled(bucket, free)[1], bucket * c)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("c", [0.5, 0.0])
def test_what_is_not_finite_stays_so_or_is_cleared(number, c):
    bucket = torch.randn(5000)
    bucket[1234] = number
    sketch = torch.zeros(128)
    norm, result = scaled(bucket, decided(c, 3.0), sketch=sketch)
    assert not math.isfinite(norm)
    assert not torch.isfinite(sketch).all()
    operations = bucket * c * (0.0 if c and math.isinf(number) else 1.0)
    assert torch.equal(result.nan_to_num(1e30), operations.nan_to_num(1e30))
    for clears in (decided(c, left_out=1.0), decided(c, excludes=True)):
        norm, result = scaled(bucket, clears)
        assert not math.isfinite(norm)
        assert torch.equal(result, torch.zeros(5000))


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_what_follows_is_cleared_only_where_it_is_left_out(number):
    bucket = torch.randn(100)
    for factor in (decided(), decided(left_out=1.0)):
        assert torch.equal(scaled(bucket, factor, before=(1.0, number))[1], bucket)
    assert torch.equal(scaled(bucket, decided(excludes=True), before=(1.0, number))[1], torch.zeros(100))
    assert torch.equal(scaled(bucket, decided(excludes=True), before=(1.0, 2.0))[1], bucket)


class Plan:
    """Of passes of two buckets, as the compiled half would make one."""

    by_bucket = uses_weights = is_blind = False
    excludes = True
    sizes, knows = (3000, 1500), (True, True)
    key = _native.sketch_key(7, 42)


def passed(scaling, buckets):
    """What becomes of the buckets, of their norms and of their sketch."""
    results = [bucket.clone() for bucket in buckets]
    norms, sketches = torch.full((2,), -1.0, dtype=torch.float64), torch.ones(1, 64)
    scaling.begin(torch.tensor([0, 1, 0.5, 3.0, 0.5, math.inf], dtype=torch.float64))
    current = Pass(Plan(), 2, 1.0, 1.0, sketches, norms)
    for result in results:
        scaling.scale(current, result)
    return [*results, norms, sketches]


@pytest.fixture
def buckets():
    return [torch.randn(3000), torch.randn(1500)]


@pytest.mark.parametrize("number", [0.0, math.nan])
def test_a_pass_is_that_of_torch_operations(monkeypatch, buckets, number):
    buckets[0][5] = number
    scaling = StreamScaling(None, DEVICE)
    assert scaling._kernels is not None
    kernels = passed(scaling, buckets)
    monkeypatch.setenv("FLOCKSTEP_TRITON", "0")
    scaling = StreamScaling(None, DEVICE)
    assert scaling._kernels is None
    for ours, theirs in zip(kernels, passed(scaling, buckets), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-4, equal_nan=True)


@pytest.mark.parametrize("name", ["_measure", "_scale"])
def test_kernels_that_cannot_be_compiled_are_replaced_with_one_warning(monkeypatch, caplog, buckets, name):
    class Broken:
        def __getitem__(self, grid):
            raise RuntimeError("no C compiler\nwas found")

    expected = passed(StreamScaling(None, DEVICE), buckets)
    monkeypatch.setattr(_cuda_kernels, name, Broken())
    scaling = StreamScaling(None, DEVICE)
    for _ in range(2):
        for ours, theirs in zip(passed(scaling, buckets), expected, strict=True):
            assert torch.allclose(ours, theirs, atol=1e-4)
    (record,) = caplog.records
    assert record.getMessage().endswith("RuntimeError: no C compiler")
