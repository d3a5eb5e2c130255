"""Nothing is timed before its result has been compared with plain sums in double over everybody's gradients."""

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor

STRETCH = 1 << 20  # so many floats at a time, since all gradients together may not fit
EPS = 1e-8


def _stretches(local: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """The gradients of all workers (workers x stretch) in double, piece by piece."""
    for begin in range(0, local.numel(), STRETCH):
        place = slice(begin, min(begin + STRETCH, local.numel()))
        rows = [torch.empty_like(local[place]) for _ in range(dist.get_world_size())]
        dist.all_gather(rows, local[place].contiguous())
        yield place, torch.stack(rows).double()


def mean_coefficients(gram: Tensor) -> Tensor:
    return gram.new_full((len(gram),), 1 / len(gram))


def adacons_coefficients(gram: Tensor) -> Tensor:
    """Of the first step, every direction at the median worker's norm."""
    norms = gram.diagonal().sqrt() + EPS
    a = gram.sum(1) / norms
    return a / a.abs().sum() * norms.median() / norms


COEFFICIENTS = {"mean": mean_coefficients, "adacons": adacons_coefficients}


def verify(what: str, rule: str, local: Tensor, result: Tensor, tolerance: float = 1e-5) -> None:
    """`result` has to be what `rule` makes of all workers' `local`, to rounding. To be called by all workers."""
    gram = torch.zeros(dist.get_world_size(), dist.get_world_size(), dtype=torch.float64, device=local.device)
    for _, rows in _stretches(local):
        gram += rows @ rows.T
    factors = COEFFICIENTS[rule](gram)
    typical = ((factors @ gram @ factors) / local.numel()).sqrt()
    wrong = 0
    for place, rows in _stretches(local):
        scale = factors.abs() @ rows.abs() + typical
        wrong += int(((result[place].double() - factors @ rows).abs() > tolerance * scale).sum())
    if wrong:
        raise ArithmeticError(f"{what} is wrong in {wrong} of {local.numel()} numbers")
