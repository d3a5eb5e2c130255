"""Ways of training a network data-parallel, each in one function: plain DDP, Flockstep's hooks, PyTorch's own."""

from collections.abc import Callable
from typing import Literal

import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

Made = tuple[DistributedDataParallel, Optimizer]
Transfer = Literal["exact", "sketch"]
ONE_BUCKET_MB = 1 << 14


def plain(network: nn.Module, optimizer: Optimizer) -> Made:
    return DistributedDataParallel(network), optimizer


def rule(name: str, network: nn.Module, optimizer: Optimizer, transfer: Transfer) -> Made:
    import flockstep

    model = DistributedDataParallel(network)
    flockstep.register(model, name, transfer=transfer)
    return model, optimizer


def fp16_compress(network: nn.Module, optimizer: Optimizer) -> Made:
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    model = DistributedDataParallel(network)
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    return model, optimizer


def post_local_sgd(network: nn.Module, optimizer: Optimizer) -> Made:
    """Gradients within halves of the workers, models over all every fourth step.

    The subgroup has to be given: by default it is that of a machine's GPUs.
    """
    from torch.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook as hook
    from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    from torch.distributed.optim import PostLocalSGDOptimizer

    model = DistributedDataParallel(network)
    middle = max(1, dist.get_world_size() // 2)
    halves = [dist.new_group(range(middle)), dist.new_group(range(middle, dist.get_world_size()))]
    subgroup = halves[dist.get_rank() >= middle]
    state = hook.PostLocalSGDState(None, subgroup, start_localSGD_iter=0)  # type: ignore[no-untyped-call]
    model.register_comm_hook(state, hook.post_localSGD_hook)
    return model, PostLocalSGDOptimizer(optimizer, PeriodicModelAverager(period=4, warmup_steps=0))


def power_sgd(network: nn.Module, optimizer: Optimizer) -> Made:
    """In one bucket: with several it hangs on Gloo, since its collectives are not issued in the same order everywhere."""
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as hook

    model = DistributedDataParallel(network, bucket_cap_mb=ONE_BUCKET_MB)
    model.register_comm_hook(hook.PowerSGDState(process_group=None, start_powerSGD_iter=2), hook.powerSGD_hook)
    return model, optimizer


RULES = ("adacons", "direction_consensus", "mean")
_OTHERS: dict[str, Callable[[nn.Module, Optimizer], Made]] = {
    "plain": plain,
    "fp16_compress": fp16_compress,
    "post_localSGD": post_local_sgd,
    "powerSGD": power_sgd,
}
CONTENDERS = [*RULES, *(name for name in _OTHERS if name != "plain")]


def made(name: str, network: nn.Module, optimizer: Optimizer, transfer: Transfer) -> Made:
    """A contender, or plain DDP."""
    return rule(name, network, optimizer, transfer) if name in RULES else _OTHERS[name](network, optimizer)


# What the first step has to give, and how far from it rounding may lead. Of the others the first step is an approximation,
# as it is with sketches.
EXACT = {"plain": ("mean", 1e-5), "adacons": ("adacons", 1e-5), "mean": ("mean", 1e-5), "fp16_compress": ("mean", 1e-2)}
