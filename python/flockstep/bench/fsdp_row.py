"""What `python -m flockstep.bench fsdp` measures, in a process of its own: FSDP2 alone and under each rule take turns.

python -m flockstep.bench.fsdp_row PLACE MODEL RULES ROUNDS DEVICE       of flockstep.bench.launch.Children
"""

import json
import sys
import time
from dataclasses import asdict

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.functional import cross_entropy

import flockstep
from flockstep.bench.harness import run_interleaved
from flockstep.bench.launch import join_group, leave_group
from flockstep.bench.networks import WORKLOADS, Workload

PLAIN = "plain"
_STEPS_ON_GPU = 5  # between two synchronisations
_TOLERANCE = 1e-5  # of `mean`: another order of sums
_NEAR = 0.9  # the least cosine, and the least ratio of lengths, in the first step of other rules


def sharded(workload: Workload, device: str) -> nn.Module:
    """Each block by itself, then the rest. Where the workload computes in 16 bits, gradients are reduced in 32."""
    torch.manual_seed(1)
    network = workload.network().to(device)  # before the mesh, which takes the GPU that is in use then
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    policy = MixedPrecisionPolicy()
    if workload.autocast is not None:
        policy = MixedPrecisionPolicy(param_dtype=workload.autocast, reduce_dtype=torch.float32)
    for module in network.modules():
        if isinstance(module, workload.block):
            fully_shard(module, mesh=mesh, mp_policy=policy)
    fully_shard(network, mesh=mesh, mp_policy=policy)
    return network


class Training:
    """A sharded network in training, always on the same batch: time does not depend on it."""

    def __init__(self, rule: str, workload: Workload, device: str) -> None:
        self.model = sharded(workload, device)
        if rule != PLAIN:
            flockstep.register(self.model, rule)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3, momentum=0.9)
        inputs, classes = workload.batch(torch.Generator().manual_seed(1 + dist.get_rank()), device)
        self.inputs, self.classes = inputs.to(device), classes.to(device)
        self.steps = _STEPS_ON_GPU if device == "cuda" else 1

    def backward(self) -> None:
        self.optimizer.zero_grad()
        torch.autograd.backward(cross_entropy(self.model(self.inputs), self.classes))

    def timed_step(self) -> float:
        """On a GPU several, and the time of one: what a step leaves for the next forward pass to hide is hidden then."""
        began = time.perf_counter()
        for _ in range(self.steps):
            self.backward()
            self.optimizer.step()
        if self.inputs.is_cuda:
            torch.cuda.synchronize()
        return (time.perf_counter() - began) / self.steps

    def gradient(self) -> Tensor:
        """This rank's shard of all of it, in double."""
        self.backward()
        gradients = [parameter.grad for parameter in self.model.parameters() if parameter.grad is not None]
        return torch.cat([gradient.to_local().flatten().double().cpu() for gradient in gradients])  # type: ignore[attr-defined]


def _dot(x: Tensor, y: Tensor) -> float:
    total = x.dot(y).view(1)
    dist.all_reduce(total)
    return total.item()


def check(rule: str, result: Tensor, mean: Tensor) -> None:
    """The first step of `mean` is that of FSDP2, and of the others near it: all workers count the same there."""
    length, of_mean = _dot(result, result) ** 0.5, _dot(mean, mean) ** 0.5
    apart = _dot(result - mean, result - mean) ** 0.5 / of_mean
    cosine, ratio = _dot(result, mean) / (length * of_mean), length / of_mean
    is_right = apart < _TOLERANCE if rule == "mean" else cosine > _NEAR and _NEAR < ratio < 1 / _NEAR
    if not is_right:
        raise ArithmeticError(f"the first gradient of {rule} is {apart:.2g} of its length from that of FSDP2")


def main(place: str, model: str, rules: list[str], rounds: int, device: str) -> None:
    torch.set_num_threads(1)  # the workers share the processors
    join_group(place, device)
    trainings = {name: Training(name, WORKLOADS[model], device) for name in (PLAIN, *rules)}
    mean = trainings[PLAIN].gradient()
    for rule in rules:
        check(rule, trainings[rule].gradient(), mean)
    timings = run_interleaved({name: training.timed_step for name, training in trainings.items()}, rounds)
    if dist.get_rank() == 0:
        figures = {f"{name}_s": timings.seconds(name) for name in trainings}
        for rule in rules:
            figures[f"{rule}_over_plain"] = timings.ratio(rule, PLAIN)
            figures[f"{rule}_medians_over_plain"] = timings.ratio_of_medians(rule, PLAIN)
        print(json.dumps({key: asdict(spread) for key, spread in figures.items()}))
    leave_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3].split(","), int(sys.argv[4]), sys.argv[5])
