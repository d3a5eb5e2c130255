"""G4, G5: what a rule costs beside time on a GPU: how long backward() keeps the host, and device memory."""

import gc
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.distributed as dist

from flockstep.bench.harness import Spread

STEPS = 3  # after them every buffer is there that training needs
Made = TypeVar("Made")


@dataclass(frozen=True)
class Memory:
    """Bytes on this rank's GPU. `others` is what no allocator of torch's has: NCCL's buffers, and the driver's."""

    allocated: int
    peak: int
    others: int

    @staticmethod
    def now() -> "Memory":
        gc.collect()
        torch.cuda.synchronize()
        dist.all_reduce(torch.zeros(1))  # others may share the GPU, and are as far as this one then
        free, whole = torch.cuda.mem_get_info()
        reserved = torch.tensor([torch.cuda.memory_reserved()], dtype=torch.float64)
        dist.all_reduce(reserved)
        on_this_gpu = max(1, dist.get_world_size() // torch.cuda.device_count())
        outside = (whole - free) / on_this_gpu - reserved.item() / dist.get_world_size()
        dist.all_reduce(torch.zeros(1))  # nobody allocates before all have looked
        return Memory(torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated(), int(outside))

    def since(self, before: "Memory") -> "Memory":
        return Memory(self.allocated - before.allocated, self.peak - before.allocated, self.others - before.others)


def measured(make: Callable[[], Made], step: Callable[[Made], object]) -> tuple[Made, Memory]:
    """What is made takes so much once it has run a few steps, and at most so much in them."""
    before = Memory.now()
    made = make()
    torch.cuda.reset_peak_memory_stats()
    for _ in range(STEPS):
        step(made)
    return made, Memory.now().since(before)


def figures(plain: Memory, ours: Memory, gradient_bytes: int) -> dict[str, Spread]:
    """Of this rank; all are alike."""
    values = {
        "memory_over_gradient": (ours.allocated - plain.allocated) / gradient_bytes,
        "peak_over_gradient": (ours.peak - plain.peak) / gradient_bytes,
        "outside_torch_bytes": ours.others,
        "gradient_bytes": gradient_bytes,
    }
    return {key: Spread(value, value, value) for key, value in values.items()}
