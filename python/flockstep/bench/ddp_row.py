"""One row of `python -m flockstep.bench ddp`, in a process of its own: a contender and plain DDP take turns.

python -m flockstep.bench.ddp_row PLACE MODEL CONTENDER ROUNDS TRANSFER DEVICE       of flockstep.bench.launch.Children
"""

import json
import sys
import time
from dataclasses import asdict

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import cross_entropy

from flockstep.bench.contenders import EXACT, RULES, Transfer, made
from flockstep.bench.harness import run_interleaved
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
        self.model, self.optimizer = made(name, network, optimizer, transfer)
        inputs, classes = workload.batch(torch.Generator().manual_seed(1 + dist.get_rank()), device)
        self.batch = inputs.to(device), classes.to(device)
        self.is_on_gpu = device == "cuda"
        self.steps = _STEPS_ON_GPU if self.is_on_gpu else 1

    def backward(self) -> None:
        self.optimizer.zero_grad()
        inputs, classes = self.batch
        torch.autograd.backward(cross_entropy(self.model(inputs), classes))

    def step(self) -> None:
        """On a GPU several, and the time of one: what a step leaves for the next forward pass to hide is hidden then."""
        for _ in range(self.steps):
            self.backward()
            self.optimizer.step()
        if self.is_on_gpu:
            torch.cuda.synchronize()

    def timed_step(self) -> float:
        began = time.perf_counter()
        self.step()
        return (time.perf_counter() - began) / self.steps

    def step_alone(self) -> float:
        with self.model.no_sync():
            return self.timed_step()

    def gradient(self) -> Tensor:
        return torch.cat([p.grad.flatten() for p in self.model.parameters() if p.grad is not None]).cpu()


def check(name: str, training: Training, transfer: Transfer) -> None:
    with training.model.no_sync():
        training.backward()
    local = training.gradient()
    training.backward()
    if name in RULES and name != "mean" and transfer == "sketch":
        check_same(name, training.gradient())
    elif name in EXACT:
        rule, tolerance = EXACT[name]
        verify(name, rule, local, training.gradient(), tolerance)


def check_same(what: str, gradient: Tensor) -> None:
    """All workers hold the same bits, and they are numbers."""
    sums = torch.stack([gradient.double().sum(), gradient.double().abs().sum()])
    most, least = sums.clone(), sums.clone()
    dist.all_reduce(most, dist.ReduceOp.MAX)
    dist.all_reduce(least, dist.ReduceOp.MIN)
    if not torch.equal(most, least) or not torch.isfinite(sums).all():
        raise ArithmeticError(f"{what} is not the same on all workers")


def main(place: str, model: str, name: str, rounds: int, transfer: Transfer, device: str) -> None:
    torch.set_num_threads(1)  # the workers share the processors
    join_group(place, device)
    baseline, training = (Training(each, WORKLOADS[model], transfer, device) for each in ("plain", name))
    check("plain", baseline, transfer)
    check(name, training, transfer)
    contenders = {"plain": baseline.timed_step, name: training.timed_step, "alone": baseline.step_alone}
    timings = run_interleaved(contenders, rounds)
    if dist.get_rank() == 0:
        figures = {
            "step_s": timings.seconds(name),
            "exposed_s": timings.difference(name, "alone"),
            "over_plain": timings.ratio(name, "plain"),
            "medians_over_plain": timings.ratio_of_medians(name, "plain"),
            "plain_step_s": timings.seconds("plain"),
            "plain_exposed_s": timings.difference("plain", "alone"),
            "alone_s": timings.seconds("alone"),
        }
        print(json.dumps({key: asdict(spread) for key, spread in figures.items()}))
    leave_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5], sys.argv[6])  # type: ignore[arg-type]
