"""What `python -m flockstep.bench averager` measures, in a process of its own: trainings take turns, a block of steps each.

python -m flockstep.bench.averager_row PLACE MODEL ROUNDS STEPS LATE_MS DEVICE       of flockstep.bench.launch.Children

The last rank is the late one. In a block with a late rank it is LATE_MS behind in one step of STEPS. It does not sleep: it trains
a model of its own in that time, which nobody is averaged with. So the GPU has the same load as without a late rank, and the
others gain nothing from its absence. Times are those of the slowest of the other ranks, in all blocks.
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy

import flockstep
from flockstep.bench.device_cost import Memory, measured
from flockstep.bench.harness import Spread, run_interleaved
from flockstep.bench.launch import join_group, leave_group
from flockstep.bench.networks import WORKLOADS, Workload

ALONE, WAITING, OVERLAPPED = "alone", "flock", "overlap"
LATE = ", late"
_REST_S = 0.25  # for rounds of the block before to end
_BATCHES_ON_GPU = 2  # of the workload's own, for a batch of 32


class Training:
    """A network in training, always on the same batch: time does not depend on it."""

    def __init__(self, name: str, workload: Workload, device: str) -> None:
        torch.manual_seed(1)
        self.model = workload.network().to(device)
        self.optimizer: torch.optim.Optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3, momentum=0.9)
        if name != ALONE:
            self.optimizer = flockstep.Flock(self.optimizer, self.model, overlap=name == OVERLAPPED)
        generator = torch.Generator().manual_seed(1 + dist.get_rank())
        batches = [workload.batch(generator, device) for _ in range(_BATCHES_ON_GPU if device == "cuda" else 1)]
        self.inputs, self.classes = (torch.cat(parts).to(device) for parts in zip(*batches, strict=True))
        self.autocast, self.is_on_gpu = workload.autocast, device == "cuda"

    def step(self) -> None:
        self.optimizer.zero_grad()
        with torch.autocast(self.inputs.device.type, self.autocast, enabled=self.autocast is not None):
            loss = cross_entropy(self.model(self.inputs), self.classes)
        torch.autograd.backward(loss)
        self.optimizer.step()

    def synchronize(self) -> None:
        if self.is_on_gpu:
            torch.cuda.synchronize()

    def block(self, steps: int, late: Callable[[], None] | None = None) -> float:
        """Seconds of a step; of the last rank none."""
        time.sleep(_REST_S)
        dist.all_reduce(torch.zeros(1))
        began = time.perf_counter()
        for step in range(steps):
            if late is not None and step == steps // 2:
                late()
            self.step()
        self.synchronize()
        is_counted = dist.get_rank() < dist.get_world_size() - 1
        return (time.perf_counter() - began) / steps if is_counted else 0.0

    def check(self) -> None:
        """After a few steps all have the same numbers, once they are consolidated."""
        self.step()
        if isinstance(self.optimizer, flockstep.Flock):
            self.optimizer.consolidate()
            sums = torch.stack([p.detach().double().abs().sum() for p in self.model.parameters()]).cpu()
            most, least = sums.clone(), sums.clone()
            dist.all_reduce(most, dist.ReduceOp.MAX)
            dist.all_reduce(least, dist.ReduceOp.MIN)
            if not torch.equal(most, least) or not torch.isfinite(sums).all():
                raise ArithmeticError("the consolidated model is not the same on all workers")

    def bytes(self) -> int:
        tensors = [*self.model.parameters(), *self.model.buffers()]
        return sum(tensor.nbytes for tensor in tensors if tensor.is_floating_point())


def falls_behind(beside: Training, late_s: float) -> Callable[[], None]:
    """What the last rank does in place of nothing, while it is late."""

    def fall_behind() -> None:
        if dist.get_rank() < dist.get_world_size() - 1:
            return
        beside.synchronize()
        end = time.perf_counter() + late_s
        while time.perf_counter() < end:
            beside.step()
            beside.synchronize()

    return fall_behind


def made(name: str, workload: Workload, device: str) -> Training:
    training = Training(name, workload, device)
    training.check()
    return training


def made_all(workload: Workload, device: str) -> tuple[dict[str, Training], dict[str, Spread]]:
    """The trainings, and on a GPU figures of their memory."""
    names = (ALONE, WAITING, OVERLAPPED)
    if device == "cpu":
        return {name: made(name, workload, device) for name in names}, {}
    # The first to train on a GPU also makes what all share, such as workspaces, and stays while the others are measured.
    first = made(ALONE, workload, device)
    trainings: dict[str, Training] = {}
    memory: dict[str, Memory] = {}
    for name in names:
        trainings[name], memory[name] = measured(lambda name=name: made(name, workload, device), Training.step)  # type: ignore[misc]
    model_bytes = first.bytes()
    del first
    figures = {"model_bytes": Spread(model_bytes, model_bytes, model_bytes)}
    for name in (WAITING, OVERLAPPED):
        for key, more in {
            "peak": memory[name].peak - memory[ALONE].peak,
            "held": memory[name].allocated - memory[ALONE].allocated,
        }.items():
            models = more / model_bytes
            figures[f"{name}_{key}_models"] = Spread(models, models, models)
    return trainings, figures


def main(place: str, model: str, rounds: int, steps: int, late_ms: int, device: str) -> None:
    torch.set_num_threads(1)  # the workers share the processors
    join_group(place, device)
    trainings, figures = made_all(WORKLOADS[model], device)
    late = falls_behind(trainings[ALONE], 1e-3 * late_ms)
    blocks: dict[str, Callable[[], object]] = {}
    for name, training in trainings.items():
        blocks[name] = lambda training=training: training.block(steps)  # type: ignore[misc]
        if name != ALONE:
            blocks[name + LATE] = lambda training=training: training.block(steps, late)  # type: ignore[misc]
    timings = run_interleaved(blocks, rounds, warm_up_rounds=1)
    for training in trainings.values():
        if isinstance(training.optimizer, flockstep.Flock):
            training.optimizer.consolidate()
            training.optimizer.close()
    if dist.get_rank() == 0:
        figures |= {f"{name}_s": timings.seconds(name) for name in blocks}
        for name in (WAITING, OVERLAPPED):
            figures[f"{name}_over_alone"] = timings.ratio_of_medians(name, ALONE)
            figures[f"{name}_late_over_none"] = timings.ratio_of_medians(name + LATE, name)
        print(json.dumps({key: asdict(spread) for key, spread in figures.items()}))
    leave_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]), sys.argv[6])
