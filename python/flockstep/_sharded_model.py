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
from flockstep._sharded_hook import ScaledReduceScatter
from flockstep._torch_private import ShardedGroup, sharded_groups_of

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
    groups = [
        (module, group) for module in model.modules() if isinstance(module, kind) for group in sharded_groups_of(module)
    ]
    groups.reverse()  # about as their gradients come
    mesh = _check(model, [group for _, group in groups])
    workers = mesh.mesh.flatten().tolist()
    device = torch.device(mesh.device_type)
    whole = dist.group.WORLD if len(workers) == dist.get_world_size() else None
    process_group = (
        state._process_group
        or (mesh.get_group() if mesh.ndim == 1 else whole)
        or dist.new_group(workers, use_local_synchronization=True)
    )
    assert isinstance(process_group, dist.ProcessGroup)
    if sorted(dist.get_process_group_ranks(process_group)) != sorted(workers):
        _refuse("process_group has other ranks than the mesh of this sharded model: leave it out")
    attached = state._attach_sharded(device, process_group, [group.numbers for _, group in groups])
    wrapping = "\n".join(f"{group.name} {group.numbers}" for _, group in groups)
    others = attached.native.gather_texts(wrapping)
    if len(set(others)) > 1:
        other = next(rank for rank, text in enumerate(others) if text != others[0])
        state.close()
        _refuse(
            f"ranks 0 and {other} have called fully_shard() on different modules, or their models differ: shard the same "
            "modules on all ranks"
        )
    for index, (module, group) in enumerate(groups):
        scaled: Any = ScaledReduceScatter(group.reduce_scatter, state, index)  # in all but name a ReduceScatter
        module.set_custom_reduce_scatter(scaled)
        module.set_force_sum_reduction_for_comms(True)
        module.set_gradient_divide_factor(1.0)  # by nothing: coefficients sum to one
    model.register_forward_hook(BackwardPasses(state._begin))
    if len(workers) == 1:
        state._settle()  # FSDP sums nothing then


def _check(model: nn.Module, groups: list[ShardedGroup]) -> DeviceMesh:
    """The mesh of all groups, if the model can have a rule."""
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    inside = {id(parameter) for group in groups for parameter in group.parameters}
    for name, parameter in trained.items():
        if id(parameter) not in inside:
            _refuse(
                f"parameter {name} is outside of what fully_shard() has sharded, so that nobody sums its gradient: leave "
                "it out of ignored_params, or let it need no gradient"
            )
        if parameter.dtype not in _TYPES:
            _refuse(
                f"parameter {name} is {str(parameter.dtype).removeprefix('torch.')}: take float32, bfloat16 or float16"
            )
    if not trained:
        _refuse("no parameter of this model requires a gradient, so there is nothing to exchange")
    mesh = groups[0].mesh
    for group in groups:
        if group.shares_module:
            _refuse(f"{group.name} is sharded over several meshes: take one mesh for all of its parameters")
        if not torch.equal(group.mesh.mesh, mesh.mesh):
            _refuse(f"{group.name} is sharded over another mesh than {groups[0].name}: take one mesh for all modules")
        if group.has_other_shards:
            _refuse(f"{group.name} is sharded for tensor parallelism, too, which gradient rules cannot see through")
        if isinstance(group.reduce_scatter, ScaledReduceScatter):
            _refuse("this sharded model has a gradient rule already: see set_rule() of its state")
        if group.shards == 1 and mesh.size() > 1:
            _refuse(
                "the shard dimension of this mesh has one rank: DistributedDataParallel does the same, and takes rules"
            )
    return mesh
