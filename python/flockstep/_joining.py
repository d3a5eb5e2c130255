"""Workers that leave for a while, or run out of batches one by one: ``pause()``, ``with optimizer.join():``."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from torch.distributed.algorithms.join import Join, Joinable, JoinHook

from flockstep._attached_averager import AttachedAverager
from flockstep._errors import BadInputError
from flockstep._torch_private import end_joining, is_first_to_join, is_joining


class AveragerJoinHook(JoinHook):
    """What a worker does for the others after its last batch: nothing where it can leave, else it shadows them."""

    def __init__(self, averager: LeavesAndReturns) -> None:
        self._averager = averager
        averager._set_joining(True)

    def main_hook(self) -> None:
        self._averager._shadow()

    def post_hook(self, is_last_joiner: bool) -> None:
        self._averager._set_joining(False)


class Lockstep(Join):
    """Torch's own context, for averagers that wait for each other; what it has switched on ends with it."""

    def __init__(self, joinables: list[Joinable], averager: LeavesAndReturns, enable: bool) -> None:
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

    def __init__(self, averager: LeavesAndReturns, enable: bool) -> None:
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


class LeavesAndReturns(AttachedAverager):
    """The part of :class:`Averager` for a worker that the others go on without."""

    def pause(self) -> None:
        """Lets the others go on without this worker, as for an evaluation on one rank. Does not wait.

        The worker is neither waited for nor averaged with until :meth:`resume` or :meth:`consolidate`. Where workers
        wait for each other (:class:`LocalSGD`, :class:`PostLocalSGD`, :class:`DiLoCo`, :class:`DPSGD`,
        :class:`SGP`) this does nothing: they wait where they meet next.
        """
        self._native().leave()

    def resume(self) -> None:
        """Takes part again after :meth:`pause`, with the model of a worker that went on."""
        native = self._native()
        native.come_back()
        self._after_step(native)

    def join(self, *, enable: bool = True) -> AbstractContextManager[None]:
        """For workers with different numbers of batches: ``with optimizer.join():`` around the loop over them.

        A worker that is through leaves the others, who neither wait for it nor average with it, and comes back at
        :meth:`consolidate`. Where workers wait for each other, those who are through shadow the meetings of those who
        are not, and the context ends for all of them together.

        Args:
            enable: False if all have as many batches after all.

        Returns:
            The context.
        """
        if not self._native().meets_in_lockstep:
            return Leaving(self, enable)
        return Lockstep([*self._joinables(), self], self, enable)

    def _joinables(self) -> list[Joinable]:
        """What else has to be shadowed, first."""
        return []

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What torch's ``Join`` calls after this worker's last batch."""
        return AveragerJoinHook(self)

    def _tell_joined(self) -> None:
        """Tells torch's ``Join``, inside of its context, that this worker has a batch. Does not wait."""
        if is_first_to_join(self) and any(is_joining(module) for module in self._ddp.modules):
            raise BadInputError(
                "in Join([...]) the DDP model comes before the optimizer, as its forward pass comes first"
            )
        Join.notify_join_context(self)

    def _set_joining(self, joining: bool) -> None:
        self._native().set_joining(joining)

    def _shadow(self) -> None:
        native = self._native()
        if not native.meets_in_lockstep:
            native.leave()
            return
        native.begin()
        if self._averages_gradients() and native.gradients_are_due and native.average_gradients(has_batch=False):
            self._inner.step()
        native.shadow()
        self._after_step(native)
