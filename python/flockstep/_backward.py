"""Whether a backward pass of a DDP model has begun and not come to its end: it has raised an exception."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.autograd import Variable
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parallel.distributed import _find_tensors
from torch.utils.hooks import unserializable_hook


class BackwardPasses:
    """A forward hook on the DDP model: backward begins with what the model has returned, before DDP sees anything of it,
    and autograd calls back at the end of a pass that raises nothing. In copies of the model it does nothing."""

    def __init__(self, begins: Callable[[], None]) -> None:
        self._begins: Callable[[], None] | None = begins
        self._running: set[int] = set()  # autograd's numbers of them

    def __getstate__(self) -> dict[str, object]:
        return {"_begins": None, "_running": set()}

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def __call__(self, model: DistributedDataParallel, inputs: object, output: object) -> None:
        if self._begins is None or not torch.is_grad_enabled() or not model.require_backward_grad_sync:
            return

        @unserializable_hook  # type: ignore[untyped-decorator]
        def begin(gradient: torch.Tensor) -> None:
            self._begin(torch._C._current_graph_task_id())

        for tensor in _find_tensors(output):  # type: ignore[no-untyped-call]
            if tensor.requires_grad:
                tensor.register_hook(begin)

    def _begin(self, number: int) -> None:
        if number in self._running or self._begins is None:
            return
        self._running.add(number)
        self._begins()
        Variable._execution_engine.queue_callback(lambda: self._running.discard(number))

    def broke_off(self) -> bool:
        """Whether one has since the last call."""
        broke_off = bool(self._running)
        self._running.clear()
        return broke_off
