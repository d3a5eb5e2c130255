"""Who waits for whom, as recursions over step times, without a network: what the figures of docs/scale.md are compared with.

    scripts/waiting_reference.py flock                   the share of ideal throughput that flock's bound allows
    scripts/waiting_reference.py neighbours STEP_TIMES   1,024 ranks in reinforcement learning, under three hypotheses

STEP_TIMES is step-times-rl-1024.txt, which `flockstep study wagma-scale --out DIR` leaves in DIR. It shares nothing with
the project but the definitions, and draws other random numbers.
"""

import sys
from collections.abc import Callable

import numpy as np

Times = np.ndarray  # by step and worker

WORKERS, SIGMA = 1024, 0.53
RL_STEPS, RL_PERIOD, RL_TENSORS = 96, 8, 80
# A step adds an update to the shared model and takes a snapshot of it: four passes each over 8,476,421 floats, 20 GB/s.
PASSES_S = 4 * 4 * 8_476_421 / 20e9


def flock_s(compute: Times, period: int, quorum: int, passes_s: float = 0) -> float:
    """How long a run lasts in which nobody is more than `period` steps ahead and `quorum` arrivals start a round."""
    steps, workers = compute.shape
    ready, round_s = np.zeros(workers), 0.0
    all_finished = np.zeros(steps + 1)
    for step in range(steps):
        begun = np.maximum(ready, all_finished[max(0, step - period + 1)]) + (passes_s if step else 0)
        arrived = begun + compute[step] + passes_s
        round_s = max(round_s, np.partition(arrived, quorum - 1)[quorum - 1])
        ready = np.maximum(arrived, round_s)
        all_finished[step + 1] = ready.max()
    return float(ready.max())


def exchange_s(compute: Times, hops_of: Callable[[int], list[int]], pieces: int) -> float:
    """How long a run lasts in which models are exchanged in `pieces`, each once the one before is there."""
    now = np.zeros(compute.shape[1])
    for step, times in enumerate(compute):
        now = now + times
        for _ in range(pieces):
            now = np.maximum.reduce([now, *(np.roll(now, hop) for hop in hops_of(step))])
    return float(now.max())


def ring(_: int) -> list[int]:
    return [1, -1]


def pushes(neighbours: int) -> Callable[[int], list[int]]:
    hops = int(np.log2(WORKERS))
    return lambda step: [2 ** ((step + k) % hops) for k in range(neighbours)]


def wagma_s(compute: Times) -> float:
    return float(sum(compute[first : first + RL_PERIOD].sum(0).max() for first in range(0, len(compute), RL_PERIOD)))


def share(compute: Times, seconds: float) -> float:
    return float(compute.mean() * len(compute) / seconds)


def show_flock() -> None:
    for period in (8, 16):
        for name, quorum in (("first", 1), ("a quarter", WORKERS // 4), ("majority", WORKERS // 2)):
            free, charged = [], []
            for seed in range(20):
                normal = np.random.default_rng(seed).standard_normal((240, WORKERS))
                compute = np.exp(SIGMA * normal - SIGMA**2 / 2)
                free.append(share(compute, flock_s(compute, period, quorum)))
                charged.append(share(compute, flock_s(compute, period, quorum, PASSES_S)))
            both = [f"{np.mean(each):.3f} +- {np.std(each):.3f}" for each in (free, charged)]
            print(f"tau {period}, {name}: {both[0]} of ideal, {both[1]} with passes over memory")


def drawn(spread: np.ndarray, redrawn: float) -> Times:
    """Each rank keeps its step time, and draws another one with this probability."""
    random = np.random.default_rng(1)
    rows = [random.choice(spread, WORKERS)]
    for _ in range(1, RL_STEPS):
        rows.append(np.where(random.random(WORKERS) < redrawn, random.choice(spread, WORKERS), rows[-1]))
    return np.array(rows)


def show_neighbours(file: str) -> None:
    spread = np.loadtxt(file)
    for name, redrawn, pieces in (
        ("models whole, steps independent", 1.0, 1),
        ("models whole, a step time kept for 2 steps", 1 / 2, 1),
        ("models whole, kept for 8", 1 / 8, 1),
        ("tensor by tensor, steps independent", 1.0, RL_TENSORS),
    ):
        compute = drawn(spread, redrawn)
        seconds = {
            "local": float(compute.max(1).sum()),
            "D-PSGD": exchange_s(compute, ring, pieces),
            "SGP, 2 neighbours": exchange_s(compute, pushes(2), pieces),
            "SGP, 1 neighbour": exchange_s(compute, pushes(1), pieces),
            "WAGMA": wagma_s(compute),
            "AD-PSGD": float(compute.sum(0).max()),
        }
        print(f"{name}: " + ", ".join(f"{each} {share(compute, time):.3f}" for each, time in seconds.items()))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["flock"]:
            show_flock()
        case ["neighbours", file]:
            show_neighbours(file)
        case _:
            sys.exit((__doc__ or "").strip())
