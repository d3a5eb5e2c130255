"""Callbacks for the ``Trainer`` of Hugging Face transformers: a gradient rule, or a model averager.

Needs ``pip install transformers accelerate``.
"""

from __future__ import annotations

from typing import Any

import transformers

from flockstep._gradient_state import GradientState
from flockstep._telemetry import HasMetrics, named
from flockstep.averager import Averager
from flockstep.hooks import register

_ENTRY = "flockstep"  # in trainer_state.json of a checkpoint, beside the states of other callbacks


class RuleCallback(transformers.TrainerCallback):
    """Has a gradient rule take the place of averaging, on the CPU and on GPUs.

    Whatever the trainer reports to gets the rule's ``metrics()`` every ``logging_steps``, and checkpoints hold what the
    rule remembers.

    Example::

        trainer = Trainer(model, arguments, train_dataset=data)
        trainer.add_callback(RuleCallback(trainer, "adacons", beta=0.95))
        trainer.train()

    Args:
        trainer: the one that the callback is added to. The model that a trainer hands to its callbacks is not the one in
            DDP, which a rule is registered on.
        rule: its name.
        options: those of the rule.

    Attributes:
        state: of the rule, once training has begun.
    """

    def __init__(self, trainer: transformers.Trainer, rule: str, **options: Any) -> None:
        self.state: GradientState | None = None
        self._trainer, self._rule, self._options = trainer, rule, options

    def on_train_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Registers the rule: the trainer has wrapped the model by now, and loaded its own state."""
        self.state = register(self._trainer.model_wrapped, self._rule, **self._options)
        if _ENTRY in state.stateful_callbacks:
            self.state.load_state_dict(state.stateful_callbacks[_ENTRY])

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Before the trainer logs and saves."""
        assert self.state is not None
        if control.should_log:
            _log(self._trainer, self.state, control)
        if control.should_save:
            state.stateful_callbacks[_ENTRY] = self.state.state_dict()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """The same, with ``save_strategy="epoch"``."""
        self.on_step_end(args, state, control)

    def on_train_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Ends the worker's part."""
        assert self.state is not None
        self.state.close()


class AveragerCallback(transformers.TrainerCallback):
    """For a trainer whose optimizer is an averager: makes all models equal before each evaluation and each checkpoint.

    Whatever the trainer reports to gets the averager's ``metrics()`` every ``logging_steps``.

    Example::

        arguments = TrainingArguments(...)  # makes the process group
        optimizer = flockstep.Flock(torch.optim.AdamW(model.parameters()), model.to(arguments.device))
        trainer = Trainer(model, arguments, train_dataset=data, optimizers=(optimizer, None))
        trainer.add_callback(AveragerCallback(trainer, optimizer))
        trainer.train()

    Args:
        trainer: the one that the callback is added to.
        averager: its optimizer.
    """

    def __init__(self, trainer: transformers.Trainer, averager: Averager) -> None:
        self._trainer, self._averager = trainer, averager

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Before the trainer logs, saves and evaluates."""
        if control.should_log:
            _log(self._trainer, self._averager, control)
        if control.should_save or control.should_evaluate:
            self._averager.consolidate()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """The same, where that happens after epochs."""
        self.on_step_end(args, state, control)

    def on_train_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """One model on all workers."""
        self._averager.consolidate()


def _log(trainer: transformers.Trainer, measured: HasMetrics, control: Any) -> None:
    trainer.log(named(measured.metrics(), "flockstep"))
    control.should_log = True  # the trainer takes any log for its own, which is yet to come
