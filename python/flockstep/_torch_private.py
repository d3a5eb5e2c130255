"""All that the package uses of torch beyond its documented interface, each with the reason.

tests/python/test_torch_private.py names the part that another version of torch has changed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import GradBucket as GradBucket  # what the type hints of a hook have to name
from torch.autograd import Variable
from torch.distributed.algorithms.join import Join, Joinable, _JoinConfig
from torch.distributed.distributed_c10d import Store, _get_default_store
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parallel.distributed import _find_tensors

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

# ---- DistributedDataParallel ----


def reducer_of(model: DistributedDataParallel) -> object:
    """Tells a model from its copies: a communication hook belongs to the reducer, and each model has its own.

    None in a model whose constructor is not through.
    """
    return getattr(model, "reducer", None)


def reduced_parameters(model: DistributedDataParallel) -> Iterator[tuple[str, nn.Module, nn.Parameter]]:
    """The parameters that the reducer exchanges, with their names and modules: not those that DDP was told to ignore."""
    seen = set()
    for path, module in model.module.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            is_ignored = f"{path}.{name}" in model.parameters_to_ignore
            if parameter.requires_grad and not is_ignored and parameter not in seen:
                seen.add(parameter)
                yield f"{path}.{name}".lstrip("."), module, parameter


def reset_reducer(model: DistributedDataParallel) -> None:
    """After a backward pass that broke off, the reducer refuses the next one."""
    model.reducer._reset_state()


def zero_buckets(model: DistributedDataParallel) -> list[GradBucket]:
    """What a worker sends for the buckets that a broken backward pass did not reach."""
    zeros: list[GradBucket] = model.reducer._get_zeros_like_grad_buckets()
    return zeros


def local_used_map(model: DistributedDataParallel) -> torch.Tensor:
    """What DDP sums over all workers where it looks for unused parameters."""
    used: torch.Tensor = model.reducer._get_local_used_map()
    return used


def comm_hooks(model: DistributedDataParallel) -> list[object]:
    """Tells whether there is one. A copy of the model has the list and not the hook."""
    hooks: list[object] = getattr(model, "_comm_hooks", [])
    return hooks


def divides_by_initial_world_size(model: DistributedDataParallel | None) -> bool:
    """What ``join()`` was told."""
    return bool(getattr(model, "_divide_by_initial_world_size", True))


def has_python_reducer(model: DistributedDataParallel) -> bool:
    """Such a model has no buckets for hooks."""
    return bool(getattr(model, "_use_python_reducer", False))


def delays_all_reduce(model: DistributedDataParallel) -> bool:
    """Such a model waits for all workers in every backward pass."""
    return bool(model._delay_all_reduce_params)


def parameters_of_half_made(model: DistributedDataParallel) -> Iterable[nn.Parameter]:
    """Of a model that may still be in its constructor, where ``parameters()`` fails."""
    found: Iterable[nn.Parameter] = model.__dict__.get("_module_parameters", ())
    return found


# Whether the first forward pass of a static graph is taken for a later one.
STATIC_GRAPH_IS_KNOWN = "_static_graph_delay_allreduce_enqueued"

# With these, a forward pass synchronises neither gradients nor buffers. It looks at the first three at its beginning; the
# first pass of a static graph synchronises whatever they say, unless it seems to be a later one.
SYNCHRONISES_NOTHING = {
    "require_backward_grad_sync": False,
    "require_forward_param_sync": False,
    "broadcast_buffers": False,
    STATIC_GRAPH_IS_KNOWN: True,
}

# ---- modules and autograd ----


def forward_pre_hooks(module: nn.Module) -> dict[int, Callable[..., Any]]:
    """Finds those of ours, also in a copy of the module, for which there is no handle."""
    return module._forward_pre_hooks


def forward_hooks(module: nn.Module) -> dict[int, Callable[..., Any]]:
    """The same for those after a forward pass."""
    return module._forward_hooks


def uncompiled(model: nn.Module) -> nn.Module:
    """The model that ``torch.compile`` was given, since hooks are registered on that."""
    inner: nn.Module = getattr(model, "_orig_mod", model)
    return inner


def tensors_in(output: object) -> Iterator[torch.Tensor]:
    """Those that a model returned, in whatever container: a backward pass begins with one of them."""
    return iter(_find_tensors(output))  # type: ignore[no-untyped-call]


def backward_number() -> int | None:
    """Tells backward passes apart; None outside of one."""
    number: int = torch._C._current_graph_task_id()
    return None if number == -1 else number


def call_after_backward(callback: Callable[[], None]) -> None:
    """Only after a pass that raises nothing: so one that broke off is noticed."""
    Variable._execution_engine.queue_callback(callback)


# ---- process groups ----


def default_store() -> Store:
    """Workers find each other there, without a store of their own to start."""
    return _get_default_store()


def timeout_of(group: dist.ProcessGroup) -> timedelta:
    """The default for every wait is what the user gave to ``init_process_group`` or ``new_group``."""
    for device in group._device_types:
        options = getattr(group._get_backend(device), "options", None)
        if options is not None:
            timeout: timedelta = options._timeout
            return timeout
    return dist.default_pg_timeout


def collectives_so_far() -> int:
    """Tells whether this process has exchanged tensors meanwhile, over any group with a counting backend."""
    count = 0
    groups: Any = dist.distributed_c10d._world.pg_map
    for group in groups:
        with suppress(RuntimeError):
            count += group._get_sequence_number_for_group()
    return count


def all_gather_single(
    output: torch.Tensor, mine: torch.Tensor, group: dist.ProcessGroup, *, async_op: bool = False
) -> dist.Work | None:
    """Everybody's, one behind the other: torch 2.13 has another name for it, and warns of the old one."""
    gather: Callable[..., dist.Work | None] = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)
    return gather(output, mine, group=group, async_op=async_op)


