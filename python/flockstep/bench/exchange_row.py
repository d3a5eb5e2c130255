"""One contender of `python -m flockstep.bench adacons --device cuda`, in processes of its own.

python -m flockstep.bench.exchange_row PLACE CONTENDER FLOATS ROUNDS BUCKET_MB DEVICE  of flockstep.bench.launch.Children

Rank 0 prints what the slowest worker took in each round, in seconds. DEVICE may be cpu (over Gloo), to try the program.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from flockstep.bench.adacons import input_gradient
from flockstep.bench.harness import run_interleaved
from flockstep.bench.launch import join_group, leave_group
from flockstep.bench.networks import resnet50
from flockstep.bench.oracle import verify

WARM_UP_ROUNDS = 4  # DDP cuts its buckets anew after the first step, and NCCL connects where it is used first


def sizes(floats: int) -> Iterator[int]:
    """Those of ResNet-50's parameters, again and again, until there are so many floats."""
    with torch.device("meta"):
        whole = [parameter.numel() for parameter in resnet50().parameters()]
    while True:
        for size in whole:
            yield min(size, floats)
            floats -= min(size, floats)
            if floats == 0:
                return


class _Handing(torch.autograd.Function):
    """A backward pass that takes next to no time: the gradients of all parameters are there already."""

    @staticmethod
    def forward(context, gradients: list[Tensor], *parameters: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        context.gradients = gradients
        return parameters[0].new_zeros(())

    @staticmethod
    def backward(context, _: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[no-untyped-def]
        return None, *context.gradients


class _Holder(nn.Module):
    def __init__(self, gradient: Tensor) -> None:
        super().__init__()
        self.gradients = list(torch.split(gradient, list(sizes(gradient.numel()))))
        self.parts = nn.ParameterList(nn.Parameter(torch.zeros_like(part)) for part in self.gradients)

    def forward(self) -> Tensor:
        return _Handing.apply(self.gradients, *self.parts)  # type: ignore[no-any-return,no-untyped-call]


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


class Backward:
    """A backward pass of a DDP model: its time is that of DDP, of the hook and of the exchange."""

    def __init__(self, gradient: Tensor, has_hook: bool, bucket_mb: float, device: str) -> None:
        self._device = device
        self._holder = _Holder(gradient)
        self._model = DistributedDataParallel(self._holder, bucket_cap_mb=bucket_mb, gradient_as_bucket_view=True)
        if has_hook:
            import flockstep

            self._state = flockstep.adacons(self._model, transfer="exact")

    def run(self) -> float:
        self._model.zero_grad()
        loss = self._model()
        synchronize(self._device)
        began = time.perf_counter()
        torch.autograd.backward(loss)
        synchronize(self._device)
        return time.perf_counter() - began

    def result(self) -> Tensor:
        return torch.cat([part.grad for part in self._holder.parts if part.grad is not None])


class AllReduce:
    """What every rule is measured against: the sum alone."""

    def __init__(self, gradient: Tensor, device: str) -> None:
        self._total, self._device = gradient.clone(), device

    def run(self) -> float:
        synchronize(self._device)
        began = time.perf_counter()
        dist.all_reduce(self._total)
        synchronize(self._device)
        return time.perf_counter() - began

    def result(self) -> Tensor:
        mean = self._total / dist.get_world_size()
        self._total.zero_()  # a sum of sums would overflow; time does not depend on values
        return mean


class TwoAllReduces:
    """AdaCons as published: an all-reduce of gradients, two dot products on every worker, and one of weighted gradients."""

    def __init__(self, gradient: Tensor, device: str) -> None:
        self._gradient, self._device = gradient, device
        self._buffer = torch.empty_like(gradient)
        self._products = gradient.new_empty(2 * dist.get_world_size())

    def run(self) -> float:
        synchronize(self._device)
        began = time.perf_counter()
        self._buffer.copy_(self._gradient)
        dist.all_reduce(self._buffer)
        own = torch.stack([self._gradient.dot(self._buffer), self._gradient.dot(self._gradient)])
        dist.all_gather_into_tensor(self._products, own)
        torch.mul(self._gradient, self._coefficients()[dist.get_rank()], out=self._buffer)
        dist.all_reduce(self._buffer)
        synchronize(self._device)
        return time.perf_counter() - began

    def _coefficients(self) -> Tensor:
        """Those of the first step, at the magnitude of ours."""
        to_sum, squares = self._products.view(-1, 2).unbind(1)
        norms = squares.sqrt()
        a = to_sum / norms
        return a / a.abs().sum() * norms.median() / norms

    def result(self) -> Tensor:
        return self._buffer


def made(name: str, gradient: Tensor, bucket_mb: float, device: str) -> Backward | AllReduce | TwoAllReduces:
    if name in ("adacons", "ddp"):
        return Backward(gradient, name == "adacons", bucket_mb, device)
    kinds: dict[str, Callable[[Tensor, str], AllReduce | TwoAllReduces]]
    kinds = {"all_reduce": AllReduce, "two_all_reduces": TwoAllReduces}
    return kinds[name](gradient, device)


def main(place: str, name: str, floats: int, rounds: int, bucket_mb: float, device: str) -> None:
    torch.set_num_threads(1)  # the workers share the processors
    join_group(place, device)
    gradient = input_gradient(floats, device)
    contender = made(name, gradient, bucket_mb, device)
    contender.run()
    verify(name, "mean" if name in ("all_reduce", "ddp") else "adacons", gradient, contender.result(), 1e-4)
    timings = run_interleaved({name: contender.run}, rounds, WARM_UP_ROUNDS)
    if dist.get_rank() == 0:
        print(json.dumps(timings.all_seconds(name)))
    leave_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]), sys.argv[6])
