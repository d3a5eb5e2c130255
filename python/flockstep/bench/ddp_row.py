"""One row of `python -m flockstep.bench ddp`, in a process of its own: a contender and plain DDP take turns.

python -m flockstep.bench.ddp_row PLACE MODEL CONTENDER ROUNDS       of flockstep.bench.launch.Children
"""

import json
import sys
from dataclasses import asdict

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import cross_entropy

from flockstep.bench.contenders import CONTENDERS, EXACT, plain
from flockstep.bench.harness import run_interleaved
from flockstep.bench.launch import join_group, leave_group
from flockstep.bench.networks import WORKLOADS, Workload
from flockstep.bench.oracle import verify


class Training:
    """A network in training, always on the same batch: time does not depend on it."""

    def __init__(self, name: str, workload: Workload) -> None:
        torch.manual_seed(1)
        network = workload.network()
        optimizer = torch.optim.SGD(network.parameters(), lr=1e-3, momentum=0.9)
        self.model, self.optimizer = (plain if name == "plain" else CONTENDERS[name])(network, optimizer)
        self.batch = workload.batch(torch.Generator().manual_seed(1 + dist.get_rank()))

    def backward(self) -> None:
        self.optimizer.zero_grad()
        inputs, classes = self.batch
        torch.autograd.backward(cross_entropy(self.model(inputs), classes))

    def step(self) -> None:
        self.backward()
        self.optimizer.step()

    def step_alone(self) -> None:
        with self.model.no_sync():
            self.step()

    def gradient(self) -> Tensor:
        return torch.cat([p.grad.flatten() for p in self.model.parameters() if p.grad is not None])


def check(name: str, training: Training) -> None:
    with training.model.no_sync():
        training.backward()
    local = training.gradient()
    training.backward()
    if name in EXACT:
        rule, tolerance = EXACT[name]
        verify(name, rule, local, training.gradient(), tolerance)


def main(place: str, model: str, name: str, rounds: int) -> None:
    torch.set_num_threads(1)  # the workers share the processors
    join_group(place)
    baseline, training = (Training(each, WORKLOADS[model]) for each in ("plain", name))
    check("plain", baseline)
    check(name, training)
    timings = run_interleaved({"plain": baseline.step, name: training.step, "alone": baseline.step_alone}, rounds)
    if dist.get_rank() == 0:
        figures = {
            "step_s": timings.seconds(name),
            "exposed_s": timings.difference(name, "alone"),
            "over_plain": timings.ratio(name, "plain"),
            "plain_step_s": timings.seconds("plain"),
            "plain_exposed_s": timings.difference("plain", "alone"),
            "alone_s": timings.seconds("alone"),
        }
        print(json.dumps({key: asdict(spread) for key, spread in figures.items()}))
    leave_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
