"""The gradient rules, as states for communication hooks of DistributedDataParallel; hooks.py registers them."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Literal, TypeVar

import torch.distributed as dist

from flockstep._gradient_state import GradientState

Magnitude = Literal["own", "mean_norm", "median_norm", "matched"]
Granularity = Literal["model", "bucket", "tensor"]
NonFinite = Literal["propagate", "exclude"]
Wire = Literal["float32", "bfloat16"]

_COMMON_ARGUMENTS = """
        magnitude: the norm of the result: ``own`` (as the rule gives it), ``mean_norm`` (of the plain mean),
            ``median_norm`` (of the median worker) or ``matched`` (every direction at the median worker's norm, so that
            no single worker sets the step; not for ``adasum``). With ``mean_norm`` and ``matched`` a tuned learning rate,
            clipping and gradient scaling keep their meaning.
        granularity: what is weighted as one: the ``model``, each of DDP's buckets (``bucket``; what is remembered of
            them starts anew when DDP rebuilds them after its first step) or each parameter (``tensor``).
        non_finite: a gradient with NaN or infinity on any rank: ``propagate`` (all ranks get a result that is not
            finite, so that a GradScaler skips the step and backs off everywhere) or ``exclude`` (that rank is left out).
        wire: the format in which gradients travel: ``float32``, or ``bfloat16`` for half the bytes.
        watch: look at who agrees with whom, also where the rule has no need to.
        eps: added to norms before dividing by them.
        start_step: plain averaging before this step, counted from 0.
        process_group: whose ranks are the workers; the model's own, or the default group where the state is registered
            with ``register_comm_hook``.
        run_dir: a folder for metrics.jsonl and trace.json, as the command writes them; see :func:`flockstep.report`.
        timeout: of every single wait for another rank; the timeout of the process group if None.
"""
_State = TypeVar("_State", bound=type[GradientState])


def _with_common_arguments(state: _State) -> _State:
    state.__doc__ = f"{state.__doc__}{_COMMON_ARGUMENTS}"
    return state


@_with_common_arguments
class MeanState(GradientState):
    """Plain averaging: the same result as DDP's own, up to rounding, with everything that the other rules tell.

    Args:
        divide_by_initial_world_size: under ``join()``, whether to divide by all ranks or by those that still train; None
            does as ``join()`` was told. (Where the state was registered with ``register_comm_hook``, it does not hear
            what ``join()`` was told, and None means True, as there.)"""

    def __init__(
        self,
        *,
        divide_by_initial_world_size: bool | None = None,
        magnitude: Magnitude = "own",
        granularity: Granularity = "model",
        non_finite: NonFinite = "propagate",
        wire: Wire = "float32",
        watch: bool = True,
        eps: float = 1e-8,
        start_step: int = 0,
        process_group: dist.ProcessGroup | None = None,
        run_dir: str | os.PathLike[str] | None = None,
        timeout: timedelta | None = None,
    ) -> None:
        super().__init__(
            "mean",
            dict(
                magnitude=magnitude,
                granularity=granularity,
                non_finite=non_finite,
                wire=wire,
                watch=watch,
                eps=eps,
            ),
            start_step=start_step,
            process_group=process_group,
            run_dir=run_dir,
            timeout=timeout,
        )
        self._divide_by_initial_world_size = divide_by_initial_world_size


@_with_common_arguments
class WeightedMeanState(GradientState):
    """The mean over all samples where batches differ in size: set ``state.weight`` to the number of samples of this rank's
    batch before each backward pass.

    Args:"""

    def __init__(
        self,
        *,
        magnitude: Magnitude = "own",
        granularity: Granularity = "model",
        non_finite: NonFinite = "propagate",
        wire: Wire = "float32",
        watch: bool = True,
        eps: float = 1e-8,
        start_step: int = 0,
        process_group: dist.ProcessGroup | None = None,
        run_dir: str | os.PathLike[str] | None = None,
        timeout: timedelta | None = None,
    ) -> None:
        super().__init__(
            "weighted_mean",
            dict(
                magnitude=magnitude,
                granularity=granularity,
                non_finite=non_finite,
                wire=wire,
                watch=watch,
                eps=eps,
            ),
            start_step=start_step,
            process_group=process_group,
            run_dir=run_dir,
            timeout=timeout,
        )


@_with_common_arguments
class NormalizedMeanState(GradientState):
    """The mean of directions: every gradient is divided by its norm first.

    Args:"""

    def __init__(
        self,
        *,
        magnitude: Magnitude = "matched",
        granularity: Granularity = "model",
        non_finite: NonFinite = "propagate",
        wire: Wire = "float32",
        watch: bool = True,
        eps: float = 1e-8,
        start_step: int = 0,
        process_group: dist.ProcessGroup | None = None,
        run_dir: str | os.PathLike[str] | None = None,
        timeout: timedelta | None = None,
    ) -> None:
        super().__init__(
            "normalized_mean",
            dict(
                magnitude=magnitude,
                granularity=granularity,
                non_finite=non_finite,
                wire=wire,
                watch=watch,
                eps=eps,
            ),
            start_step=start_step,
            process_group=process_group,
            run_dir=run_dir,
            timeout=timeout,
        )


@_with_common_arguments
class AdaConsState(GradientState):
    """AdaCons (arXiv 2411.03742): each worker counts by how far its direction agrees with the sum of all gradients.

    Args:
        beta: momentum of the sorted coefficients, 0 to 1; 0 turns it off.
        negative: what becomes of negative coefficients: ``keep`` (as published), ``clip`` to 0, or ``shift`` all
            so that the least is 0.
        permutation: ``published`` hands smoothed coefficients to the wrong workers from 3 on, as the published code does,
            for parity checks."""

    def __init__(
        self,
        *,
        beta: float = 0.99,
        negative: Literal["keep", "clip", "shift"] = "keep",
        permutation: Literal["inverse", "published"] = "inverse",
        magnitude: Magnitude = "matched",
        granularity: Granularity = "model",
        non_finite: NonFinite = "propagate",
        wire: Wire = "float32",
        watch: bool = True,
        eps: float = 1e-8,
        start_step: int = 0,
        process_group: dist.ProcessGroup | None = None,
        run_dir: str | os.PathLike[str] | None = None,
        timeout: timedelta | None = None,
    ) -> None:
        super().__init__(
            "adacons",
            dict(
                beta=beta,
                negative=negative,
                permutation=permutation,
                magnitude=magnitude,
                granularity=granularity,
                non_finite=non_finite,
                wire=wire,
                watch=watch,
                eps=eps,
            ),
            start_step=start_step,
            process_group=process_group,
            run_dir=run_dir,
            timeout=timeout,
        )


@_with_common_arguments
class DirectionConsensusState(GradientState):
    """Each worker counts by how far its direction agrees with the other directions, whatever its norm.

    Args:
        beta: how long each worker's agreement is remembered, 0 to 1; 0 turns memory off."""

    def __init__(
        self,
        *,
        beta: float = 0.9,
        magnitude: Magnitude = "matched",
        granularity: Granularity = "model",
        non_finite: NonFinite = "propagate",
        wire: Wire = "float32",
        watch: bool = True,
        eps: float = 1e-8,
        start_step: int = 0,
        process_group: dist.ProcessGroup | None = None,
        run_dir: str | os.PathLike[str] | None = None,
        timeout: timedelta | None = None,
    ) -> None:
        super().__init__(
            "direction_consensus",
            dict(
                beta=beta,
                magnitude=magnitude,
                granularity=granularity,
                non_finite=non_finite,
                wire=wire,
                watch=watch,
                eps=eps,
            ),
            start_step=start_step,
            process_group=process_group,
            run_dir=run_dir,
            timeout=timeout,
        )


