"""What an averager holds of this process and of its peers, and how that ends."""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from typing import ClassVar

import torch.distributed as dist
from torch import nn

from flockstep import _native
from flockstep._averaged_model import tensors_of
from flockstep._ddp_switch import DdpSwitch
from flockstep._errors import BadInputError, Error, in_words_of_python
from flockstep._telemetry import Recorder
from flockstep._worker import Attached, attach, attach_elastic


class Attachment:
    """A model whose tensors lie in the memory that workers exchange.

    Knows nothing of the averager, so that it can go when that does.
    """

    _alive: ClassVar[weakref.WeakSet[Attachment]] = weakref.WeakSet()

    def __init__(
        self,
        model: nn.Module,
        algorithm: str,
        options: dict[str, str],
        ddp: DdpSwitch,
        *,
        holder: str,
        averages_gradients: bool,
        starts_anew: bool,
        elastic: bool,
        first_step: int,
        load: Callable[[], int] | None,
        process_group: dist.ProcessGroup | None,
        timeout: timedelta | None,
        run_dir: str | os.PathLike[str] | None,
    ) -> None:
        parameters, buffers = tensors_of(model)
        self._holder = holder
        self._tensors = _identities(model)
        if any(self._tensors & other._tensors for other in self._alive):
            raise BadInputError(f"the model is in an averager already: close() that one before {holder} takes it")
        self._ddp = ddp
        self._last_state = b""
        with ExitStack() as undo:
            undo.callback(ddp.end)
            ddp.watch(model)
            self._worker: Attached = (
                attach_elastic(deadline=timeout)
                if elastic
                else attach(process_group, deadline=timeout, what=f"made {holder}")
            )
            undo.callback(self._worker.close)
            self.recorder = Recorder(self._worker, run_dir, algorithm, options)
            try:
                self.native = _native.ModelAverager(
                    self._worker.native,
                    self.recorder.native,
                    algorithm,
                    options,
                    parameters,
                    buffers,
                    holder=holder,
                    averages_gradients=averages_gradients,
                    starts_anew=starts_anew,
                    elastic=elastic,
                    first_step=first_step,
                    load=load,
                )
            except Error as error:
                raise in_words_of_python(error, algorithm) from None
            undo.pop_all()
        self.rank = self._worker.rank
        self.size = self._worker.size
        self.is_closed = False
        self._process = os.getpid()
        self._alive.add(self)

    @property
    def incarnation(self) -> int:
        """Which life of this rank it is, from 1."""
        return self._worker.native.incarnation

    def gather_texts(self, mine: str) -> list[str]:
        """Everybody's. Collective."""
        return self._worker.native.gather_texts(mine)

    def check_model(self, model: nn.Module) -> None:
        """Raises :class:`flockstep.BadInputError` if the model has other tensors by now."""
        if _identities(model) != self._tensors:
            raise BadInputError(
                "a parameter or buffer of the model was replaced, added or taken away after training began: change its "
                f"values instead, or make another {self._holder}"
            )

    def save(self) -> bytes:
        """What goes on beyond the model; in the end what it was last."""
        if not self.is_closed:
            self._last_state = self.native.save()
        return self._last_state

    def close(self) -> None:
        """Not collective: the tensors have memory of their own again, DDP synchronises as before, peers hear of it.

        Nothing in a forked child, such as one of a DataLoader.
        """
        if self.is_closed or os.getpid() != self._process:
            return
        self.save()
        self.is_closed = True
        self._alive.discard(self)
        # The worker first: so peers hear that it has ended, and not that its agent dropped what was under way.
        self._worker.close()
        self.native.close()
        self._ddp.end()
        self.recorder.close()


def _identities(model: nn.Module) -> set[int]:
    parameters, buffers = tensors_of(model)
    return {id(tensor) for _, tensor in [*parameters, *buffers]}


# Registered after that of the workers, so that it runs before: what works on a worker ends first.
@atexit.register
def _close_all() -> None:
    for attachment in list(Attachment._alive):
        attachment.close()


os.register_at_fork(after_in_child=Attachment._alive.clear)
