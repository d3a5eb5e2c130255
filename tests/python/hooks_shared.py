"""What the programs share that look at DDP models under gradient rules, and the cases of hooks_program.py."""

import inspect
from contextlib import closing, contextmanager

import flockstep
import torch
import torch.distributed as dist
from cases import Cases
from ddp_training import batch, distance, flat, loss_of, made, own_gradient
from torch import nn
from torch.nn.parallel import DistributedDataParallel

CASES = Cases(3)  # of hooks_program.py
ALL = (0, 1, 2)
SMALL = {"bucket_cap_mb": 0.005}  # several buckets, once DDP has rebuilt them


def state_of(rule, **options):
    """As frameworks make it that register the rule themselves."""
    return inspect.signature(getattr(flockstep, rule)).return_annotation(**options)


class Breaks(torch.autograd.Function):
    """A layer whose backward raises where it is told to."""

    @staticmethod
    def forward(context, x, breaks):
        context.breaks = breaks
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        if context.breaks:
            raise ValueError("something in backward")
        return gradient, None


def breaking(layer, breaks):
    """A block within which backward raises where it comes to the layer's output."""
    return layer.register_forward_hook(lambda module, inputs, output: Breaks.apply(output, breaks))


def wrapped(**options):
    return DistributedDataParallel(made(), **{**SMALL, **options})


@contextmanager
def under(rule, model=None, **options):
    """A DDP model, or another one, under a rule, and the state of the rule. Closes the state in the end."""
    model = wrapped() if model is None else model
    with closing(flockstep.register(model, rule, **options)) as state:
        yield model, state


def weights_for(rule, state, group=None):
    """Gives each rank another weight if the rule takes weights; those of all ranks."""
    if rule != "weighted_mean":
        return None
    state.weight = dist.get_rank() + 1.0
    return [rank + 1.0 for rank in dist.get_process_group_ranks(group or dist.group.WORLD)]


def gradient_of(module, step, rank):
    """Any rank's, computed here: all have the same model."""

    def backward(replica):
        x, y = batch(step, rank=rank)
        nn.functional.cross_entropy(replica(x), y).backward()

    return own_gradient(module, backward)


def backward(model, step):
    model.zero_grad()
    loss_of(model, step).backward()


def distance_of_step(model, step, expected, ranks=ALL):
    """One backward pass, and how far its gradient is from what comes of those of these ranks."""
    gradients = [gradient_of(model.module, step, rank) for rank in ranks]
    backward(model, step)
    return distance(flat(model.parameters()), expected(gradients, [1.0] * len(gradients)))


def raised(action):
    try:
        action()
    except Exception as error:
        return error
    return None


def check_refusals(*rows):
    """Of wrong calls: a word of the one sentence that each gets, the call, and the class of the error unless it is BadInputError."""
    for words, action, *kind in rows:
        error = raised(action)
        assert type(error).__name__ == (kind or ["BadInputError"])[0], (words, error)
        assert error.code == "bad_input", words
        assert words in str(error), (words, error)
        assert "--" not in str(error), words
        assert "\n" not in str(error), words


def values_of(model):
    return torch.cat([p.detach().double().flatten() for p in model.parameters()])


def train(model, steps, *, first=0):
    """Returns all parameters."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(first, first + steps):
        backward(model, step)
        optimizer.step()
    return values_of(model)
