"""The gradient rules with all gradients at hand, in double precision: vectors in, the result out. Nothing of flockstep."""

import torch

EPS = 1e-8


def mean(gradients, weights=None):
    return torch.stack(gradients).mean(0)


def weighted_mean(gradients, weights):
    return sum(weight * gradient for weight, gradient in zip(weights, gradients, strict=True)) / sum(weights)


def normalized_mean(gradients, weights=None):
    return torch.stack([gradient / (gradient.norm() + EPS) for gradient in gradients]).mean(0)


class AdaCons:
    """Section by section of arXiv 2411.03742, with momentum on the sorted coefficients."""

    def __init__(self, beta=0.99):
        self.beta, self.sorted = beta, None
        self.shares = 1.0  # of the last step, without their signs

    def __call__(self, gradients, weights=None):
        total = torch.stack(gradients).sum(0)
        norms = torch.stack([gradient.norm() for gradient in gradients]) + EPS
        a = torch.stack([gradient @ total for gradient in gradients]) / norms / len(gradients)
        v, order = torch.sort(a, stable=True)
        if self.sorted is not None and len(self.sorted) != len(v):
            self.sorted = self.resampled(len(v))
        self.sorted = v if self.sorted is None else self.beta * self.sorted + (1 - self.beta) * v
        a = torch.empty_like(a)
        a[order] = self.sorted
        a = a / a.sum()
        self.shares = a.abs().sum()
        return sum(a[i] * gradient / norms[i] for i, gradient in enumerate(gradients))

    def resampled(self, size):
        last = len(self.sorted) - 1
        places = torch.linspace(0, last, size, dtype=torch.float64) if size > 1 else torch.tensor([last / 2]).double()
        below = places.floor().long().clamp(max=max(last - 1, 0))
        part = places - below
        return (1 - part) * self.sorted[below] + part * self.sorted[(below + 1).clamp(max=last)]


class DirectionConsensus:
    def __init__(self, beta=0.9):
        self.beta, self.memory = beta, None

    def __call__(self, gradients, weights=None):
        directions = torch.stack([gradient / (gradient.norm() + EPS) for gradient in gradients])
        r = (directions @ directions.T).mean(1)
        self.memory = r if self.memory is None else self.beta * self.memory + (1 - self.beta) * r
        a = self.memory.clamp(min=0)
        return (a / a.sum()) @ directions


def geometric_median(gradients, weights=None):
    points = torch.stack([gradient / (gradient.norm() + EPS) for gradient in gradients])
    nu = 1e-3 * points.square().sum(1).median().sqrt()
    center = points.mean(0)
    for _ in range(10):
        c = 1 / (points - center).norm(dim=1).clamp(min=nu)
        center = (c / c.sum()) @ points
    return center


def adasum(gradients, weights=None):
    """Over a tree whose parts stand for several workers each."""
    level = [(gradient, 1) for gradient in gradients]
    while len(level) > 1:
        pairs = [level[k : k + 2] for k in range(0, len(level), 2)]
        level = [pair[0] if len(pair) == 1 else adasum_pair(*pair) for pair in pairs]
    return level[0][0]


def adasum_pair(left, right):
    (x, p), (y, q) = left, right
    merged = (1 - p / (p + q) * (x @ y) / (x @ x)) * x + (1 - q / (p + q) * (x @ y) / (y @ y)) * y
    return merged, p + q


RULES = {
    "mean": lambda: mean,
    "weighted_mean": lambda: weighted_mean,
    "normalized_mean": lambda: normalized_mean,
    "adacons": AdaCons,
    "direction_consensus": DirectionConsensus,
    "geometric_median": lambda: geometric_median,
    "adasum": lambda: adasum,
}


class Expected:
    """What a rule of the package is to give, at its defaults: rules on directions at the median worker's norm, adasum at
    that of the mean."""

    def __init__(self, name, **options):
        self.rule = AdaCons(**options) if name == "adacons" else RULES[name]()
        self.name = name

    def __call__(self, gradients, weights=None):
        result = self.rule(gradients, weights)
        if self.name in ("mean", "weighted_mean"):
            return result
        if self.name == "adasum":
            return result * (mean(gradients).norm() / result.norm())
        norms = torch.stack([gradient.norm() for gradient in gradients])
        return result * norms[norms > 0].median() / getattr(self.rule, "shares", 1.0)  # of two, the lower one
