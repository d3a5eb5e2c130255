"""An averager's connection to the other workers, and how it is saved, copied and restored."""

from __future__ import annotations

import warnings
import weakref
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Joinable

from flockstep import _checkpoint, _native
from flockstep._around import Around
from flockstep._attachment import Attachment
from flockstep._ddp_switch import DdpSwitch
from flockstep._errors import BadInputError
from flockstep._log import logger
from flockstep._options import TakesOptions
from flockstep._telemetry import Measured, Recorder
from flockstep._warning import users_line, warn


class AttachedAverager(Around, Joinable, Measured, TakesOptions):
    """The part of :class:`Averager` that is attached to the other workers, and goes on from an earlier training."""

    _algorithm: ClassVar[str]
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

    @property
    def _name(self) -> str:
        return type(self).__name__

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

    @property
    def _recorder(self) -> Recorder:  # type: ignore[override]
        return self._attach().recorder

    def _follow(self, native: _native.ModelAverager) -> None:
        """Has DDP do what the next step needs."""
        self._ddp.off()

    def _after_step(self, native: _native.ModelAverager) -> None:
        self._consolidated = False
        self._follow(native)

    def _averages_gradients(self) -> bool:
        """Returns True if this averager averages gradients in some steps, in place of DDP."""
        return False

    @property
    def join_device(self) -> torch.device:
        """The device on which ``Join`` counts the workers that have a batch: the model's, as with DDP."""
        return next(self._model.parameters()).device

    @property
    def join_process_group(self) -> Any:
        """The process group of the workers."""
        given = self._common["process_group"]
        groups = [given, *(module.process_group for module in self._ddp.modules), dist.group.WORLD]
        return next((group for group in groups if group is not None), None)

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
    def rank(self) -> int:
        """Rank of this worker. A worker that is lost and started again keeps it."""
        return self._attach().rank

    @property
    def incarnation(self) -> int:
        """Which life of this rank it is, from 1: a higher one after each loss, also where a worker was only thought lost.

        Always 1 without ``elastic``.
        """
        return self._attach().incarnation

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
        if state is None or self._common["elastic"]:  # the workers of an elastic run count the steps
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

    # The last one: above it, in annotations, _native is the module.
    def _native(self) -> _native.ModelAverager:
        attachment = self._attach()
        if attachment.is_closed:
            raise BadInputError(f"this {self._name} is closed: make another one to continue")
        return attachment.native
