"""F6: a step of Flock over the mesh engine against one over Gloo, on one machine, nobody late and nobody lost."""

import os

import torch
import torch.distributed as dist
from torch import nn

import flockstep
from flockstep.bench.harness import Target, milliseconds, print_targets, run_interleaved, table

_BAR = 1.0


def _stepping(transport: str, floats: int) -> flockstep.Flock:
    os.environ["FLOCKSTEP_TRANSPORT"] = transport
    model = nn.Module()
    model.numbers = nn.Parameter(torch.zeros(floats))
    model.numbers.grad = torch.ones(floats)
    return flockstep.Flock(torch.optim.SGD(model.parameters(), lr=1e-3), model)


def run(floats: int, rounds: int, as_json: bool) -> int:
    """The exit code."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    optimizers = {transport: _stepping(transport, floats) for transport in ("gloo", "mesh")}
    times = run_interleaved({name: optimizer.step for name, optimizer in optimizers.items()}, rounds)
    for optimizer in optimizers.values():
        optimizer.consolidate()
        numbers = optimizer.param_groups[0]["params"][0].detach()
        if not torch.allclose(numbers, torch.full_like(numbers, -1e-3 * (rounds + 2)), rtol=1e-4):
            raise SystemExit("a model is not what its steps make of it")
        optimizer.close()
    if dist.get_rank() == 0:
        measure = f"a step of Flock over mesh, {floats} floats, P = {dist.get_world_size()} / over Gloo"
        if not as_json:
            rows = [[name, milliseconds(times.seconds(name))] for name in optimizers]
            print(table(["transport", "ms, median and quartiles"], rows))
        print_targets([Target("F6", measure, times.ratio("mesh", "gloo"), _BAR)], as_json)
    dist.destroy_process_group()
    return 0
