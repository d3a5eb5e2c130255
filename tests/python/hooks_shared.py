"""What the cases of hooks_program.py share."""

import torch
from ddp_training import batch, loss_of, made, own_gradient
from torch import nn
from torch.nn.parallel import DistributedDataParallel

SMALL = {"bucket_cap_mb": 0.005}
STATES = {
    "mean": "MeanState",
    "weighted_mean": "WeightedMeanState",
    "normalized_mean": "NormalizedMeanState",
    "adacons": "AdaConsState",
    "direction_consensus": "DirectionConsensusState",
    "geometric_median": "GeometricMedianState",
    "adasum": "AdasumState",
}


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


def wrapped(**options):
    return DistributedDataParallel(made(), **{**SMALL, **options})


def gradient_of(module, step, rank):
    """Any rank's, computed here: all have the same model."""

    def backward(replica):
        x, y = batch(step, rank=rank)
        nn.functional.cross_entropy(replica(x), y).backward()

    return own_gradient(module, backward)


def refusal(action):
    try:
        action()
    except Exception as error:
        return {"type": type(error).__name__, "code": getattr(error, "code", None), "text": str(error)}
    return None


def train(model, steps, *, lr=0.05, scaler=None, first=0):
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for step in range(first, first + steps):
        optimizer.zero_grad()
        loss = loss_of(model, step)
        if scaler is None:
            loss.backward()
            optimizer.step()
        else:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    return torch.cat([p.detach().double().flatten() for p in model.parameters()])
