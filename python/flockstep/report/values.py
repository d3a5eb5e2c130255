"""What the folders of runs and comparisons hold, as values. reading makes them; pictures and pages only look."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Colours = dict[str, int]  # an algorithm's place in the palette
# What a step line may hold for every worker.
PER_WORKER = ("coefficients", "norms", "agreement")
# Beyond this, the arithmetic of axes overflows. Whoever gets there has diverged.
LARGEST_DRAWN = 1e100


@dataclass
class Evaluation:
    step: int
    time_s: float
    quality: float
    metric: str
    guards: dict[str, int]
    wait_share: float  # so far, as all that an evaluation tells but its quality
    fresh_fraction: float  # NaN where models meet in lockstep, and while there is nothing to take a share of


@dataclass
class Cosines:
    """Mean cosines between the workers' gradients over `steps` steps from `first_step` on, the last being `step`."""

    step: int
    steps: int
    matrix: Array

    @property
    def first_step(self) -> int:
        return self.step - self.steps + 1


@dataclass
class Finding:
    kind: str
    workers: list[int]
    first_step: int
    last_step: int
    evidence: float
    sentence: str


@dataclass
class Steps:
    """One entry per step; the arrays per worker have one column each, and are absent where nothing was recorded.

    A run may be resumed with another number of workers: a column is NaN where its worker was not there.
    """

    step: Array
    loss: Array
    seconds: Array
    wait_s: Array
    transfer_s: Array
    per_worker: dict[str, Array] = field(default_factory=dict)
    events: list[tuple[int, str]] = field(default_factory=list)


@dataclass
class Run:
    folder: Path
    summary: dict[str, Any]  # empty when the run has not ended
    steps: Steps
    evaluations: list[Evaluation]
    cosines: list[Cosines]
    findings: list[Finding]


@dataclass
class Curve:
    """Quality over the seeds at the steps that all have evaluated."""

    steps: Array
    time_s: Array
    mean: Array
    low: Array
    high: Array
    median: Array

    def middle(self, statistic: str) -> Array:
        """What the table tells of the seeds: their median, or their mean."""
        return self.median if statistic == "median" else self.mean


@dataclass
class Row:
    """One algorithm of a case; `figures` is its object in compare.json."""

    label: str
    figures: dict[str, Any]
    curves: list[list[Evaluation]]  # of its runs, one per seed
    lost: list[str]  # the runs whose metrics are gone
    findings: list[str]  # sentences of its runs' summaries
    curve: Curve | None = None  # of all its runs, where the comparison tells it
    step_times: list[dict[str, Any]] = field(default_factory=list)  # of its runs' summaries


@dataclass
class Case:
    workers: int
    batch: int
    statistic: str  # what its table shows of quality: single, mean or median
    verdict: str
    target: float  # the quality to which times are told; NaN where there is none
    rows: list[Row]


@dataclass
class Comparison:
    folder: Path
    metric: str  # empty: its runs had no gradients, and nothing is about quality
    lower_is_better: bool
    interrupted: bool
    how: dict[str, Any]
    cases: list[Case]


def number(value: Any) -> float:
    """JSON has no NaN: numbers of a diverged run are null."""
    return math.nan if value is None else float(value)


def drawn_number(value: Any) -> float:
    """As number, for what is drawn: NaN if no axis can hold it."""
    known = number(value)
    return known if abs(known) <= LARGEST_DRAWN else math.nan
