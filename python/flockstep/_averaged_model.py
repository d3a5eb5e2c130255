"""What an averager asks of a model and an optimizer."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from flockstep._ddp_switch import check_ddp
from flockstep._errors import BadInputError, BadTypeError

NamedTensors = list[tuple[str, torch.Tensor]]


_COMMUNICATING = ("Averager", "ZeroRedundancyOptimizer", "PostLocalSGDOptimizer")


def communicates(optimizer: torch.optim.Optimizer, holder: str) -> BadInputError:
    """The error for an optimizer that waits for other workers by itself."""
    return BadInputError(
        f"{type(optimizer).__name__} communicates with other workers by itself, and {holder} goes around an optimizer of "
        "one worker: pass one that does not, such as torch.optim.AdamW"
    )


def check(optimizer: torch.optim.Optimizer, model: nn.Module, holder: str) -> None:
    """Raises :class:`flockstep.BadInputError` for a pair that ``holder`` cannot average."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise BadTypeError(f"{holder} goes around a torch.optim.Optimizer, not a {type(optimizer).__name__}")
    kinds = type(optimizer).__mro__
    if any(kind.__name__ in _COMMUNICATING or kind.__module__.startswith("horovod.") for kind in kinds):
        raise communicates(optimizer, holder)
    if not isinstance(model, nn.Module):
        raise BadTypeError(f"{holder} averages a torch.nn.Module, not a {type(model).__name__}")
    _check_modules(model, holder)
    _check_tensors(model, holder)
    check_belong([parameter for group in optimizer.param_groups for parameter in group["params"]], model, holder)


def check_belong(parameters: list[torch.Tensor], model: nn.Module, holder: str) -> None:
    """Raises :class:`flockstep.BadInputError` if one of them is not a parameter of the model."""
    known = {id(parameter) for parameter in model.parameters()}
    for parameter in parameters:
        if id(parameter) not in known:
            raise BadInputError(
                f"the optimizer has a parameter of shape {tuple(parameter.shape)} that is not in the model, so that "
                f"{holder} would not average it: pass the model that the optimizer was made for"
            )


def _check_modules(model: nn.Module, holder: str) -> None:
    for name, module in model.named_modules():
        if isinstance(module, nn.SyncBatchNorm):
            raise BadInputError(
                f"{name} is a SyncBatchNorm, which waits for all workers in every forward pass: use BatchNorm, whose "
                f"statistics {holder} averages with the model"
            )
        if isinstance(module, DistributedDataParallel):
            check_ddp(module, holder)
        if type(module).__name__ == "FullyShardedDataParallel":
            raise BadInputError(
                f"{holder} averages whole models, and {name or 'this one'} is sharded: use DDP or a plain model"
            )


def _check_tensors(model: nn.Module, holder: str) -> None:
    parameters = list(model.parameters())
    if any(hasattr(parameter, "device_mesh") for parameter in parameters):
        raise BadInputError(
            f"{holder} averages whole models, and this one's parameters are sharded: use DDP or a plain model, or a "
            "gradient rule, which takes models of fully_shard()"
        )
    if not any(parameter.requires_grad for parameter in parameters):
        raise BadInputError(
            f"the model has no parameter that needs a gradient, so there is nothing for {holder} to average"
        )
    devices = sorted({str(tensor.device) for tensor in [*parameters, *model.buffers()]})
    if len(devices) > 1:
        raise BadInputError(
            f"the model is on {' and '.join(devices)}, and {holder} averages models on one device: keep the module on "
            "one device"
        )
    if parameters[0].device.type not in ("cpu", "cuda"):
        raise BadInputError(f"the model is on {devices[0]}: {holder} averages models on the CPU or on a CUDA device")


def tensors_of(model: nn.Module) -> tuple[NamedTensors, NamedTensors]:
    """Parameters and buffers with their names, shared ones as often as they are."""
    return (
        list(model.named_parameters(remove_duplicate=False)),
        list(model.named_buffers(remove_duplicate=False)),
    )
