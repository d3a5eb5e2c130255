"""How workers tell each other about a backward pass, and when they decide on the coefficients of the next."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Generic

import torch
import torch.distributed as dist
from torch import Tensor

from flockstep import _native
from flockstep._errors import Error
from flockstep._lane import lost
from flockstep._scaling import HostScaling, Norm, Pass, StreamScaling, factor_count
from flockstep._torch_private import all_gather_single

_HEAD = 4  # doubles of a record before its norms
_GLANCE_S = 0.0002


class Records:
    """What every worker tells about a pass: doubles, then the floats of its sketches."""

    def __init__(self, workers: int, buckets: int, sketches: int, length: int, device: torch.device) -> None:
        doubles = 8 * (_HEAD + buckets)
        size = doubles + 4 * sketches * length
        self.mine = torch.zeros(size, dtype=torch.uint8, device=device)
        self.all = torch.zeros(workers, size, dtype=torch.uint8, device=device)
        self.head = self.mine[:doubles].view(torch.float64)
        self.norms = self.head[_HEAD:]
        self.sketches = self.mine[doubles:].view(torch.float32).view(sketches, length) if sketches else None


class Exchange(Generic[Norm]):
    """Records of one shape after the other, each in memory of its own that stays."""

    def __init__(
        self, native: _native.SketchedHook, group: dist.ProcessGroup, device: torch.device, timeout: timedelta
    ) -> None:
        self._native = native
        self._group = group
        self._device = device
        self._timeout = timeout
        self._of_shape: dict[tuple[int, int], Records] = {}
        self.failure: Error | None = None
        self.loss: Callable[[], str] = str  # what is known of a lost peer

    def records(self, buckets: int, sketches: int) -> Records:
        """For a pass of so many buckets with so many sketches."""
        shape = (buckets, sketches)
        if shape not in self._of_shape:
            self._of_shape[shape] = Records(self._group.size(), *shape, self._native.length, self._device)
        return self._of_shape[shape]

    def _fail(self, error: RuntimeError) -> None:
        self.failure = lost("the records of all workers did not come", error, self.loss)


class HostExchange(Exchange[float]):
    """Records travel while the next forward pass runs, and are decided on when its backward pass begins."""

    def __init__(
        self, native: _native.SketchedHook, group: dist.ProcessGroup, device: torch.device, timeout: timedelta
    ) -> None:
        super().__init__(native, group, device, timeout)
        self.scaling = HostScaling(group, device)
        self._gathering: tuple[dist.Work, Records] | None = None

    def begin(self) -> None:
        """A pass begins."""
        self.finish()

    def set_factors(self) -> None:
        """Those of the pass that begins, which is planned by now."""
        self.scaling.begin(self._native.factors())

    def weights(self, weight: float) -> Tensor:
        """One to be summed over all workers."""
        return torch.tensor([weight], dtype=torch.float64, device=self._device)

    def end(self, current: Pass[float], records: Records, head: list[float]) -> None:
        """All buckets were handed over: the records travel."""
        records.head.copy_(torch.tensor([*head, *current.norms], dtype=torch.float64))
        rows = list(records.all.unbind())
        self._gathering = self._group.allgather([rows], [records.mine]), records

    def finish(self) -> None:
        """The pass that has ended is decided on; what goes wrong is kept for the next one."""
        if self.failure is not None:
            return
        if self._gathering is not None:
            (gathering, records), self._gathering = self._gathering, None
            try:
                gathering.wait(self._timeout)
            except RuntimeError as error:
                self._fail(error)
                return
            self._native.decide(records.all.cpu())
        self._native.settle()

    def forget(self) -> None:
        """What was decided has been replaced."""


class StreamExchange(Exchange[Tensor]):
    """On CUDA devices with NCCL: all of it happens in the order of a stream, and the host waits for nothing.

    A function of the host's, called by the driver in the order of the stream, decides. So all workers multiply by what the
    same step has decided, however far ahead of the device each host is.
    """

    def __init__(
        self, native: _native.SketchedHook, group: dist.ProcessGroup, device: torch.device, timeout: timedelta
    ) -> None:
        super().__init__(native, group, device, timeout)
        self.scaling = StreamScaling(group, device)
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._decided = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._is_under_way = False
        self._pinned: dict[int, Tensor] = {}  # by the addresses of what they are copies of
        self._factors: Tensor | None = None
        self._factors_on_host = torch.zeros(0, dtype=torch.float64)

    def begin(self) -> None:
        """A pass begins: the current stream waits for what the one before has decided, and the host if it must."""
        if self._is_under_way and self._native.is_uncertain():
            self.finish()
            self._factors = None  # other buckets, or another rule
        self._native.settle()

    def set_factors(self) -> None:
        """Those of the pass that begins, which is planned by now."""
        if self._factors is None:
            self._factors = torch.tensor(self._native.factors(), dtype=torch.float64).pin_memory()
            self._factors = self._factors.to(self._device)
        elif self._is_under_way:
            torch.cuda.current_stream(self._device).wait_event(self._decided)
        self.scaling.begin(self._factors)

    def weights(self, weight: float) -> Tensor:
        """One to be summed over all workers."""
        return torch.full((1,), weight, dtype=torch.float64, device=self._device)

    def end(self, current: Pass[Tensor], records: Records, head: list[float]) -> None:
        """All buckets were handed over: the records travel, and are decided on."""
        told = torch.tensor(head, dtype=torch.float64).pin_memory()  # free again when the stream is through with it
        records.head[:_HEAD].copy_(told, non_blocking=True)
        count = factor_count(current.count)
        if self._factors is None or self._factors.numel() != count:
            self._factors = torch.zeros(count, dtype=torch.float64, device=self._device)
        if self._factors_on_host.numel() != count:
            self._factors_on_host = torch.zeros(count, dtype=torch.float64).pin_memory()
        pinned = self._pinned.get(records.all.data_ptr())
        if pinned is None:
            pinned = self._pinned[records.all.data_ptr()] = torch.zeros_like(records.all, device="cpu").pin_memory()
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            gathering = all_gather_single(records.all.view(-1), records.mine, self._group, async_op=True)
            assert gathering is not None
            gathering.wait()  # the stream does, not the host
            pinned.copy_(records.all, non_blocking=True)
            self._native.decide_in_stream(self._stream.cuda_stream, pinned, self._factors_on_host)
            self._factors.copy_(self._factors_on_host, non_blocking=True)
            self._decided.record(self._stream)
        self._is_under_way = True

    def finish(self) -> None:
        """Waits until the pass that has ended is decided on; what goes wrong is kept for the next one."""
        if self.failure is not None:
            return
        end = time.monotonic() + self._timeout.total_seconds()
        try:
            while self._is_under_way and not self._decided.query():  # type: ignore[no-untyped-call]
                if time.monotonic() > end:
                    raise RuntimeError(f"timed out after {self._timeout.total_seconds():g} s")
                time.sleep(_GLANCE_S)
        except RuntimeError as error:
            self._fail(error)
            return
        self._native.settle()

    def forget(self) -> None:
        """What was decided has been replaced."""
        self._factors = None


def exchange_for(
    native: _native.SketchedHook, group: dist.ProcessGroup, device: torch.device, timeout: timedelta
) -> HostExchange | StreamExchange:
    """The one that fits a device and what carries its tensors."""
    in_stream = device.type == "cuda" and "cuda:nccl" in dist.get_backend_config(group)
    kind = StreamExchange if in_stream else HostExchange
    return kind(native, group, device, timeout)
