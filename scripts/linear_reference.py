"""The linear-regression demo of the AdaCons paper in plain numpy, from its definition: what `linear` is compared with.

It shares nothing with the project but the definition: other random numbers, whole vectors, no Gram matrix. Called by
itself it prints its rows of the table in docs/adacons.md.
"""

import itertools

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


def main() -> None:
    for name, beta, published in (("plain averaging", None, False), ("AdaCons as published", 0.99, True)):
        cells = [f"*reference:* {name}"]
        for workers, batch in itertools.product((8, 32), (128, 2048)):
            losses = final_losses(workers, batch, 5, beta, published)
            cells.append(f"{np.median(losses):.2g} ({min(losses):.1g} to {max(losses):.1g})")
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
