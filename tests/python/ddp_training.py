"""What the programs under torchrun share that look at gradients of DDP models: models, batches, and what every rank's
gradient was."""

import copy

import torch
import torch.distributed as dist
from torch import nn


class Net(nn.Module):
    """A few layers; the extra one only where it is asked for."""

    def __init__(self, kind=torch.float32):
        super().__init__()
        self.first = nn.Linear(12, 40)
        self.middle = nn.Linear(40, 40).to(kind)
        self.extra = nn.Linear(40, 40)
        self.last = nn.Linear(40, 3)

    def forward(self, x, uses_extra=True):
        x = torch.relu(self.first(x))
        x = torch.relu(self.middle(x.to(self.middle.weight.dtype)).to(x.dtype))
        if uses_extra:
            x = x + torch.tanh(self.extra(x))
        return self.last(x)


def made(seed=0, **options):
    torch.manual_seed(seed)
    return Net(**options)


def batch(step, size=8, rank=None):
    generator = torch.Generator().manual_seed(100 * step + (dist.get_rank() if rank is None else rank))
    x = torch.randn(size, 12, generator=generator)
    return x, x[:, :3].argmax(1)


def loss_of(model, step, **options):
    x, y = batch(step)
    return nn.functional.cross_entropy(model(x, **options).float(), y)


def flat(parameters):
    """The gradients, one behind the other in double precision; zeros where there is none."""
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters if p.requires_grad]
    return torch.cat([gradient.detach().double().flatten() for gradient in gradients])


def own_gradient(module, backward):
    """What this rank's gradient is without any exchange: on a copy of the module."""
    replica = copy.deepcopy(module)
    for parameter in replica.parameters():
        parameter.grad = None
    backward(replica)
    return flat(replica.parameters())


def of_all(gradient, group=None):
    """Everybody's, in the order of the ranks."""
    everybody = [torch.zeros_like(gradient) for _ in range(dist.get_world_size(group))]
    dist.all_gather(everybody, gradient, group=group)
    return everybody


def distance(x, y):
    return float((x - y).norm() / y.norm())
