"""How the hook of a gradient rule comes onto a DDP model, and which models cannot have one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch.nn.parallel import DistributedDataParallel

from flockstep._backward import BackwardPasses
from flockstep._ddp_switch import is_off
from flockstep._errors import BadInputError, BadTypeError
from flockstep._gradient_state import GradientState
from flockstep._options import shown
from flockstep._sharded_model import is_sharded, put_on_sharded
from flockstep._torch_private import (
    GradBucket,
    backward_number,
    comm_hooks,
    forward_hooks,
    forward_pre_hooks,
    has_python_reducer,
    reduced_parameters,
    reducer_of,
    reset_reducer,
    uncompiled,
)


class _Guard:
    """A forward pre-hook on the DDP model, which goes with it into copies and files, while what it guards does not."""

    def __init__(self, state: GradientState, reducer: object, passes: BackwardPasses) -> None:
        self._state: GradientState | None = state
        self._reducer: object = reducer
        self._passes = passes

    def __getstate__(self) -> dict[str, object]:
        return {"_state": None, "_reducer": None, "_passes": None}

    def is_of(self, model: DistributedDataParallel) -> bool:
        return self._reducer is reducer_of(model)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def __call__(self, model: DistributedDataParallel, inputs: object) -> None:
        if not (torch.is_grad_enabled() and model.require_backward_grad_sync):
            return  # no synchronised backward pass follows, as in an evaluation
        if self._state is None or not self.is_of(model):
            raise BadInputError(
                "this DDP model is a copy or was loaded, and has lost its communication hook on the way: register the "
                "rule on it again, as with flockstep.adacons(model), or use it under torch.no_grad()"
            )
        if backward_number() is None and self._state._abandon(model, self._passes.broke_off()):
            reset_reducer(model)  # on all ranks alike: their buckets are cut anew after it


def _refuse(sentence: str) -> NoReturn:
    raise BadInputError(sentence)


def _ddp_of(model: torch.nn.Module) -> tuple[DistributedDataParallel, torch.device]:
    """The model and its device, if a hook can be registered on it; else one sentence."""
    if not isinstance(model, torch.nn.Module):
        raise BadTypeError(f"a gradient rule is registered on a DistributedDataParallel, not on {shown(model)}")
    if isinstance(uncompiled(model), DistributedDataParallel):
        model = uncompiled(model)
    trained = [*reduced_parameters(model)] if isinstance(model, DistributedDataParallel) else []
    tensors = sys.modules.get("torch.distributed.tensor")  # slow to import; without it there are no DTensors
    looked_at = [parameter for _, _, parameter in trained] or [*model.parameters()]
    if tensors is not None and any(isinstance(parameter, tensors.DTensor) for parameter in looked_at):
        _refuse(
            "parameters of this model are DTensors, and not those of fully_shard(): gradient rules do not support tensor "
            "parallelism"
        )
    if not isinstance(model, DistributedDataParallel):
        raise BadTypeError(
            f"{type(model).__name__} is not a DistributedDataParallel: wrap the model in one first, or call fully_shard() on it"
        )
    if model.mixed_precision is not None:
        _refuse(
            "DDP's mixed_precision registers a communication hook of its own: use torch.autocast instead, with which "
            "gradient rules work"
        )
    if not trained:
        _refuse("no parameter of this model requires a gradient, so there is nothing to exchange")
    devices = sorted({str(parameter.device) for _, _, parameter in trained})
    if len(devices) > 1:
        _refuse(f"parameters are on several devices ({', '.join(devices)}): keep the model on one")
    if devices == ["meta"]:
        _refuse("parameters are on meta, where there are no gradients to exchange")
    for name, module, parameter in trained:
        if parameter.dtype not in (torch.float32, torch.bfloat16, torch.float16):
            _refuse(
                f"parameter {name} is {str(parameter.dtype).removeprefix('torch.')}, and only gradients in float32, "
                "bfloat16 or float16 can be exchanged without loss"
            )
        if isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag)) and module.sparse:
            holder = name.rpartition(".")[0] or type(module).__name__
            _refuse(f"{holder} has sparse gradients, which no rule can take: use sparse=False")
    if getattr(model, "skip_all_reduce_unused_params", False):
        _refuse("DDP's skip_all_reduce_unused_params leaves out buckets that a rule has to see: turn it off")
    if has_python_reducer(model):
        _refuse(
            'DDP without its reducer, torch._dynamo.config.optimize_ddp = "python_reducer", has no buckets for hooks'
        )
    return model, trained[0][2].device


def _remove_lost(model: DistributedDataParallel) -> None:
    """What a copy has kept of a hook that it has lost."""
    for key, hook in list(forward_pre_hooks(model).items()):
        if isinstance(hook, _Guard) and not hook.is_of(model):
            del forward_pre_hooks(model)[key]
            comm_hooks(model).clear()
    for key, passes in list(forward_hooks(model).items()):
        if isinstance(passes, BackwardPasses) and not comm_hooks(model):
            del forward_hooks(model)[key]


def put_on(model: torch.nn.Module, state: GradientState, hook: Callable[[Any, GradBucket], object]) -> None:
    """Registers the hook of a gradient rule on a DDP model, with what the hook needs around it; or a rule on a sharded one."""
    if isinstance(model, torch.nn.Module) and is_sharded(uncompiled(model)):
        put_on_sharded(uncompiled(model), state)
        return
    ddp, device = _ddp_of(model)
    _remove_lost(ddp)
    if comm_hooks(ddp):
        _refuse("this DDP model has a communication hook already, and a second one cannot be registered")
    if is_off(ddp):
        _refuse("an averager has this DDP model, whose hook would never run: close() the averager first")
    state._attach(device, ddp)
    try:
        ddp.register_comm_hook(state, hook)
    except RuntimeError as error:
        state.close()
        raise BadInputError(f"DDP does not take the communication hook: {str(error).splitlines()[0]}") from error
    passes = BackwardPasses(state._begin, state._loss)
    ddp.register_forward_pre_hook(_Guard(state, reducer_of(ddp), passes))
    ddp.register_forward_hook(passes, always_call=True)
