"""What the state of a gradient rule tells about the workers and about the last step."""

from __future__ import annotations

from typing import Any

import torch

from flockstep._hook import Hook
from flockstep._telemetry import Measured


class TellsOfWorkers(Measured):
    """The part of :class:`GradientState` that reads what its hook has found out."""

    _hook: Hook | None

    def report(self) -> dict[str, Any]:
        """What the last step told about the workers, the same on all ranks but for times and bytes.

        Returns:
            Values by name; nothing before the first step. ``event`` is the guard that fired, or ``none``; ``guards`` tells
            how often each has. The rest is what the properties of this state show.
        """
        return {} if self._hook is None else self._hook.report()

    def _numbers(self, name: str) -> torch.Tensor | None:
        numbers = self.report().get(name)
        return torch.tensor(numbers, dtype=torch.float64) if numbers else None

    @property
    def coefficients(self) -> torch.Tensor | None:
        """What each worker's gradient was multiplied by in the last step; None before the first."""
        return self._numbers("coefficients")

    @property
    def norms(self) -> torch.Tensor | None:
        """The norm of each worker's gradient in the last step; None before the first, and without ``watch``."""
        return self._numbers("norms")

    @property
    def agreement(self) -> torch.Tensor | None:
        """The cosines between the workers' gradients in the last step, a matrix.

        None before the first, and where only norms were looked at (beyond 64 workers, or without ``watch``). From sketches,
        cosines have an error of about 1 / sqrt(sketch_length): 0.03 at 1,024 numbers.
        """
        cosines = self._numbers("cosines")
        if cosines is None:
            return None
        size = round(len(cosines) ** 0.5)
        return cosines.reshape(size, size)

    @property
    def findings(self) -> list[str]:
        """What is suspicious about the workers so far, a sentence each.

        Two read the same data, or one is broken, dead, exploding, often clipped or left out. Rank 0 also says each once as a Python warning.
        """
        return [] if self._hook is None else self._hook.findings()

    def metrics(self) -> dict[str, float]:
        """Figures by name, of the last step and of the run so far, for any tracker; nothing collective.

        Returns:
            A dictionary. Names of figures about single workers end with their rank, as ``norm/3``.
        """
        return {} if self._finished() is None else super().metrics()

    def record(self, loss: float) -> None:
        """Tells the loss of the last step, for the metrics and the report.

        Args:
            loss: this worker's own, of its part of the batch.
        """
        self._finished()
        super().record(loss)

    def record_evaluation(self, metric: str, quality: float, *, lower_is_better: bool = False) -> None:
        """Tells how good the model is after the last step, for the metrics and the report.

        The time since that step is taken as the evaluation's, and does not count as training.

        Args:
            metric: what was measured, such as ``"accuracy"``.
            quality: its value, such as 0.91.
            lower_is_better: True for a metric such as a loss or an error rate.
        """
        self._finished()
        super().record_evaluation(metric, quality, lower_is_better=lower_is_better)

    # With sketches a step is counted when the records of all workers are there, which this waits for.
    def _finished(self) -> Hook | None:
        if self._hook is not None:
            self._hook.report()
        return self._hook
