"""Workers that run out of batches one by one: ``with optimizer.join():``."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from torch.distributed.algorithms.join import Join, Joinable, JoinHook

from flockstep._torch_private import end_joining

if TYPE_CHECKING:
    from flockstep.averager import Averager


class AveragerJoinHook(JoinHook):
    """What a worker does for the others after its last batch: nothing where it can leave, else it shadows them."""

    def __init__(self, averager: Averager) -> None:
        self._averager = averager
        averager._set_joining(True)

    def main_hook(self) -> None:
        self._averager._shadow()

    def post_hook(self, is_last_joiner: bool) -> None:
        self._averager._set_joining(False)


class Lockstep(Join):
    """Torch's own context, for averagers that wait for each other; what it has switched on ends with it."""

    def __init__(self, joinables: list[Joinable], averager: Averager, enable: bool) -> None:
        # Whoever is through is not in the divisor of DDP's gradients either.
        super().__init__(joinables, enable=enable, divide_by_initial_world_size=False)
        self._averager = averager

    def __exit__(
        self,
        type: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            super().__exit__(type, value, traceback)
        finally:
            end_joining(self)
            self._averager._set_joining(False)


class Leaving:
    """For averagers that wait for nobody: whoever is through leaves, and asks nobody."""

    def __init__(self, averager: Averager, enable: bool) -> None:
        self._averager = averager
        self._enable = enable

    def __enter__(self) -> None: ...

    def __exit__(
        self,
        type: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._enable and type is None:
            self._averager.pause()
