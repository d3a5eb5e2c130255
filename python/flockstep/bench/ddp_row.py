"""One row of `python -m flockstep.bench ddp`, in a process of its own: a contender and plain DDP take turns.

python -m flockstep.bench.ddp_row PLACE MODEL CONTENDER ROUNDS TRANSFER DEVICE       of flockstep.bench.launch.Children
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import cross_entropy

from flockstep.bench import contenders
from flockstep.bench.contenders import EXACT, RULES, Transfer
from flockstep.bench.device_cost import figures, measured
from flockstep.bench.harness import Spread, run_interleaved
from flockstep.bench.launch import join_group, leave_group
from flockstep.bench.networks import WORKLOADS, Workload
from flockstep.bench.oracle import verify

_STEPS_ON_GPU = 5  # between two synchronisations


class Training:
    """A network in training, always on the same batch: time does not depend on it."""

    def __init__(self, name: str, workload: Workload, transfer: Transfer, device: str) -> None:
        torch.manual_seed(1)
        network = workload.network().to(device)
        optimizer = torch.optim.SGD(network.parameters(), lr=1e-3, momentum=0.9)
        self.model, self.optimizer = contenders.made(name, network, optimizer, transfer)
        inputs, classes = workload.batch(torch.Generator().manual_seed(1 + dist.get_rank()), device)
        self.batch = inputs.to(device), classes.to(device)
        self.autocast, self.is_on_gpu = workload.autocast, device == "cuda"
        self.steps = _STEPS_ON_GPU if self.is_on_gpu else 1

    def forward(self) -> Tensor:
        self.optimizer.zero_grad()
        inputs, classes = self.batch
        with torch.autocast(inputs.device.type, self.autocast, enabled=self.autocast is not None):
            return cross_entropy(self.model(inputs), classes)

    def one_step(self) -> None:
        torch.autograd.backward(self.forward())
        self.optimizer.step()

    def step(self) -> None:
        """On a GPU several, and the time of one: what a step leaves for the next forward pass to hide is hidden then."""
        for _ in range(self.steps):
            self.one_step()
        self.synchronize()

    def synchronize(self) -> None:
        if self.is_on_gpu:
            torch.cuda.synchronize()

    def host_time(self) -> float:
        """Of backward() alone, from an idle GPU until it returns: the GPU may still be at work then."""
        loss = self.forward()
        self.synchronize()
        began = time.perf_counter()
        torch.autograd.backward(loss)
        seconds = time.perf_counter() - began
        self.optimizer.step()
        self.synchronize()
        return seconds

    def timed_step(self) -> float:
        began = time.perf_counter()
        self.step()
        return (time.perf_counter() - began) / self.steps

    def step_alone(self) -> float:
        with self.model.no_sync():
            return self.timed_step()

    def gradients(self) -> tuple[Tensor, Tensor]:
        """One backward pass: this worker's own gradient, and what came of the exchange.

        Both of the same pass, since on a GPU a second one may round otherwise.
        """
        own: dict[int, Tensor] = {}
        parameters = [parameter for parameter in self.model.parameters() if parameter.requires_grad]

        def keep(place: int) -> Callable[[Tensor], None]:
            return lambda gradient: own.update({place: gradient.clone()})

        handles = [
            parameter.register_hook(keep(place))  # type: ignore[no-untyped-call]
            for place, parameter in enumerate(parameters)
        ]
        torch.autograd.backward(self.forward())
        for handle in handles:
            handle.remove()
        results = [parameter.grad for parameter in parameters if parameter.grad is not None]
        return torch.cat([own[place].flatten() for place in range(len(parameters))]), torch.cat(
            [result.flatten() for result in results]
        )


def check(name: str, training: Training, transfer: Transfer) -> None:
    local, result = training.gradients()
    if name in RULES and name != "mean" and transfer == "sketch":
        check_same(name, result)
    elif name in EXACT:
        rule, tolerance = EXACT[name]
        verify(name, rule, local, result, tolerance)


def check_same(what: str, gradient: Tensor) -> None:
    """All workers hold the same bits, and they are numbers."""
    sums = torch.stack([gradient.double().sum(), gradient.double().abs().sum()])
    most, least = sums.clone(), sums.clone()
    dist.all_reduce(most, dist.ReduceOp.MAX)
    dist.all_reduce(least, dist.ReduceOp.MIN)
    if not torch.equal(most, least) or not torch.isfinite(sums).all():
        raise ArithmeticError(f"{what} is not the same on all workers")


def made(name: str, workload: Workload, transfer: Transfer, device: str) -> Training:
    """Checked in its first step."""
    training = Training(name, workload, transfer, device)
    check(name, training, transfer)
    return training


def made_on_gpu(name: str, workload: Workload, transfer: Transfer) -> tuple[Training, Training, dict[str, Spread]]:
    """Plain DDP, the contender, and figures of their memory."""
    # The first to train on a GPU also makes what all share: workspaces, the group's communicator. It stays while the
    # others are measured: what it frees would count for them.
    first = Training("plain", workload, transfer, "cuda")
    first.one_step()
    both = []
    for each in ("plain", name):
        both.append(measured(lambda each=each: made(each, workload, transfer, "cuda"), Training.one_step))  # type: ignore[misc]
    (baseline, plain), (training, ours) = both
    del first
    gradient_bytes = sum(parameter.numel() * parameter.element_size() for parameter in baseline.model.parameters())
    return baseline, training, figures(plain, ours, gradient_bytes)


def main(place: str, model: str, name: str, rounds: int, transfer: Transfer, device: str) -> None:
    torch.set_num_threads(1)  # the workers share the processors
    join_group(place, device)
    told: dict[str, Spread] = {}
    workload = WORKLOADS[model]
    if device == "cuda":
        baseline, training, told = made_on_gpu(name, workload, transfer)
    else:
        baseline, training = (made(each, workload, transfer, device) for each in ("plain", name))
    steps = {"plain": baseline.timed_step, name: training.timed_step, "alone": baseline.step_alone}
    timings = run_interleaved(steps, rounds)
    if device == "cuda":
        host = run_interleaved({"plain": baseline.host_time, name: training.host_time}, rounds)
        told |= {
            "host_s": host.seconds(name),
            "plain_host_s": host.seconds("plain"),
            "host_longer_s": host.difference(name, "plain"),
        }
    if dist.get_rank() == 0:
        told |= {
            "step_s": timings.seconds(name),
            "exposed_s": timings.difference(name, "alone"),
            "over_plain": timings.ratio(name, "plain"),
            "medians_over_plain": timings.ratio_of_medians(name, "plain"),
            "plain_step_s": timings.seconds("plain"),
            "plain_exposed_s": timings.difference("plain", "alone"),
            "alone_s": timings.seconds("alone"),
        }
        print(json.dumps({key: asdict(spread) for key, spread in told.items()}))
    leave_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5], sys.argv[6])  # type: ignore[arg-type]
