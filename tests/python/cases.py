"""For scripts under torchrun that run many cases: all workers run each, and rank 0 prints what every one returned."""

import json
import traceback
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

PATIENCE = timedelta(seconds=600)  # against hanging: no case waits for its end


def run(*cases):
    """Each gets the rank. Values have to be JSON; a case that raises gives the traceback."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=PATIENCE)
    results = {}
    for case in cases:
        torch.manual_seed(7)
        try:
            mine = {"value": case(dist.get_rank())}
        except Exception:
            traceback.print_exc()  # should others still be in the case, the launch fails next
            mine = {"error": traceback.format_exc()}
        results[case.__name__] = everybodys(mine)
    if dist.get_rank() == 0:
        print("RESULTS", json.dumps(results), flush=True)
    dist.destroy_process_group()


def everybodys(value):
    """What every worker passes, in rank order, on every worker."""
    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def _store():
    return dist.distributed_c10d._get_default_store()


def tell(name):
    """Lets all workers know that something has happened."""
    _store().set(f"told: {name}", "")


def wait_to_hear(*names):
    _store().wait([f"told: {name}" for name in names], PATIENCE)


def is_told(name):
    return _store().check([f"told: {name}"])


class Results(dict):
    """By case: what each worker returned. A test that asks for a case that failed fails."""

    def __getitem__(self, name):
        returned = super().__getitem__(name)
        errors = [each["error"] for each in returned if "error" in each]
        assert not errors, errors[0]
        return [each["value"] for each in returned]


def results_of(process):
    lines = [line for line in process.stdout.splitlines() if line.startswith("RESULTS ")]
    assert process.returncode == 0, process.stderr
    assert lines, process.stdout + process.stderr
    return Results(json.loads(lines[0].split(" ", 1)[1]))


def batch(rank, step, size=8):
    """A worker's batch of a regression, the same whenever it is asked for."""
    generator = torch.Generator().manual_seed(1000 * step + rank)
    inputs = torch.randn(size, 4, generator=generator)
    return inputs, inputs.sum(1, keepdim=True).sin()


def small_model(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))


def normalised(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 1))


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


def backward(model, rank, step):
    inputs, targets = batch(rank, step)
    loss = nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    return loss


def train_step(model, optimizer, rank, step):
    optimizer.zero_grad()
    loss = backward(model, rank, step)
    optimizer.step()
    return loss.item()


def numbers(model):
    """All parameters in one list."""
    return torch.cat([parameter.detach().double().flatten() for parameter in model.parameters()]).tolist()


def gradient_of(model):
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]).tolist()
