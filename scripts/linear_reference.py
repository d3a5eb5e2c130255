"""The linear-regression demo of the AdaCons paper in plain numpy, from its definition: what `linear` is compared with.

It shares nothing with the project but the definition: other random numbers, whole vectors, no Gram matrix.
"""

import numpy as np

DIMENSION, UPDATES, MICRO_BATCHES, EPS = 1000, 500, 2, 1e-8


def final_loss(workers: int, batch: int, seed: int, beta: float | None, published: bool = False) -> float:
    """The expected loss after the last update; `beta` None averages plainly."""
    random = np.random.default_rng(seed)
    w = random.uniform(-5, 5, DIMENSION).astype(np.float32)
    smoothed = None
    for _ in range(UPDATES):
        gradients = np.zeros((workers, DIMENSION), np.float32)
        for _ in range(MICRO_BATCHES):
            x = random.uniform(0, 1, (workers, batch // workers, DIMENSION)).astype(np.float32)
            predictions = x @ w
            gradients += np.einsum("pb,pbd->pd", predictions, x) / (batch // workers)
        if beta is None:
            step = gradients.mean(0)
        else:
            norms = np.linalg.norm(gradients, axis=1) + EPS
            a = gradients @ gradients.sum(0) / norms / workers
            order = np.argsort(a, kind="stable")
            smoothed = a[order] if smoothed is None else beta * smoothed + (1 - beta) * a[order]
            if published:
                a = smoothed[order]
            else:
                a[order] = smoothed
            a = a / a.sum()
            step = (a / norms) @ gradients
        w = w - (step @ w) / (step @ step) * step
    w = w.astype(np.float64)
    return float(0.5 * (w @ w / 12 + w.sum() ** 2 / 4))


def final_losses(workers: int, batch: int, seeds: int, beta: float | None, published: bool = False) -> list[float]:
    return [final_loss(workers, batch, seed, beta, published) for seed in range(1, seeds + 1)]
