"""What a training measures, for whoever wants to look: figures by name, files for the report, trackers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakValueDictionary

import torch.distributed as dist

from flockstep import _native
from flockstep._errors import BadInputError, UnavailableError
from flockstep._log import forward

if TYPE_CHECKING:
    from flockstep._worker import Attached

# Those that are not closed, by the folders that they write to.
_writing: WeakValueDictionary[str, Recorder] = WeakValueDictionary()


class Recorder:
    """What a worker measures.

    Made right after the worker, before anything that uses it; ``native`` is handed to what runs the worker's steps.
    Closed after that.

    Args:
        attached: the worker.
        run_dir: where to write what ``flockstep train --out`` would write; nothing is written if None.
        algorithm: the name of the rule or of the averager.
        options: its options.
    """

    def __init__(
        self,
        attached: Attached,
        run_dir: str | os.PathLike[str] | None,
        algorithm: str,
        options: Mapping[str, object] | None = None,
    ) -> None:
        words = {name: str(value) for name, value in (options or {}).items()}
        folder = "" if run_dir is None else os.path.abspath(os.fspath(run_dir))
        if folder in _writing:
            raise BadInputError(
                f"another gradient state or averager writes to {folder}: give each a run_dir of its own, or close the "
                "other first"
            )
        self._folder = folder
        self._worker = attached.native
        self.native = _native.Recording(attached.native, folder, algorithm, words)
        if folder:
            _writing[folder] = self

    def forward_log(self) -> None:
        """Whoever is called once in a step or so calls this, too."""
        forward(self._worker)

    def close(self) -> None:
        """Writes what is left. Not collective. A second call does nothing."""
        _writing.pop(self._folder, None)
        self.native.close()


class Measured:
    """What gradient states and averagers offer alike, by the recorder that each has in ``_recorder``."""

    _recorder: Recorder

    def metrics(self) -> dict[str, float]:
        """Figures by name, of the last step and of the run so far, for any tracker; nothing collective.

        Returns:
            A dictionary. Names of figures about single workers end with their rank, as ``norm/3``.
        """
        self._recorder.forward_log()
        return self._recorder.native.figures()

    def record(self, loss: float) -> None:
        """Tells the loss of the last step, for the metrics and the report.

        Args:
            loss: this worker's own, of its part of the batch.
        """
        self._recorder.forward_log()
        self._recorder.native.set_loss(float(loss))

    def record_evaluation(self, metric: str, quality: float, *, lower_is_better: bool = False) -> None:
        """Tells how good the model is after the last step, for the metrics and the report.

        The time since that step is taken as the evaluation's, and does not count as training.

        Args:
            metric: what was measured, such as ``"accuracy"``.
            quality: its value, such as 0.91.
            lower_is_better: True for a metric such as a loss or an error rate.
        """
        self._recorder.native.add_evaluation(metric, float(quality), lower_is_better)


class HasMetrics(Protocol):
    """A gradient state or an averager."""

    def metrics(self) -> dict[str, float]:
        """Figures by name."""
        ...


def named(figures: Mapping[str, float], prefix: str) -> dict[str, float]:
    """The figures under names that begin with ``prefix/``, as trackers group them."""
    return {f"{prefix}/{name}": value for name, value in figures.items()}


class TensorBoardWriter:
    """Writes the metrics of a gradient state or an averager for TensorBoard, on rank 0.

    Example::

        writer = flockstep.TensorBoardWriter("runs/first")
        for batch in loader:
            ...
            optimizer.step()
            writer.add(state)
        writer.close()

    Args:
        log_dir: the folder that ``tensorboard --logdir`` is to look at.
        prefix: of the names.

    Raises:
        UnavailableError: where tensorboard is not installed.
    """

    def __init__(self, log_dir: str | os.PathLike[str], prefix: str = "flockstep") -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise UnavailableError(
                "writing for TensorBoard needs tensorboard: run `pip install tensorboard`"
            ) from error
        self._prefix = prefix
        here = not (dist.is_available() and dist.is_initialized()) or dist.get_rank() == 0
        self._writer = SummaryWriter(os.fspath(log_dir)) if here else None

    def add(self, measured: HasMetrics, step: int | None = None) -> None:
        """Writes the metrics of the last step; on other ranks than 0 it does nothing.

        Args:
            measured: a gradient state or an averager.
            step: where they stand in the curves; None: at their own step.
        """
        if self._writer is None:
            return
        figures = measured.metrics()
        own_step = int(figures.pop("step", 0))
        for name, value in named(figures, self._prefix).items():
            self._writer.add_scalar(name, value, own_step if step is None else step)

    def close(self) -> None:
        """Writes what is left, and ends the writing."""
        if self._writer is not None:
            self._writer.close()


class WandbRun(Protocol):
    """What ``wandb.init()`` returns, as far as it is needed here."""

    def define_metric(self, name: str, step_metric: str) -> object:
        """Which metric is the horizontal axis of others."""
        ...

    def log(self, data: dict[str, Any]) -> object:
        """Takes figures by name."""
        ...


class WandbWriter:
    """Writes the metrics of a gradient state or an averager to a run of Weights & Biases.

    They are plotted over their own step, so that the script may log to the run whenever it likes.

    Example::

        run = wandb.init(project="first") if dist.get_rank() == 0 else None
        writer = flockstep.WandbWriter(run)
        for batch in loader:
            ...
            optimizer.step()
            writer.add(state)

    Args:
        run: what ``wandb.init()`` has returned; None on ranks that write nothing.
        prefix: of the names.
    """

    def __init__(self, run: WandbRun | None, prefix: str = "flockstep") -> None:
        self._run, self._prefix = run, prefix
        if run is not None:
            run.define_metric(f"{prefix}/*", step_metric=f"{prefix}/step")

    def add(self, measured: HasMetrics) -> None:
        """Writes ``measured.metrics()``."""
        if self._run is not None:
            self._run.log(named(measured.metrics(), self._prefix))