# ---- fully_shard ----


@dataclass(frozen=True)
class ShardedGroup:
    """The parameters of sharded modules whose gradients are reduced together.

    Attributes:
        inner: what torch has.
        parameters: as ``named_parameters`` has them.
        mesh: the ranks that share the modules, or have copies of them.
        shards: how many ranks share them.
        has_other_shards: whether parameters were sharded over other ranks before, as for tensor parallelism.
        shares_module: whether a module has further groups.
        all_gather: what fetches the parameters.
        reduce_scatter: what sums the gradients.
    """

    inner: Any
    parameters: list[nn.Parameter]
    mesh: DeviceMesh
    shards: int
    has_other_shards: bool
    shares_module: bool
    all_gather: Any
    reduce_scatter: Any

    @property
    def numbers(self) -> int:
        """Of the whole gradient."""
        return sum(parameter.numel() for parameter in self.parameters)

    @property
    def padded_numbers(self) -> int:
        """The same with what FSDP adds, so that all ranks have as many rows of a parameter."""
        return sum(
            parameter.numel() // len(parameter) * (-(-len(parameter) // self.shards) * self.shards)
            for parameter in self.parameters
            if len(parameter) > 0
        )


def divide_factor_of(group: ShardedGroup) -> float | None:
    """What ``set_gradient_divide_factor`` was told: nothing else tells it."""
    factor: float | None = group.inner.gradient_divide_factor
    return factor


def sharded_groups_of(module: Any) -> list[ShardedGroup]:
    """What ``fully_shard`` has made of a module: its documented interface tells nothing of it."""
    state = module._get_fsdp_state()
    groups = getattr(state, "_fsdp_param_groups", None)  # torch 2.11 has one, or none
    if groups is None:
        groups = [state._fsdp_param_group] if state._fsdp_param_group is not None else []
    found = []
    for group in groups:
        parameters = [each.sharded_param for each in group.fsdp_params]
        info = group.mesh_info
        has_other_shards = any(parameter.device_mesh.ndim > info.mesh.ndim for parameter in parameters)
        shards = getattr(info, "shard_mesh_size", 1)
        collectives = group._all_gather_comm, group._reduce_scatter_comm
        found.append(
            ShardedGroup(group, parameters, info.mesh, shards, has_other_shards, len(groups) > 1, *collectives)
        )
    return found


# ---- Join ----


def is_joining(joinable: Joinable) -> bool:
    """Whether a ``Join`` context is around it."""
    return bool(joinable._join_config.enable)


def is_first_to_join(joinable: Joinable) -> bool:
    """Whether it is the one in its context that tells that this worker has a batch."""
    return bool(joinable._join_config.is_first_joinable)


def end_joining(context: Join) -> None:
    """Torch leaves this to nobody: what was in the context would act as if it still were."""
    for joinable in context._joinables:
        joinable._join_config = _JoinConfig(False, False, False)


# ---- optimizers ----

_HOOKS = ("step_pre", "step_post", "state_dict_pre", "state_dict_post", "load_state_dict_pre", "load_state_dict_post")


def make_optimizer_hooks(optimizer: torch.optim.Optimizer) -> None:
    """Hooks of its own for an optimizer that shares groups and state with another, and so leaves out the constructor."""
    for name in _HOOKS:
        setattr(optimizer, f"_optimizer_{name}_hooks", OrderedDict())
    optimizer._patch_step_function()


def optimizer_hooks(optimizer: torch.optim.Optimizer, name: str) -> list[Callable[..., Any]]:
    """To call them where ``state_dict`` and ``load_state_dict`` are not torch's; ``name`` as ``"state_dict_pre"``."""
    return list(getattr(optimizer, f"_optimizer_{name}_hooks").values())


class UnscalesItself:
    """An optimizer for which a GradScaler leaves unscaling and skipping to ``step()``, as it does for fused ones."""

    _step_supports_amp_scaling = True


def left_by_scaler(optimizer: UnscalesItself) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """What ``step()`` needs for that: whether an overflow was found, and the scale. None outside of a scaler's step."""
    return getattr(optimizer, "found_inf", None), getattr(optimizer, "grad_scale", None)
