"""A3: the aggregation of a gradient by AdaCons against a plain all-reduce of the same floats, both on Gloo."""

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

import flockstep
from flockstep._torch_private import GradBucket
from flockstep.bench.harness import Target, milliseconds, print_targets, run_interleaved, table
from flockstep.bench.oracle import verify

BAR = 0.80
Hook = Callable[[Any, GradBucket], Future[Tensor]]


class _Handing(torch.autograd.Function):
    """A backward pass that takes no time: the parameter's gradient is there already."""

    @staticmethod
    def forward(context, parameter: Tensor, gradient: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        context.save_for_backward(gradient)
        return parameter.new_zeros(())

    @staticmethod
    def backward(context, _: Tensor) -> tuple[Tensor, None]:  # type: ignore[no-untyped-def]
        return context.saved_tensors[0], None


class _Holder(nn.Module):
    def __init__(self, gradient: Tensor) -> None:
        super().__init__()
        self.gradient, self.parameter = gradient, nn.Parameter(torch.zeros_like(gradient))

    def forward(self) -> Tensor:
        return _Handing.apply(self.parameter, self.gradient)  # type: ignore[no-any-return,no-untyped-call]


class Exchange:
    """One bucket through a communication hook, timed from the moment at which all workers have it."""

    def __init__(self, state: object, hook: Hook, gradient: Tensor) -> None:
        self._seconds = 0.0
        self._model = DistributedDataParallel(_Holder(gradient), bucket_cap_mb=1 << 14, gradient_as_bucket_view=True)

        def timed(state: object, bucket: GradBucket) -> Future[Tensor]:
            dist.barrier()
            began = time.perf_counter()
            future = hook(state, bucket)
            future.wait()
            self._seconds = time.perf_counter() - began
            return future

        self._model.register_comm_hook(state, timed)

    def run(self) -> float:
        self._model.zero_grad()
        torch.autograd.backward(self._model())
        return self._seconds

    def result(self) -> Tensor:
        gradient = self._model.module.parameter.grad
        assert isinstance(gradient, Tensor)
        return gradient


def input_gradient(floats: int, device: str = "cpu") -> Tensor:
    """Gradients of different norms that agree in part."""

    def drawn(seed: int) -> Tensor:
        return torch.randn(floats, generator=torch.Generator(device).manual_seed(seed), device=device)

    return (1 + dist.get_rank()) * (drawn(2 + dist.get_rank()) + 0.3 * drawn(1))


def run(floats: int, rounds: int, as_json: bool) -> int:
    torch.set_num_threads(1)  # the workers share the processors
    dist.init_process_group("gloo")
    gradient = input_gradient(floats)
    adacons = Exchange(flockstep.AdaConsState(), flockstep.adacons_hook, gradient)
    mean = Exchange(flockstep.MeanState(watch=False), flockstep.mean_hook, gradient)
    for name, exchange in (("adacons", adacons), ("mean", mean)):
        exchange.run()
        verify(name, name, gradient, exchange.result())
    total = gradient.clone()
    dist.all_reduce(total)
    verify("the all-reduce", "mean", gradient, total / dist.get_world_size())

    total.zero_()  # a sum of sums would overflow; time does not depend on values
    contenders = {"adacons": adacons.run, "all-reduce": lambda: dist.all_reduce(total), "mean": mean.run}
    timings = run_interleaved(contenders, rounds)
    if dist.get_rank() == 0:
        if not as_json:
            size = dist.get_world_size()
            print(f"{size} workers on c10d over Gloo, {floats} floats; medians and quartiles of the slowest worker")
            rows = [
                ["adacons, one pass", milliseconds(timings.seconds("adacons"))],
                ["dist.all_reduce", milliseconds(timings.seconds("all-reduce"))],
                ["mean, one pass", milliseconds(timings.seconds("mean"))],
            ]
            print(table(["operation", "ms"], rows), end="\n\n")
        measure = f"adacons / dist.all_reduce, P = {dist.get_world_size()}"
        print_targets([Target("A3", measure, timings.ratio("adacons", "all-reduce"), BAR)], as_json)
    dist.destroy_process_group()
    return 0