@_with_common_arguments
class GeometricMedianState(GradientState):
    """The geometric median, which a minority of broken workers cannot move far.

    Args:
        on: of what: ``directions``, or ``raw`` gradients."""

    def __init__(
        self,
        *,
        on: Literal["directions", "raw"] = "directions",
        magnitude: Magnitude = "matched",
        granularity: Granularity = "model",
        non_finite: NonFinite = "propagate",
        wire: Wire = "float32",
        watch: bool = True,
        eps: float = 1e-8,
        start_step: int = 0,
        process_group: dist.ProcessGroup | None = None,
        run_dir: str | os.PathLike[str] | None = None,
        timeout: timedelta | None = None,
    ) -> None:
        super().__init__(
            "geometric_median",
            dict(
                on=on,
                magnitude=magnitude,
                granularity=granularity,
                non_finite=non_finite,
                wire=wire,
                watch=watch,
                eps=eps,
            ),
            start_step=start_step,
            process_group=process_group,
            run_dir=run_dir,
            timeout=timeout,
        )


@_with_common_arguments
class AdasumState(GradientState):
    """Adasum over a tree of pairs: orthogonal gradients add up, parallel ones are averaged.

    Args:"""

    def __init__(
        self,
        *,
        magnitude: Magnitude = "mean_norm",
        granularity: Granularity = "model",
        non_finite: NonFinite = "propagate",
        wire: Wire = "float32",
        watch: bool = True,
        eps: float = 1e-8,
        start_step: int = 0,
        process_group: dist.ProcessGroup | None = None,
        run_dir: str | os.PathLike[str] | None = None,
        timeout: timedelta | None = None,
    ) -> None:
        super().__init__(
            "adasum",
            dict(
                magnitude=magnitude,
                granularity=granularity,
                non_finite=non_finite,
                wire=wire,
                watch=watch,
                eps=eps,
            ),
            start_step=start_step,
            process_group=process_group,
            run_dir=run_dir,
            timeout=timeout,
        )
