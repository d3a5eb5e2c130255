"""Callbacks for Lightning's ``Trainer`` with ``DDPStrategy``: a gradient rule, or a model averager.

Needs ``pip install lightning``.
"""

from __future__ import annotations

from typing import Any

import lightning.pytorch as lightning

from flockstep._errors import BadInputError
from flockstep._gradient_state import GradientState
from flockstep._telemetry import HasMetrics, named
from flockstep.averager import Averager
from flockstep.hooks import register, register_state


class _Reports(lightning.Callback):
    """Writes ``metrics()`` to the trainer's loggers every ``log_every_n_steps`` steps."""

    _reported = 0  # the last step that was written: with accumulation several batches have the same

    def _measured(self) -> HasMetrics | None:
        raise NotImplementedError

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """A trainer after another one counts anew."""
        self._reported = 0

    def on_train_batch_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, *batch: object
    ) -> None:
        """Called by the trainer."""
        every: int = trainer.log_every_n_steps
        step, measured = trainer.global_step, self._measured()
        if measured is None or every <= 0 or step % every or step == self._reported:
            return
        self._reported = step
        figures = named(measured.metrics(), "flockstep")
        for logger in trainer.loggers:
            logger.log_metrics(figures, step=step - 1)  # as the trainer counts for its loggers


class RuleCallback(_Reports):
    """Has a gradient rule take the place of averaging, on the CPU and on GPUs.

    The trainer's loggers get the rule's ``metrics()``, and checkpoints hold what the rule remembers.

    Example::

        trainer = Trainer(strategy="ddp", callbacks=[RuleCallback("adacons", beta=0.95)])

    Args:
        rule: its name; or the state that ``DDPStrategy`` was given as ``ddp_comm_state``. On the CPU, where Lightning
            leaves that out, the callback registers it.
        options: those of the rule, where it is given by name.

    Attributes:
        state: of the rule, while the trainer fits and afterwards; None before.
    """

    def __init__(self, rule: str | GradientState, **options: Any) -> None:
        if options and not isinstance(rule, str):
            raise BadInputError("give the options to the state itself, or the rule by its name")
        self.state = rule if isinstance(rule, GradientState) else None
        self._rule, self._options = rule, options
        self._saved: dict[str, Any] = {}  # until there is a rule to load it into
        self._is_registered = False

    def _measured(self) -> GradientState | None:
        return self.state

    def on_fit_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Registers the rule: the strategy has wrapped the model by now."""
        model = trainer.strategy.model
        if model is None:
            raise BadInputError("this strategy has no model to register a rule on: take DDPStrategy")
        if isinstance(self._rule, str):
            self.state = register(model, self._rule, **self._options)
        else:
            register_state(model, self._rule)
        self._is_registered = True
        self._load()

    def state_dict(self) -> dict[str, Any]:
        """What the rule remembers."""
        return {} if self.state is None else self.state.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Before the rule is registered, or after: that depends on the strategy."""
        self._saved = state_dict
        if self._is_registered:
            self._load()

    def _load(self) -> None:
        if self.state is not None and self._saved:
            self.state.load_state_dict(self._saved)
        self._saved = {}

    def teardown(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, stage: str) -> None:
        """Ends the worker's part."""
        self._is_registered = False
        if self.state is not None:
            self.state.close()


class AveragerCallback(_Reports):
    """Puts an averager around the module's optimizer, so that every worker takes steps of its own.

    All models are made equal before each validation and each checkpoint, and at the end of each epoch. Checkpoints hold
    the averager's state within that of the optimizer. The trainer's loggers get the averager's ``metrics()``.

    Example::

        trainer = Trainer(strategy="ddp", callbacks=[AveragerCallback(flockstep.Flock, period=10)])

    Args:
        averager: a class, such as :class:`flockstep.Flock` or :class:`flockstep.DiLoCo`.
        options: its options, but for ``elastic``.

    Attributes:
        averager: the optimizer, while the trainer fits; None before and after.
    """

    def __init__(self, averager: type[Averager], **options: Any) -> None:
        self.averager: Averager | None = None
        self._class, self._options = averager, options

    def _measured(self) -> Averager | None:
        return self.averager

    def on_fit_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Wraps the optimizer, before the trainer loads a checkpoint into it."""
        optimizers, model = trainer.optimizers, trainer.strategy.model
        if len(optimizers) != 1 or model is None:
            raise BadInputError(
                f"{self._class.__name__} goes around one optimizer, and configure_optimizers() of "
                f"{type(pl_module).__name__} makes {len(optimizers)}"
            )
        self.averager = self._class(optimizers[0], model, **self._options)
        trainer.optimizers = [self.averager]

    def _consolidate(self) -> None:
        if self.averager is not None:
            self.averager.consolidate()

    def on_validation_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """One model on all workers."""
        if not trainer.sanity_checking:
            self._consolidate()

    def on_train_epoch_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """The same, before ``ModelCheckpoint`` is called, which comes last."""
        self._consolidate()

    def state_dict(self) -> dict[str, Any]:
        """Called on all workers while a checkpoint is made.

        The trainer has taken the model's tensors by then, and takes the optimizer's state next. Consolidating writes
        into these very tensors, so that the checkpoint is of one model at one step.
        """
        self._consolidate()
        return {}

    def on_exception(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, exception: BaseException
    ) -> None:
        """Whoever fails leaves: the others raise, instead of waiting for it."""
        self._close()

    def teardown(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, stage: str) -> None:
        """Ends the averaging."""
        self._close()

    def _close(self) -> None:
        if self.averager is not None:
            self.averager.close()
            self.averager = None
