"""The one base of all averagers: an optimizer of one worker, and models that are averaged around its steps."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from torch import nn
from typing_extensions import Self, TypedDict

from flockstep import _checkpoint, _native
from flockstep._averaged_model import check, check_belong, communicates
from flockstep._ddp_switch import DdpSwitch
from flockstep._errors import BadInputError
from flockstep._joining import LeavesAndReturns
from flockstep._options import as_text
from flockstep._torch_private import UnscalesItself, collectives_so_far, left_by_scaler
from flockstep._worker import telling_failure


class AveragerOptions(TypedDict, total=False):
    """What every averager takes.

    Args:
        process_group: whose ranks are the workers: those of the DDP model, or all.
        timeout: of every single wait for another rank; None: the timeout of the process group, and at most five minutes
            for ranks that have not made the averager.
        run_dir: a folder for metrics.jsonl and trace.json, as the command writes them; see :func:`write_report`.
        guard: True: an update of the model that is longer than twice those of the other workers is cut to that, one
            that also points against theirs is left out, and so is one that is not finite.
    """

    process_group: dist.ProcessGroup | None
    timeout: timedelta | None
    run_dir: str | os.PathLike[str] | None
    guard: bool


COMMON_DEFAULTS: AveragerOptions = {"process_group": None, "timeout": None, "run_dir": None, "guard": True}
_FRONT_OPTIONS = ("process_group", "timeout", "run_dir")  # those that are not the algorithm's
_ELASTIC_DEFAULTS: dict[str, Any] = {
    "elastic": False,
    "first_step": 0,
    "checkpoint": None,
}  # of those averagers that take them


class Averager(LeavesAndReturns, UnscalesItself):
    """A :class:`torch.optim.Optimizer` around another one, which averages the workers' models after its steps.

    Not made itself: see :class:`Flock`, :class:`Wagma`, :class:`LocalSGD`, :class:`PostLocalSGD`, :class:`DiLoCo`,
    :class:`DPSGD`, :class:`ADPSGD`, :class:`SGP` and :class:`Swarm`. ``param_groups``, ``state`` and ``defaults`` are
    those of the inner optimizer, so schedulers, gradient scalers and checkpoints work as they do with it.

    The model is on the CPU, or on one CUDA device of each rank; its process group may be of any backend.

    Making one is collective. Parameters and buffers become rank 0's. They keep their identity, strides and type, and
    lie in one piece of memory until :meth:`close`. The first :meth:`step`, and the first one after
    :meth:`load_state_dict`, waits for all workers and starts from rank 0's model once more, so a checkpoint may be
    loaded after the averager is made. Apart from that, :meth:`consolidate` is the only collective.

    The gradient and buffer synchronisation of a DDP model is switched off until :meth:`close`, also of one that is made
    around the model later, and whatever a script writes to ``require_backward_grad_sync``.
    """

    _defaults: ClassVar[AveragerOptions]

    def __init__(self, optimizer: torch.optim.Optimizer, model: nn.Module, **given: Any) -> None:
        with telling_failure(model, given, f"made {self._name}"):
            self._make(optimizer, model, given)

    def _make(self, optimizer: torch.optim.Optimizer, model: nn.Module, given: dict[str, Any]) -> None:
        if given.get("elastic") and "elastic" not in self._defaults:
            raise BadInputError(
                f"{type(self).__name__} cannot continue without a lost worker: use flockstep.Flock or flockstep.Wagma, "
                "or leave elastic out"
            )
        options = self._completed(given)
        common = {name: options.pop(name) for name in _FRONT_OPTIONS}
        common |= {name: options.pop(name, default) for name, default in _ELASTIC_DEFAULTS.items()}
        _checkpoint.check_elastic(common)
        check(optimizer, model, self._name)
        self.__setstate__(
            {
                "inner": optimizer,
                "model": model,
                "options": {name: as_text(name, value) for name, value in options.items() if value is not None},
                "common": common,
                "ddp": DdpSwitch(model, self._name),
                "saved": b"",
                "consolidated": True,
            }
        )
        self._check_ddp()
        self._attach()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """As :meth:`torch.optim.Optimizer.add_param_group`.

        For parameters of the model that were not frozen when the averager was made.

        Args:
            param_group: its parameters under ``params``, and their options.

        Raises:
            BadInputError: for parameters that are not the model's.
        """
        parameters = param_group["params"]
        listed = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        check_belong([each[1] if isinstance(each, tuple) else each for each in listed], self._model, self._name)
        self._inner.add_param_group({**param_group, "params": listed})

    def _check_ddp(self) -> None:
        self._ddp.check_no_hook()

    # ---- steps ----

    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Performs the inner optimizer's step, then lets the model meet those of other workers.

        Under a :class:`torch.amp.GradScaler` that has found an overflow on this worker the inner step is left out; the
        step counts, and the model takes part, all the same.

        Args:
            closure: as the inner optimizer takes it.

        Returns:
            What the closure returned; None without one.

        Raises:
            PeerLostError: where a worker that has to be waited for is lost.
            DeadlineExceededError: where such a wait lasts longer than ``timeout``.
            BadInputError: after :meth:`pause` or :meth:`join`, before :meth:`resume` or :meth:`consolidate`.
        """
        native = self._native()
        if native.is_away:
            raise BadInputError(
                "this worker has left the others: before its next step call resume() after a pause(), or "
                "consolidate() after a join()"
            )
        self._ddp.check_off()
        self._tell_joined()
        native.begin()
        loss = self._update(native, closure)
        native.after_update()
        self._after_step(native)
        return loss

    def _update(self, native: _native.ModelAverager, closure: Callable[[], float] | None) -> float | None:
        found_inf, scale = left_by_scaler(self)
        if found_inf is not None:  # a GradScaler's step, which takes no closure
            if scale is not None:
                self._unscale(scale)
            if self._average_gradients(native) and found_inf.item() == 0:
                self._step_inner()
            return None
        if closure is None:
            self._average_gradients(native)
            self._step_inner()
            return None

        def closure_over_all() -> float:
            loss = closure()
            self._average_gradients(native)
            return loss

        return self._inner.step(closure_over_all)

    # Which optimizers communicate by themselves, no name tells: the first step does.
    def _step_inner(self) -> None:
        before = None if self._is_alone else collectives_so_far()
        self._inner.step()
        if before is not None and collectives_so_far() != before:
            raise communicates(self._inner, self._name)
        self._is_alone = True

    # As the scaler does it: the reciprocal in double.
    def _unscale(self, scale: torch.Tensor) -> None:
        factor = scale.double().reciprocal().float()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.grad.mul_(factor)

    def _average_gradients(self, native: _native.ModelAverager) -> bool:
        """Where it is time to; False if they are not finite then."""
        return not (self._averages_gradients() and native.gradients_are_due) or native.average_gradients(has_batch=True)

    @property
    def findings(self) -> list[str]:
        """Sentences about broken workers that the guards have found so far, on this worker or on another one.

        A model is not finite or hardly changes; updates are too long or do not point where the others' do; or two workers
        make the same.
        """
        return self._native().findings()

    # ---- what workers do together ----

    def consolidate(self) -> None:
        """Makes the models of all workers equal, buffers included. Collective: all workers call it.

        For an evaluation and before a checkpoint. Whoever has left, by :meth:`join` or :meth:`pause`, is back with it.
        Steps may follow.

        Raises:
            PeerLostError: where a worker is lost, unless the averager is ``elastic``.
        """
        native = self._native()
        self._attach().check_model(self._model)
        native.consolidate()
        self._after_step(native)
        self._consolidated = True

    def close(self) -> None:
        """Ends the averaging; not collective, and a second call does nothing.

        Tensors have memory of their own again, and DDP synchronises as before. Workers that go on and need this one
        raise :class:`PeerLostError`: after the last step all call :meth:`consolidate` first.
        """
        if self._attachment is not None:
            self._attachment.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
