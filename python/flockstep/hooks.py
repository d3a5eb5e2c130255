"""Gradient rules on a DDP model: the hooks that ``register_comm_hook`` takes, and functions that register them."""

# No annotations as strings here: register_comm_hook() compares those of a hook with the types themselves.
import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar

import torch
from torch._C._distributed_c10d import GradBucket
from torch.nn.parallel import DistributedDataParallel

from flockstep._backward import BackwardPasses
from flockstep._ddp_switch import is_off
from flockstep._errors import Error
from flockstep._gradient_state import GradientState
from flockstep.rules import (
    AdaConsState,
    AdasumState,
    DirectionConsensusState,
    GeometricMedianState,
    MeanState,
    NormalizedMeanState,
    WeightedMeanState,
)

_Options = ParamSpec("_Options")
_State = TypeVar("_State", bound=GradientState)


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


class _Guard:
    """A forward pre-hook on the DDP model, which goes with it into copies and files, while what it guards does not."""

    def __init__(self, state: GradientState, reducer: object, passes: BackwardPasses) -> None:
        self._state: GradientState | None = state
        self._reducer: object = reducer
        self._passes = passes

    def __getstate__(self) -> dict[str, object]:
        return {"_state": None, "_reducer": None, "_passes": None}

    def is_of(self, model: DistributedDataParallel) -> bool:
        return self._reducer is model.reducer

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def __call__(self, model: DistributedDataParallel, inputs: object) -> None:
        if not (torch.is_grad_enabled() and model.require_backward_grad_sync):
            return  # no synchronised backward pass follows, as in an evaluation
        if self._state is None or not self.is_of(model):
            raise Error(
                "this DDP model is a copy or was loaded, and has lost its communication hook on the way: register the "
                "rule on it again, as with flockstep.adacons(model), or use it under torch.no_grad()",
                code="bad_input",
            )
        is_inside_backward = torch._C._current_graph_task_id() != -1
        if not is_inside_backward and self._state._abandon(model, self._passes.broke_off()):
            # Else the reducer refuses to go on. On all ranks alike: their buckets are cut anew after it.
            model.reducer._reset_state()


def _refuse(sentence: str) -> NoReturn:
    raise Error(sentence, code="bad_input")


def _ddp_of(model: torch.nn.Module) -> DistributedDataParallel:
    """The model, if a hook can be registered on it; else one sentence."""
    inner = getattr(model, "_orig_mod", None)  # of torch.compile's
    if isinstance(inner, DistributedDataParallel):
        model = inner
    tensors = sys.modules.get("torch.distributed.tensor")  # slow to import; without it there are no DTensors
    if tensors is not None and any(isinstance(parameter, tensors.DTensor) for parameter in model.parameters()):
        _refuse(
            "parameters of this model are DTensors (FSDP2, tensor parallelism): gradient rules need whole gradients on "
            "every rank, as DistributedDataParallel has them"
        )
    if not isinstance(model, DistributedDataParallel):
        _refuse(f"{type(model).__name__} is not a DistributedDataParallel: wrap the model in one first")
    if model.mixed_precision is not None:
        _refuse(
            "DDP's mixed_precision registers a communication hook of its own: use torch.autocast instead, with which "
            "gradient rules work"
        )
    trained = [(name, parameter) for name, parameter in model.module.named_parameters() if parameter.requires_grad]
    if not trained:
        _refuse("no parameter of this model requires a gradient, so there is nothing to exchange")
    devices = sorted({str(parameter.device) for _, parameter in trained})
    if len(devices) > 1:
        _refuse(f"parameters are on several devices ({', '.join(devices)}): keep the model on the CPU")
    if devices != ["cpu"]:
        _refuse(f"parameters are on {devices[0]}, and only gradients in main memory can be exchanged so far")
    for name, parameter in trained:
        if parameter.dtype not in (torch.float32, torch.bfloat16, torch.float16):
            _refuse(
                f"parameter {name} is {str(parameter.dtype).removeprefix('torch.')}, and only gradients in float32, "
                "bfloat16 or float16 can be exchanged without loss"
            )
    for name, module in model.module.named_modules():
        if isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag)) and module.sparse:
            _refuse(f"{name or type(module).__name__} has sparse gradients, which no rule can take: use sparse=False")
    if getattr(model, "skip_all_reduce_unused_params", False):
        _refuse("DDP's skip_all_reduce_unused_params leaves out buckets that a rule has to see: turn it off")
    if getattr(model, "_use_python_reducer", False):
        _refuse(
            'DDP without its reducer, torch._dynamo.config.optimize_ddp = "python_reducer", has no buckets for hooks'
        )
    return model


