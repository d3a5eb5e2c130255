"""What StreamScaling asks of the kernels for CUDA devices, and what it does without them.

There is no device here: the kernels themselves are tested by tests/kernels/cuda_spans_test.cpp and tests/cuda/sketched_ddp.py.
"""

import math
from unittest.mock import Mock

import pytest
import torch
from flockstep import UnavailableError, _native
from flockstep._scaling import Pass, StreamScaling, _kernels_for

CPU = torch.device("cpu")
SIZES = (3000, 1500)


class Plan:
    """Of passes of two buckets, as the compiled half would make one."""

    by_bucket = uses_weights = False
    excludes = True
    sizes, knows = SIZES, (True, True)
    key = _native.sketch_key(7, 42)

    def __init__(self, *, is_blind=False):
        self.is_blind = is_blind


def passed(scaling, *, is_blind=False, share=1.0):
    """What becomes of two buckets, of their norms and of their sketch."""
    generator = torch.Generator().manual_seed(1)
    buckets = [torch.randn(size, generator=generator) for size in SIZES]
    norms, sketches = torch.full((2,), -1.0, dtype=torch.float64), torch.ones(1, 64)
    scaling.begin(torch.tensor([0, 1, 0.5, 3.0, 0.5, math.inf], dtype=torch.float64))
    current = Pass(Plan(is_blind=is_blind), 2, 1.25, share, sketches, norms)
    for bucket in buckets:
        scaling.scale(current, bucket)
    return [*buckets, norms, sketches]


def scaling_with(kernels):
    scaling = StreamScaling(None, CPU)
    scaling._kernels = kernels
    return scaling


def test_kernels_get_what_the_plan_says():
    kernels = Mock()
    first, second, norms, sketches = passed(scaling_with(kernels))
    one, other = (call.kwargs for call in kernels.scale.call_args_list)
    for call, bucket, chunk in zip(kernels.scale.call_args_list, (first, second), (0, 3), strict=True):
        given, _, first_chunk, sketch = call.args
        assert given is bucket
        assert first_chunk == chunk
        assert sketch.data_ptr() == sketches.data_ptr()
    assert (one["begins"], other["begins"]) == (True, False)
    assert (one["place"], one["limit"], other["place"], other["limit"]) == (2, 3, 4, 5)
    assert (one["index"], other["index"]) == (0, 1)
    for call in (one, other):
        assert call["norms"] is norms
        assert call["share"] == 1
        assert call["excludes"]


def test_a_weight_has_no_place_among_the_factors():
    kernels = Mock()
    passed(scaling_with(kernels), is_blind=True, share=None)
    for call in kernels.scale.call_args_list:
        assert [call.kwargs[name] for name in ("coefficient", "place", "share")] == [1.25, None, None]


def test_kernels_that_the_driver_refuses_are_replaced_with_one_warning(caplog):
    expected = passed(StreamScaling(None, CPU))
    refusal = UnavailableError("CUDA cannot launch the kernel scale_bucket: CUDA_ERROR_INVALID_IMAGE.")
    scaling = scaling_with(Mock(scale=Mock(side_effect=refusal)))
    for _ in range(2):
        for ours, theirs in zip(passed(scaling), expected, strict=True):
            assert torch.equal(ours, theirs)
    (record,) = caplog.records
    assert record.getMessage().endswith("CUDA_ERROR_INVALID_IMAGE.")


def test_a_device_without_kernels_gets_one_warning(monkeypatch, caplog):
    monkeypatch.setattr(_native, "BucketKernels", Mock(side_effect=UnavailableError("NVRTC is not found.")))
    assert _kernels_for(CPU) is None
    assert not caplog.records
    assert _kernels_for(torch.device("cuda", 0)) is None
    (record,) = caplog.records
    assert record.getMessage().endswith("NVRTC is not found.")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_device_kernels_cannot_be_made():
    with pytest.raises(RuntimeError):
        _native.BucketKernels(torch.device("cuda", 0))
