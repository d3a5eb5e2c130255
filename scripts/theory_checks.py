"""What the section on theory of docs/papers.md calls checked: prints each figure beside what is derived there.

    scripts/theory_checks.py

It shares nothing with the project but the definitions.
"""

from math import comb

import numpy as np

rng = np.random.default_rng(1)


def adacons(gradients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Shares and result of the published rule without momentum, a row for each worker."""
    norms = np.linalg.norm(gradients, axis=1)
    agreement = gradients @ gradients.sum(0) / norms
    shares = agreement / agreement.sum()
    return shares, (shares / norms) @ gradients


def cosines() -> float:
    """How far a share is from the worker's part of all cosines with the mean, at most."""
    gradients = rng.normal(size=(5, 20)) + 1
    mean = gradients.mean(0)
    cosine = gradients @ mean / np.linalg.norm(gradients, axis=1) / np.linalg.norm(mean)
    return float(np.abs(adacons(gradients)[0] - cosine / cosine.sum()).max())


def expected_vote(workers: int, guarded: bool) -> float:
    """E R in one dimension: +1 with probability 2/3, -2.5 with 1/3. Guarded: unit vectors count the same where the sum of
    the agreements is not positive."""
    expected = 0.0
    for ups in range(workers + 1):
        probability = comb(workers, ups) * (2 / 3) ** ups * (1 / 3) ** (workers - ups)
        total, signs = ups - 2.5 * (workers - ups), 2 * ups - workers
        expected += probability * (signs / workers if guarded and total * signs <= 0 else workers / signs)
    return expected


def bits_of(step: int, size: int, workers: int) -> list[int]:
    """Over which bits of the rank a round of groups averages; powers of two."""
    per_round, bits = size.bit_length() - 1, workers.bit_length() - 1
    return [(step * per_round + place) % bits for place in range(per_round)]


def averaged(models: np.ndarray, step: int, size: int) -> np.ndarray:
    for bit in bits_of(step, size, len(models)):
        models = (models + models[np.arange(len(models)) ^ (1 << bit)]) / 2
    return models


def pace_of_the_mean(workers: int, size: int, stale_share: float, period: int = 0, steps: int = 4000) -> float:
    """How far the mean of the models moves in a step where every update is one, under the published merge."""
    models, published, began = np.zeros(workers), np.zeros(workers), 0.0
    for step in range(steps):
        updated = models + 1
        if period and (step + 1) % period == 0:
            models = published = np.full(workers, updated.mean())
        else:
            stale = rng.random(workers) < stale_share
            mean = averaged(np.where(stale, published, updated), step, size)
            models, published = np.where(stale, (size * mean + updated) / (size + 1), mean), updated
        if step == steps // 4:
            began = models.mean()
    return float((models.mean() - began) / (steps - 1 - steps // 4))


def distance(workers: int, size: int, steps: int = 4000) -> float:
    """The mean of |x_i - x|^2 after a round, of updates of variance one."""
    models, squares = np.zeros((workers, 50)), []
    for step in range(steps):
        models = averaged(models + rng.normal(size=models.shape), step, size)
        squares.append(((models - models.mean(0)) ** 2).mean())
    return float(np.mean(squares[20:]))


def main() -> None:
    print(f"share of a worker = its part of the cosines: {cosines():.1e} apart")
    print(f"E R, 3 workers: {expected_vote(3, False):.4f}, derived {25 / 27:.4f}")
    print(
        f"E R, guarded: 3 workers {expected_vote(3, True):.4f}, derived {-7 / 27:.4f}; 33 workers {expected_vote(33, True):+.2f}"
    )
    for workers, size in ((16, 4), (64, 8), (64, 2)):
        rounds = range(1, workers.bit_length())
        derived = sum(max(0.0, workers / size**k - 1) / workers for k in rounds)
        print(f"distance, P = {workers}, S = {size}: {distance(workers, size):.3f}, derived {derived:.3f}")
    size = 4
    for stale in (0.78, 1.0):
        derived = 1 / (1 + stale * (1 - stale / (size + 1)))
        free, bound = pace_of_the_mean(16, size, stale), pace_of_the_mean(16, size, stale, period=8)
        print(f"pace of the mean, s = {stale}, m = {size}: {free:.3f}, derived {derived:.3f}; with tau = 8 {bound:.3f}")


if __name__ == "__main__":
    main()
