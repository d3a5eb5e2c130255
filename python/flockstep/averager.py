"""The one base of all averagers: an optimizer of one worker, and models that are averaged around its steps."""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join, Joinable, JoinHook
from typing_extensions import Self, TypedDict

from flockstep import _checkpoint, _native
from flockstep._around import Around
from flockstep._attachment import Attachment
from flockstep._averaged_model import check, check_belong, communicates
from flockstep._ddp_switch import DdpSwitch
from flockstep._errors import BadInputError
from flockstep._joining import AveragerJoinHook, Leaving, Lockstep
from flockstep._log import logger
from flockstep._options import TakesOptions, as_text
from flockstep._telemetry import Measured, Recorder
from flockstep._torch_private import UnscalesItself, collectives_so_far, is_first_to_join, is_joining, left_by_scaler
from flockstep._warning import users_line, warn
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


class Averager(Around, Joinable, Measured, TakesOptions, UnscalesItself):
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

    _algorithm: ClassVar[str]
    _defaults: ClassVar[AveragerOptions]

    _model: nn.Module
    _options: dict[str, str]
    _common: dict[str, Any]
    _ddp: DdpSwitch
    _saved: bytes  # to go on from, once there is an attachment
    _consolidated: bool  # since the last step
    _warned: bool
    _is_alone: bool  # the inner optimizer, which has stepped without a collective
    _highest_step: int
    _attachment: Attachment | None

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

    def _averages_gradients(self) -> bool:
        """Whether gradients are averaged here, at times, and not by DDP."""
        return False

    def _average_gradients(self, native: _native.ModelAverager) -> bool:
        """Where it is time to; False if they are not finite then."""
        return not (self._averages_gradients() and native.gradients_are_due) or native.average_gradients(has_batch=True)

    def _after_step(self, native: _native.ModelAverager) -> None:
        self._consolidated = False
        self._follow(native)

    @property
    def steps(self) -> int:
        """Steps so far, with those that others have taken while this worker was away, or before it joined.

        In an elastic run it can go back: after a partition the smaller half counts as the larger one does.
        """
        return self._native().steps

    @property
    def highest_step(self) -> int:
        """The highest :attr:`steps` that this worker has counted: it never goes back, as names of files need it."""
        self._highest_step = max(self._highest_step, self.steps)
        return self._highest_step

    @property
    def findings(self) -> list[str]:
        """Sentences about broken workers that the guards have found so far, on this worker or on another one.

        A model is not finite or hardly changes; updates are too long or do not point where the others' do; or two workers
        make the same.
        """
        return self._native().findings()

    @property
    def rank(self) -> int:
        """Of this worker: the same for the whole run, also when it is lost and started again."""
        return self._attach().rank

    @property
    def incarnation(self) -> int:
        """Which life of this rank it is, from 1: a higher one after each loss, also where a worker was only thought lost.

        Always 1 without ``elastic``.
        """
        return self._attach().incarnation

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

    def pause(self) -> None:
        """Lets the others go on without this worker, as for an evaluation on one rank. Waits for nobody.

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

    @property
    def join_device(self) -> torch.device:
        """Where ``Join`` exchanges who has a batch: that of the model, as with DDP."""
        return next(self._model.parameters()).device

    @property
    def join_process_group(self) -> Any:
        """Whose ranks are the workers."""
        given = self._common["process_group"]
        groups = [given, *(module.process_group for module in self._ddp.modules), dist.group.WORLD]
        return next((group for group in groups if group is not None), None)

    def _tell_joined(self) -> None:
        """Where torch's own context is around: that this worker has a batch. Waits for nobody."""
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

    # ---- checkpoints ----

    def state_dict(self) -> dict[str, Any]:
        """The inner optimizer's state, and beside it how far the averaging has come, which plain optimizers leave alone.

        Never communicates, so rank 0 may call it alone. Without a :meth:`consolidate` since the last step the model
        beside it is this worker's own, which is warned of once.

        Returns:
            Tensors and plain Python values, for a checkpoint.
        """
        if not self._consolidated and not self._warned and self._attachment is not None and self._attachment.size > 1:
            self._warned = True
            warnings.warn(
                "since the last step this worker's model differs from the others: call consolidate() on all workers before "
                "one of them saves a checkpoint",
                stacklevel=2,
            )
        return super().state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from a :meth:`state_dict`, or from one of the inner optimizer alone.

        All workers call it. It never communicates, but the next :meth:`step` waits for all. Any number of workers can
        go on from a consolidated state.

        Args:
            state_dict: what :meth:`state_dict` returned, of an averager or of an optimizer like the inner one.
        """
        super().load_state_dict(state_dict)

    def save_checkpoint(self) -> None:
        """Writes model, optimizer and :attr:`steps` to the file that the option ``checkpoint`` names.

        Any worker may call it alone. The file is replaced as a whole, and the one before it stays as ``FILE.previous``.
        """
        path = self._common["checkpoint"]
        if path is None:
            raise BadInputError(f"save_checkpoint() needs a file: make {self._name} with checkpoint=FILE")
        state = {"model": self._model.state_dict(), "optimizer": self._inner.state_dict(), "steps": self.steps}
        _checkpoint.write(Path(path), state, self.rank)

    def _load_checkpoint(self) -> int:
        """Loads the checkpoint if no worker is there to join; returns the number of steps of its model."""
        steps = _checkpoint.load(Path(self._common["checkpoint"]), self._model, self._inner)
        return int(self._common["first_step"]) if steps is None else steps

    def _own_state(self) -> dict[str, object]:
        return {"algorithm": self._algorithm, "state": self._save().hex()}

    def _load_own_state(self, state: dict[str, Any] | None) -> None:
        self._consolidated = True
        if state is None or self._common["elastic"]:  # then steps are counted by those who are there
            return
        self._saved = bytes.fromhex(state["state"])
        if self._attachment is not None:
            self._restore(self._native())

    def _restore(self, native: _native.ModelAverager) -> None:
        remade = native.restore(self._saved)
        if remade:
            logger.info("%s: %s", self._name, remade)
        self._follow(native)

    def _save(self) -> bytes:
        return self._saved if self._attachment is None else self._attachment.save()

    def __getstate__(self) -> dict[str, Any]:
        if self._common["process_group"] is not None:
            raise BadInputError(
                f"{self._name} cannot be pickled with a process_group of its own: only with the default one"
            )
        kept = ("inner", "model", "options", "common", "ddp", "consolidated")
        return {**{name: getattr(self, f"_{name}") for name in kept}, "saved": self._save()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Without an engine: the first call that needs one attaches, together with those of all workers."""
        Joinable.__init__(self)
        self._go_around(state["inner"])
        for name, value in state.items():
            setattr(self, f"_{name}", value)
        self._warned = self._is_alone = False
        self._highest_step = 0
        self._attachment = None

    # ---- life ----

    @property
    def _name(self) -> str:
        return type(self).__name__

    def _check_ddp(self) -> None:
        self._ddp.check_no_hook()

    def _attach(self) -> Attachment:
        if self._attachment is None:
            attachment = Attachment(
                self._model,
                self._algorithm,
                self._options,
                self._ddp,
                holder=self._name,
                averages_gradients=self._averages_gradients(),
                starts_anew=not self._saved,
                elastic=self._common["elastic"],
                first_step=self._common["first_step"],
                load=self._load_checkpoint if self._common["checkpoint"] is not None else None,
                process_group=self.join_process_group,
                timeout=self._common["timeout"],
                run_dir=self._common["run_dir"],
            )
            self._attachment = attachment
            weakref.finalize(self, attachment.close).atexit = False
            if not self._common["elastic"]:
                self._compare_learning_rates(attachment)
            if self._saved:
                self._restore(attachment.native)
            self._follow(attachment.native)
        return self._attachment

    def _compare_learning_rates(self, attachment: Attachment) -> None:
        """Models of workers are averaged as equals, so a worker whose steps are longer counts more."""
        mine = ", ".join(f"{float(group['lr']):.9g}" for group in self.param_groups if "lr" in group)
        everybodys = attachment.gather_texts(mine)
        others = [rank for rank, rates in enumerate(everybodys) if rates != everybodys[0]]
        if others and attachment.rank == 0:
            warn(
                f"worker {others[0]} has the learning rate {everybodys[others[0]]} where worker 0 has {everybodys[0]}, so "
                f"that it counts differently in what {self._name} averages: give all workers the same one",
                users_line(),
            )

    def _follow(self, native: _native.ModelAverager) -> None:
        """Has DDP do what the next step needs."""
        self._ddp.off()

    def _native(self) -> _native.ModelAverager:
        attachment = self._attach()
        if attachment.is_closed:
            raise BadInputError(f"this {self._name} is closed: make another one to continue")
        return attachment.native

    @property
    def _recorder(self) -> Recorder:  # type: ignore[override]
        return self._attach().recorder

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