def _remove_lost(model: DistributedDataParallel) -> None:
    """What a copy has kept of a hook that it has lost."""
    for key, hook in list(model._forward_pre_hooks.items()):
        if isinstance(hook, _Guard) and not hook.is_of(model):
            del model._forward_pre_hooks[key]
            model._comm_hooks.clear()
    for key, passes in list(model._forward_hooks.items()):
        if isinstance(passes, BackwardPasses) and not model._comm_hooks:
            del model._forward_hooks[key]


def _register(model: torch.nn.Module, state: GradientState, hook: Callable[[Any, GradBucket], object]) -> None:
    ddp = _ddp_of(model)
    _remove_lost(ddp)
    if ddp._comm_hooks:
        _refuse("this DDP model has a communication hook already, and a second one cannot be registered")
    if is_off(ddp):
        _refuse("an averager has this DDP model, whose hook would never run: close() the averager first")
    state._attach(ddp)
    try:
        ddp.register_comm_hook(state, hook)
    except RuntimeError as error:
        state.close()
        raise Error(
            f"DDP does not take the communication hook: {str(error).splitlines()[0]}", code="bad_input"
        ) from error
    passes = BackwardPasses(state._begin)
    ddp.register_forward_pre_hook(_Guard(state, ddp.reducer, passes))
    ddp.register_forward_hook(passes)


def _registering(
    make: Callable[_Options, _State], hook: Callable[[_State, GradBucket], object], name: str, summary: str
) -> Callable[Concatenate[torch.nn.Module, _Options], _State]:
    @functools.wraps(make)
    def register(ddp_model: torch.nn.Module, /, *arguments: _Options.args, **options: _Options.kwargs) -> _State:
        state = make(*arguments, **options)
        try:
            _register(ddp_model, state, hook)
        except BaseException:
            state._settle()
            raise
        return state

    model = inspect.Parameter("ddp_model", inspect.Parameter.POSITIONAL_ONLY)
    signature = inspect.signature(make)
    register.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[model, *signature.parameters.values()], return_annotation=make
    )
    register.__name__ = register.__qualname__ = name
    register.__module__ = __name__
    register.__doc__ = f"""{summary}

    Registers the rule as the communication hook of ``ddp_model`` and returns its state. All ranks of the model's process
    group have to call it, before the first backward pass; a DDP model takes one hook, and keeps it (see
    :meth:`GradientState.set_rule`).

    {(make.__doc__ or "").strip()}
    """
    return register


mean = _registering(MeanState, mean_hook, "mean", "Averages gradients as DDP does.")
weighted_mean = _registering(
    WeightedMeanState, weighted_mean_hook, "weighted_mean", "Averages gradients over samples, where batches differ."
)
normalized_mean = _registering(
    NormalizedMeanState, normalized_mean_hook, "normalized_mean", "Averages the directions of gradients."
)
adacons = _registering(AdaConsState, adacons_hook, "adacons", "Weighs gradients by their consensus.")
direction_consensus = _registering(
    DirectionConsensusState, direction_consensus_hook, "direction_consensus", "Weighs gradients by their directions."
)
geometric_median = _registering(
    GeometricMedianState, geometric_median_hook, "geometric_median", "Takes the geometric median of gradients."
)
adasum = _registering(AdasumState, adasum_hook, "adasum", "Adds gradients up pair by pair.")


def watch(ddp_model: torch.nn.Module, **options: Any) -> MeanState:
    """Changes nothing in the training, and tells who agrees with whom.

    Gradients are averaged as DDP does (with two ranks to the last bit, with more up to the order in which they are added
    up), and for nothing extra :attr:`GradientState.agreement`, :attr:`GradientState.norms` and
    :attr:`GradientState.findings` tell about the workers: two of them read the same data (a forgotten
    DistributedSampler), one is broken, dead or exploding. Rank 0 says what is found as Python warnings, too.

    Args:
        ddp_model: a DistributedDataParallel.
        options: those of :func:`mean`.
    """
    return mean(ddp_model, **options)
