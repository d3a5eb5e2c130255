"""The options of the gradient rules."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Literal

import torch.distributed as dist
from typing_extensions import TypedDict

Magnitude = Literal["own", "mean_norm", "median_norm", "matched"]


class RuleOptions(TypedDict, total=False):
    """Options of every rule.

    Args:
        magnitude: the norm of the result: ``own`` (as the rule gives it), ``mean_norm`` (of the plain mean),
            ``median_norm`` (of the median worker) or ``matched`` (every direction at the median worker's norm, so that
            no single worker sets the step; not for ``adasum``). With ``mean_norm`` and ``matched`` a tuned learning
            rate, clipping and gradient scaling keep their meaning.
        granularity: what gets one coefficient per worker: the ``model``, each of DDP's buckets (``bucket``; their
            memory is cleared when DDP rebuilds them after its first step) or each parameter (``tensor``).
        non_finite: a gradient with NaN or infinity on any rank: ``propagate`` (all ranks get a result that is not
            finite, so that a GradScaler skips the step and backs off everywhere) or ``exclude`` (that rank is
            excluded).
        wire: the format in which gradients are sent: ``float32``, or ``bfloat16`` for half the bytes.
        transfer: ``exact`` (the rule sees this step's gradients), ``sketch`` (coefficients of the step before, decided
            from sketches, over the model's own all-reduce, on any device and backend; not with ``granularity="tensor"``
            or ``wire="bfloat16"``) or ``auto``: exact for ``adacons`` and for those two, else sketch.
        guard: no worker's part of the result is longer than this many times the median worker's part. ``"count"``
            counts what a guard of 3 would clip, and clips nothing; 0 does neither. The default is ``"count"`` for
            ``mean``, ``weighted_mean`` and ``adasum``, and 3 for the other rules: docs/guard.md has the reasons.
        sketch_length: how many numbers a sketch has, a power of two; None for 1,024, for fewer with more than 64
            workers, or for the largest one within a smaller model. Cosines have an error of about 1 /
            sqrt(sketch_length).
        seed: the seed of the sketches, the same on all ranks.
        non_finite_patience: with ``propagate``, a rank that is not finite for this many steps in a row, while most
            ranks are, is left out until it is finite again. 0: never.
        watch: compute the agreement between workers in every step (True), in no step unless the rule has to (False), or
            in every k-th (a number). None: where it costs little, in every step up to 16 workers, else in every 10th.
        eps: added to norms before dividing by them.
        start_step: plain averaging before this step, counted from 0, without a guard.
        process_group: its ranks are the workers; None: the model's own group, or the default group if the state is
            registered with ``register_comm_hook``.
        run_dir: a folder for metrics.jsonl and trace.json, as the command writes them; see :func:`write_report`.
        timeout: the longest single wait for another rank; None: the timeout of the process group, and at most five
            minutes for ranks that have not registered the rule.
    """

    magnitude: Magnitude
    granularity: Literal["model", "bucket", "tensor"]
    non_finite: Literal["propagate", "exclude"]
    wire: Literal["float32", "bfloat16"]
    transfer: Literal["auto", "exact", "sketch"]
    guard: float | Literal["count"]
    sketch_length: int | None
    seed: int
    non_finite_patience: int
    watch: bool | int | None
    eps: float
    start_step: int
    process_group: dist.ProcessGroup | None
    run_dir: str | os.PathLike[str] | None
    timeout: timedelta | None


class MeanOptions(RuleOptions, total=False):
    """Options of plain averaging.

    Args:
        divide_by_initial_world_size: under ``join()``, whether to divide by all ranks or by those that still train;
            None: the value that ``join()`` was given. (A state that was registered with ``register_comm_hook`` does not
            know that value, and None means True, the default of ``join()``.)
    """

    divide_by_initial_world_size: bool | None


class AdaConsOptions(RuleOptions, total=False):
    """Options of AdaCons.

    Args:
        beta: momentum of the sorted coefficients, 0 to 1; 0 turns it off.
        negative: what becomes of negative coefficients: ``keep`` (as published), ``clip`` to 0, or ``shift`` all so
            that the least is 0.
        permutation: ``published`` gives smoothed coefficients to the wrong workers (with 3 workers or more), as the
            published code does, for parity checks.
    """

    beta: float
    negative: Literal["keep", "clip", "shift"]
    permutation: Literal["inverse", "published"]


class DirectionConsensusOptions(RuleOptions, total=False):
    """Options of direction consensus.

    Args:
        beta: momentum of each worker's agreement, 0 to 1; 0 turns it off.
    """

    beta: float


class GeometricMedianOptions(RuleOptions, total=False):
    """Options of the geometric median.

    Args:
        on: the points: ``directions``, or ``raw`` gradients.
    """

    on: Literal["directions", "raw"]


def common_defaults(rule: str) -> RuleOptions:
    """Learning rates and clipping are tuned for averaged gradients, so results are about as long as those.

    Rules that take gradients as long as they are have no guard: clipping would give another result.
    """
    magnitudes: dict[str, Magnitude] = {"mean": "own", "weighted_mean": "own", "adasum": "mean_norm"}
    return {
        "magnitude": magnitudes.get(rule, "matched"),
        "granularity": "model",
        "non_finite": "propagate",
        "wire": "float32",
        "transfer": "auto",
        "guard": "count" if rule in magnitudes else 3.0,
        "sketch_length": None,
        "seed": 1,
        "non_finite_patience": 5,
        "watch": None,
        "eps": 1e-8,
        "start_step": 0,
        "process_group": None,
        "run_dir": None,
        "timeout": None,
    }
