"""How a gradient rule comes onto a model that ``fully_shard`` has sharded (FSDP2), and which of them cannot have one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NoReturn

import torch
import torch.distributed as dist
from torch import nn

from flockstep._backward import BackwardPasses
from flockstep._errors import BadInputError
from flockstep._gradient_state import GradientState
from flockstep._sharded_hook import NamingLosses, ScaledReduceScatter
from flockstep._torch_private import ShardedGroup, divide_factor_of, sharded_groups_of

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import FSDPModule

_TYPES = (torch.float32, torch.bfloat16, torch.float16)


def _refuse(sentence: str) -> NoReturn:
    raise BadInputError(sentence)


def _kind() -> type[FSDPModule] | None:
    """That of sharded modules; None where nobody has imported it, since it is slow to import."""
    fsdp = sys.modules.get("torch.distributed.fsdp")
    return getattr(fsdp, "FSDPModule", None)


def is_sharded(model: nn.Module) -> bool:
    """Whether ``fully_shard`` was called on it, or on a part of it."""
    kind = _kind()
    return kind is not None and any(isinstance(module, kind) for module in model.modules())


def put_on_sharded(model: nn.Module, state: GradientState) -> None:
    """Has a rule scale the gradients of a sharded model. All ranks of its mesh call this."""
    kind = _kind()
    if not hasattr(kind, "set_custom_reduce_scatter"):
        _refuse(f"torch {torch.__version__} has no FSDPModule.set_custom_reduce_scatter(): take torch 2.11 or later")
    assert kind is not None
    if not isinstance(model, kind):
        _refuse("fully_shard() was called on parts of this model alone: call it on the whole model, too")
    found: dict[int, tuple[str, FSDPModule, ShardedGroup]] = {}  # several modules may share a group
    for name, module in model.named_modules():
        if isinstance(module, kind):
            for group in sharded_groups_of(module):
                found.setdefault(id(group.inner), (name or type(module).__name__, module, group))
    groups = [*found.values()]
    groups.reverse()  # about as their gradients come
    mesh = _check(model, {name: group for name, _, group in groups})
    workers = mesh.mesh.flatten().tolist()
    device = torch.device("cuda", torch.cuda.current_device()) if mesh.device_type == "cuda" else torch.device("cpu")
    whole = dist.group.WORLD if len(workers) == dist.get_world_size() else None
    process_group = (
        state._process_group
        or (mesh.get_group() if mesh.ndim == 1 else whole)
        or dist.new_group(workers, use_local_synchronization=True)
    )
    assert isinstance(process_group, dist.ProcessGroup)
    if sorted(dist.get_process_group_ranks(process_group)) != sorted(workers):
        _refuse("process_group has other ranks than the mesh of this sharded model: leave it out")
    state._attach_sharded(device, process_group, {name: group for name, _, group in groups})
    for index, (_, module, group) in enumerate(groups):
        scaled: Any = ScaledReduceScatter(group, state, index)  # in all but name a ReduceScatter
        gathering: Any = NamingLosses(group.all_gather, state)
        module.set_custom_all_gather(gathering)
        module.set_custom_reduce_scatter(scaled)
        module.set_force_sum_reduction_for_comms(True)
        module.set_gradient_divide_factor(1.0)
    model.register_forward_hook(BackwardPasses(state._begin))
    if len(workers) == 1:
        state._settle()  # FSDP sums nothing then


def _check(model: nn.Module, groups: dict[str, ShardedGroup]) -> DeviceMesh:
    """The mesh of all groups, if the model can have a rule."""
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    inside = {id(parameter) for group in groups.values() for parameter in group.parameters}
    for name, parameter in trained.items():
        if id(parameter) not in inside:
            _refuse(
                f"fully_shard() does not manage parameter {name}, so that its gradient is not summed: remove it from "
                "ignored_params, or set requires_grad=False"
            )
        if parameter.dtype not in _TYPES:
            _refuse(
                f"parameter {name} is {str(parameter.dtype).removeprefix('torch.')}: take float32, bfloat16 or float16"
            )
    if not trained:
        _refuse("no parameter of this model requires a gradient, so there is nothing to exchange")
    first, first_group = next(iter(groups.items()))
    mesh = first_group.mesh
    for name, group in groups.items():
        if group.shares_module:
            _refuse(f"{name} is sharded over several meshes: take one mesh for all of its parameters")
        if not torch.equal(group.mesh.mesh, mesh.mesh):
            _refuse(f"{name} is sharded over another mesh than {first}: take one mesh for all modules")
        if group.has_other_shards:
            _refuse(f"{name} is sharded for tensor parallelism, too, which gradient rules do not support")
        if isinstance(group.reduce_scatter, ScaledReduceScatter):
            _refuse("this sharded model has a gradient rule already: see set_rule() of its state")
        if divide_factor_of(group) is not None:
            _refuse(
                f"{name} has a gradient divide factor, but a rule divides by itself: do not call "
                "set_gradient_divide_factor()"
            )
        if group.shards == 1 and mesh.size() > 1:
            _refuse(
                "the shard dimension of this mesh has one rank: DistributedDataParallel does the same, and takes rules"
            )
    return mesh
