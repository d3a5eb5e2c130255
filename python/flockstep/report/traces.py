"""trace.json as arrays, and which part of it to look at.

Runs with the same seed have the same late workers in the same steps, so one step can be shown of several algorithms.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flockstep.report.errors import MissingFileError
from flockstep.report.files import read_object, understood
from flockstep.report.values import Array

TRACKS = ("compute", "wait", "transfer", "rounds")  # by their numbers in the file
MOST_WORKERS = 2**20
LATE_FROM = 1.5  # times as long as half of the workers
CALM_STEPS = 5  # more than these without a meeting of all workers make no better view


@dataclass
class Trace:
    """Spans of all workers; times in seconds."""

    worker: NDArray[np.int64]
    track: NDArray[np.int64]
    begin: Array
    end: Array
    name: NDArray[np.str_]

    @property
    def workers(self) -> int:
        return int(self.worker.max()) + 1

    @cached_property
    def gradients(self) -> list[tuple[Array, Array]]:
        """When each worker began and ended its gradients: one per step."""
        found = []
        for worker in range(self.workers):
            mine = (self.worker == worker) & (self.name == "gradient")
            order = np.argsort(self.begin[mine])
            found.append((self.begin[mine][order], self.end[mine][order]))
        return found

    @property
    def steps(self) -> int:
        """That every worker has in it; of a long run it holds only the first."""
        return min(begins.size for begins, _ in self.gradients)

    def step_s(self) -> float:
        """How long a step takes, from its gradient to the next."""
        return float(np.median(np.concatenate([np.diff(begins[: self.steps]) for begins, _ in self.gradients])))

    def steps_to_meeting(self) -> NDArray[np.int64]:
        """For each step, how many there are until the training stands still for an evaluation."""
        begins = self.gradients[0][0][: self.steps]
        meetings = np.sort(self.begin[(self.worker == 0) & (self.name == "meeting of all workers")])
        before = np.append(np.searchsorted(begins, meetings), self.steps)  # steps that were done by then
        here = np.arange(self.steps)
        left: NDArray[np.int64] = before[np.searchsorted(before, here, side="right").clip(max=before.size - 1)] - here
        return left


def _trace(saved: dict[str, Any]) -> Trace | None:
    spans = [event for event in saved["traceEvents"] if event["ph"] == "X"]
    numbers = np.array([[span[key] for key in ("pid", "tid", "ts", "dur")] for span in spans], dtype=np.float64)
    if not spans:
        return None
    if not (np.isfinite(numbers).all() and (numbers[:, :2] >= 0).all() and numbers[:, 0].max() < MOST_WORKERS):
        raise ValueError("a span's worker or time is no number that can be")
    names = np.array([str(span["name"]) for span in spans])
    worker, track = numbers[:, 0].astype(np.int64), numbers[:, 1].astype(np.int64)
    trace = Trace(worker, track, numbers[:, 2] / 1e6, (numbers[:, 2] + numbers[:, 3]) / 1e6, names)
    return trace if trace.steps >= 2 and trace.step_s() > 0 else None


def read_trace(folder: Path) -> Trace | None:
    """None where there is none, or too little in it to show: a run that was killed has not written it."""
    path = folder / "trace.json"
    try:
        saved = read_object(path)
    except MissingFileError:
        return None
    return understood(path, "", lambda: _trace(saved))


@dataclass
class Moment:
    """A step, counted from the trace's first, and the worker that took longest over its gradient."""

    step: int
    worker: int
    seconds: float  # worth looking at
    late: list[int]  # the workers who took much longer than most


def choose_moment(traces: list[Trace]) -> Moment:
    """Around the middle of the run, with somebody as late as usual, and no evaluation soon after."""
    steps = min(trace.steps for trace in traces)
    # What one of them suffered from the machine is not what makes a worker late: that, all have.
    took = np.min([[ends[:steps] - begins[:steps] for begins, ends in trace.gradients] for trace in traces], axis=0)
    longest = took.max(axis=0)
    calm = np.minimum(np.min([trace.steps_to_meeting()[:steps] for trace in traces], axis=0), CALM_STEPS)
    middle = np.arange(steps // 4, max(steps // 4 + 1, math.ceil(0.75 * steps)))
    usual = np.median(longest[middle])
    step = int(min(middle, key=lambda each: (longest[each] < usual, -calm[each], abs(each - steps / 2))))
    lengths = [trace.step_s() for trace in traces]
    return Moment(
        step,
        worker=int(took[:, step].argmax()),
        seconds=max(1.15 * max(lengths), 2.2 * float(np.median(lengths))),
        late=np.flatnonzero(took[:, step] > LATE_FROM * np.median(took[:, step])).tolist(),
    )
