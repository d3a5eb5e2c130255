"""Gradient rules on DDP and sharded models: the hooks of ``register_comm_hook``, and functions that register rules."""

# No annotations as strings here: register_comm_hook() compares those of a hook with the types themselves.
import inspect
from collections.abc import Callable
from typing import Any, Literal, TypeVar, overload

import torch
from torch.nn.parallel import DistributedDataParallel
from typing_extensions import Unpack

from flockstep._ddp_hook import put_on
from flockstep._errors import BadInputError, BadTypeError
from flockstep._gradient_state import REGISTERED, GradientState
from flockstep._options import ARGUMENTS, shown
from flockstep._rule_options import (
    AdaConsOptions,
    DirectionConsensusOptions,
    GeometricMedianOptions,
    MeanOptions,
    RuleOptions,
)
from flockstep._torch_private import GradBucket, comm_hooks
from flockstep._worker import telling_failure
from flockstep.rules import (
    AdaConsState,
    AdasumState,
    DirectionConsensusState,
    GeometricMedianState,
    MeanState,
    NormalizedMeanState,
    WeightedMeanState,
)

_Function = TypeVar("_Function", bound=Callable[..., GradientState])


def mean_hook(state: MeanState, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """For ``ddp_model.register_comm_hook(flockstep.MeanState(...), flockstep.mean_hook)``."""
    return state._add(bucket)


def weighted_mean_hook(state: WeightedMeanState, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """For ``ddp_model.register_comm_hook(flockstep.WeightedMeanState(...), flockstep.weighted_mean_hook)``."""
    return state._add(bucket)


def normalized_mean_hook(state: NormalizedMeanState, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """For ``ddp_model.register_comm_hook(flockstep.NormalizedMeanState(...), flockstep.normalized_mean_hook)``."""
    return state._add(bucket)


def adacons_hook(state: AdaConsState, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """For ``ddp_model.register_comm_hook(flockstep.AdaConsState(...), flockstep.adacons_hook)``."""
    return state._add(bucket)


def direction_consensus_hook(state: DirectionConsensusState, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """For ``ddp_model.register_comm_hook(flockstep.DirectionConsensusState(...), flockstep.direction_consensus_hook)``."""
    return state._add(bucket)


def geometric_median_hook(state: GeometricMedianState, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """For ``ddp_model.register_comm_hook(flockstep.GeometricMedianState(...), flockstep.geometric_median_hook)``."""
    return state._add(bucket)


def adasum_hook(state: AdasumState, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """For ``ddp_model.register_comm_hook(flockstep.AdasumState(...), flockstep.adasum_hook)``."""
    return state._add(bucket)


_RULES: dict[str, tuple[type[GradientState], Callable[[Any, GradBucket], object]]] = {
    "mean": (MeanState, mean_hook),
    "weighted_mean": (WeightedMeanState, weighted_mean_hook),
    "normalized_mean": (NormalizedMeanState, normalized_mean_hook),
    "adacons": (AdaConsState, adacons_hook),
    "direction_consensus": (DirectionConsensusState, direction_consensus_hook),
    "geometric_median": (GeometricMedianState, geometric_median_hook),
    "adasum": (AdasumState, adasum_hook),
}


@overload
def register(ddp_model: torch.nn.Module, rule: Literal["mean"], **options: Unpack[MeanOptions]) -> MeanState: ...
@overload
def register(
    ddp_model: torch.nn.Module, rule: Literal["weighted_mean"], **options: Unpack[RuleOptions]
) -> WeightedMeanState: ...
@overload
def register(
    ddp_model: torch.nn.Module, rule: Literal["normalized_mean"], **options: Unpack[RuleOptions]
) -> NormalizedMeanState: ...
@overload
def register(
    ddp_model: torch.nn.Module, rule: Literal["adacons"], **options: Unpack[AdaConsOptions]
) -> AdaConsState: ...
@overload
def register(
    ddp_model: torch.nn.Module, rule: Literal["direction_consensus"], **options: Unpack[DirectionConsensusOptions]
) -> DirectionConsensusState: ...
@overload
def register(
    ddp_model: torch.nn.Module, rule: Literal["geometric_median"], **options: Unpack[GeometricMedianOptions]
) -> GeometricMedianState: ...
@overload
def register(ddp_model: torch.nn.Module, rule: Literal["adasum"], **options: Unpack[RuleOptions]) -> AdasumState: ...
@overload
def register(ddp_model: torch.nn.Module, rule: str, **options: Unpack[RuleOptions]) -> GradientState: ...
def register(ddp_model: torch.nn.Module, rule: str, **options: Any) -> GradientState:
    """Has a gradient rule take the place of averaging in the backward passes of a DDP model, or of one of ``fully_shard``.

    Registers the rule as the model's communication hook, or in a sharded model around its reduce-scatters. All ranks of the
    model call this, with the same rule and options, before the first backward pass. A model takes one rule, and keeps it:
    see :meth:`GradientState.set_rule` for another rule later.

    Args:
        ddp_model: a DistributedDataParallel, or a model that ``fully_shard`` was called on (FSDP2, HSDP).
        rule: ``"mean"``, ``"weighted_mean"``, ``"normalized_mean"``, ``"adacons"``, ``"direction_consensus"``,
            ``"geometric_median"`` or ``"adasum"``.
        options: those of the rule's state, such as :class:`AdaConsState` for ``"adacons"``.

    Returns:
        The state, which tells about the workers' gradients.

    Example::

        model = DistributedDataParallel(Net())
        state = flockstep.register(model, "adacons", beta=0.95)

    Raises:
        BadInputError: for an unknown rule, a value that an option does not take, or a model that takes no hook.
        TypeError: for an option that the rule does not have.
        MismatchError: if ranks differ in rule, options or model, or if this raises another error on one of them.
        DeadlineExceededError: if a rank does not come within ``timeout``, by default five minutes.
    """
    with telling_failure(ddp_model, options, REGISTERED):
        return _registered(ddp_model, rule, options)


def _registered(ddp_model: torch.nn.Module, rule: str, options: dict[str, Any]) -> GradientState:
    if isinstance(ddp_model, str) and isinstance(rule, torch.nn.Module):
        raise BadTypeError(f"register() takes the model first, and then the rule: register(model, {ddp_model!r})")
    if not isinstance(rule, str):
        raise BadTypeError(f"a rule is given by its name, such as 'adacons', not as {shown(rule)}")
    if rule not in _RULES:
        raise BadInputError(f"there is no gradient rule {rule!r}: take one of {', '.join(_RULES)}")
    make, hook = _RULES[rule]
    state = make(**options)
    try:
        put_on(ddp_model, state, hook)
    except BaseException:
        state._settle()
        raise
    return state


def register_state(ddp_model: torch.nn.Module, state: GradientState) -> None:
    """The same with a state that a framework was given; nothing where the framework has registered a hook already."""
    if not (isinstance(ddp_model, DistributedDataParallel) and comm_hooks(ddp_model)):
        with telling_failure(ddp_model, {}, REGISTERED):
            put_on(ddp_model, state, _RULES[state._algorithm][1])


def _described(function: _Function) -> _Function:
    """Adds the rule's options to the signature and to the docstring of its short form."""
    state = inspect.signature(function).return_annotation
    model = inspect.Parameter("ddp_model", inspect.Parameter.POSITIONAL_ONLY, annotation=torch.nn.Module)
    options = inspect.signature(state).parameters.values()
    function.__signature__ = inspect.Signature([model, *options], return_annotation=state)  # type: ignore[attr-defined]
    meanings = (state.__doc__ or "").partition(ARGUMENTS)[2]
    what = "a DistributedDataParallel, or a model that ``fully_shard`` was called on"
    function.__doc__ = f"{function.__doc__}\n\n{ARGUMENTS}    ddp_model: {what}.\n{meanings}"
    return function


@_described
def mean(ddp_model: torch.nn.Module, /, **options: Unpack[MeanOptions]) -> MeanState:
    """Averages gradients as DDP does: short for ``register(ddp_model, "mean", ...)``."""
    return register(ddp_model, "mean", **options)


@_described
def weighted_mean(ddp_model: torch.nn.Module, /, **options: Unpack[RuleOptions]) -> WeightedMeanState:
    """Averages gradients over samples, where batches differ: short for ``register(ddp_model, "weighted_mean", ...)``."""
    return register(ddp_model, "weighted_mean", **options)


@_described
def normalized_mean(ddp_model: torch.nn.Module, /, **options: Unpack[RuleOptions]) -> NormalizedMeanState:
    """Averages the directions of gradients: short for ``register(ddp_model, "normalized_mean", ...)``."""
    return register(ddp_model, "normalized_mean", **options)


@_described
def adacons(ddp_model: torch.nn.Module, /, **options: Unpack[AdaConsOptions]) -> AdaConsState:
    """Weighs gradients by their consensus: short for ``register(ddp_model, "adacons", ...)``."""
    return register(ddp_model, "adacons", **options)


@_described
def direction_consensus(
    ddp_model: torch.nn.Module, /, **options: Unpack[DirectionConsensusOptions]
) -> DirectionConsensusState:
    """Weighs gradients by their directions: short for ``register(ddp_model, "direction_consensus", ...)``."""
    return register(ddp_model, "direction_consensus", **options)


@_described
def geometric_median(ddp_model: torch.nn.Module, /, **options: Unpack[GeometricMedianOptions]) -> GeometricMedianState:
    """Takes the geometric median of gradients: short for ``register(ddp_model, "geometric_median", ...)``."""
    return register(ddp_model, "geometric_median", **options)


@_described
def adasum(ddp_model: torch.nn.Module, /, **options: Unpack[RuleOptions]) -> AdasumState:
    """Adds gradients up pair by pair: short for ``register(ddp_model, "adasum", ...)``."""
    return register(ddp_model, "adasum", **options)


def watch(ddp_model: torch.nn.Module, **options: Unpack[MeanOptions]) -> MeanState:
    """Changes nothing in the training, and tells who agrees with whom.

    Gradients are averaged as DDP does, to the last bit, and :attr:`GradientState.agreement`, :attr:`GradientState.norms`
    and :attr:`GradientState.findings` tell about the workers: two of them read the same data (a forgotten
    DistributedSampler), one is broken, dead or exploding. Rank 0 says what is found as Python warnings, too.

    It is :func:`mean` that never leaves a rank out: ``non_finite_patience=0``. A rank that stays non-finite makes all
    ranks skip every step, as with DDP alone.

    Args:
        ddp_model: a DistributedDataParallel, or a model that ``fully_shard`` was called on.
        options: those of :class:`MeanState`; ``non_finite_patience=0`` unless it is given.

    Returns:
        The state, which tells about the workers' gradients.

    Example::

        state = flockstep.watch(model)
        ...  # any number of training steps
        print(state.findings)
    """
    chosen: MeanOptions = {"non_finite_patience": 0}
    chosen.update(options)
    return register(ddp_model, "mean", **chosen)
