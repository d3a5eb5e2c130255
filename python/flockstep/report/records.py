"""What the JSON files hold, as records that msgspec checks while it reads them.

A number that was not finite is null in JSON, and NaN here. Keys that no record names are let pass: a newer command may
write more.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta, Struct, field
from numpy.typing import NDArray

Array = NDArray[np.float64]
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Scalar = str | bool | int | float
FolderName = Annotated[str, Meta(pattern="^[^\0]*$")]

LARGEST_DRAWN = 1e100  # beyond, the arithmetic of axes overflows; whoever gets there has diverged
STEP_TIME_BINS = 360  # src/telemetry/step_times.h
PER_WORKER = ("coefficients", "norms", "agreement")  # what a step may hold for every worker


class Number(float):
    """NaN where JSON has null, or what no axis can hold."""


NAN = Number("nan")


def decode_numbers(kind: type, value: Any) -> Any:
    """What msgspec does not know: Number and Array."""
    if kind is Number:
        if value is not None and type(value) not in (int, float):
            raise ValueError(f"expected a number, got `{type(value).__name__}`")
        return NAN if value is None or abs(value) > LARGEST_DRAWN else Number(value)
    if not isinstance(value, list):
        raise ValueError(f"expected a list of numbers, got `{type(value).__name__}`")
    numbers = np.array(value, dtype=np.float64)
    return np.where(np.abs(numbers) <= LARGEST_DRAWN, numbers, np.nan)


class Record(Struct, kw_only=True):
    pass


class Versioned(Record):
    """What every file and line may begin with."""

    schema: int = 0
    kind: str = ""


class Finding(Record):
    finding: str
    workers: list[Count]
    first_step: Count
    last_step: Count
    sentence: str
    evidence: Number = NAN


class FixedStraggler(Record):
    worker: Count
    delay_s: Number


class ComputeFile(Record):
    path: str


class Pace(Record):
    """How long steps pretended to take, and who was late."""

    compute_s: Number = Number(0)
    random_stragglers: Count = 0
    independent_stragglers: bool = False
    random_delay_s: Number = Number(0)
    fixed_stragglers: list[FixedStraggler] = []
    jitter_sigma: Number = Number(0)
    compute_file: ComputeFile | None = None


class StepTimes(Record):
    """Steps counted by how long they computed (src/telemetry/step_times.h)."""

    median_s: Number
    p90_s: Number
    p99_s: Number
    longest_s: Number
    first_bin: Count
    counts: list[Count]

    def __post_init__(self) -> None:
        if self.first_bin + len(self.counts) > STEP_TIME_BINS:
            raise ValueError(f"step times have {STEP_TIME_BINS} bins, not {self.first_bin + len(self.counts)}")


class Summary(Record):
    """summary.json. A training that is not the command's own tells less."""

    task: str
    algorithm: str
    engine: str
    workers: Count
    steps: Count
    metric: str | None = None
    quality: Number = NAN
    seed: Count | None = None
    train_loss: Number = NAN
    time_s: Number = NAN
    samples_per_s: Number = NAN
    wait_share: Number = NAN
    share_of_ideal: Number = NAN
    bytes_sent_per_step: Number = NAN
    # How models met; null where they meet in lockstep.
    fresh_fraction: Number = NAN
    alone_share: Number = NAN
    mean_staleness: Number = NAN
    mean_round_s: Number = NAN
    staleness: list[Count] | None = None
    batch: Count | None = None
    requested_steps: Count | None = None
    interrupted: bool = False
    replicas_equal: bool | None = None
    task_settings: dict[str, Scalar] = {}
    algorithm_settings: dict[str, Scalar] = {}
    step_times: StepTimes | None = None
    figures: dict[str, Number] = {}
    model_hash: str = ""
    guards: dict[str, Count] = {}
    platform: str = ""
    pace: Pace = field(default_factory=Pace)
    findings: list[Finding] = []
    notes: list[str] = []


class Step(Record):
    """A line of metrics.jsonl, as those that follow."""

    step: Count
    loss: Number
    seconds: Number
    wait_s: Number
    transfer_s: Number
    event: str = ""
    coefficients: Array | None = None
    norms: Array | None = None
    agreement: Array | None = None

    def __post_init__(self) -> None:
        sizes = {name: values.size for name in PER_WORKER if (values := getattr(self, name)) is not None}
        if len(set(sizes.values())) > 1:
            raise ValueError(f"its {', '.join(sizes)} are of {', '.join(map(str, sizes.values()))} workers")


class Evaluation(Record):
    step: Count
    time_s: Number
    quality: Number
    metric: str
    guards: dict[str, Count] = {}
    wait_share: Number = NAN  # so far, as all that an evaluation tells but its quality
    fresh_fraction: Number = NAN  # null where models meet in lockstep, and while there is nothing to take a share of


class Cosines(Record):
    """Mean cosines between the workers' gradients over `steps` steps, the last being `step`."""

    step: Count
    steps: Count
    matrix: Array

    def __post_init__(self) -> None:
        if not self.matrix.size or self.matrix.shape != (len(self.matrix),) * 2:
            raise ValueError("its matrix is not square")

    @property
    def first_step(self) -> int:
        return self.step - self.steps + 1


LINES: dict[str, type[Step | Evaluation | Cosines | Finding]] = {
    "step": Step,
    "evaluation": Evaluation,
    "cosines": Cosines,
    "finding": Finding,
}


class Event(Record):
    """Of trace.json; those of other kinds than X have no times."""

    ph: str
    name: str = ""
    pid: Number = NAN
    tid: Number = NAN
    ts: Number = NAN
    dur: Number = NAN


class TraceFile(Record, rename="camel"):
    trace_events: list[Event]


class Table(Record):
    """Cells as people read them."""

    columns: Annotated[list[str], Meta(min_length=1)]
    rows: list[list[str]]

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError("its rows are not as long as its columns are many")


class Spread(Record):
    """Over the seeds."""

    mean: Number = NAN
    median: Number = NAN
    min: Number = NAN
    max: Number = NAN


class CurveQuality(Record):
    mean: Array
    median: Array
    min: Array
    max: Array


class Curve(Record):
    """Quality over the seeds at the steps that all have evaluated."""

    steps: Array
    time_s: Array
    quality: CurveQuality

    def __post_init__(self) -> None:
        quality = self.quality
        columns = (self.steps, self.time_s, quality.mean, quality.median, quality.min, quality.max)
        if len({column.size for column in columns}) > 1:
            raise ValueError("its columns are of different lengths")

    def middle(self, statistic: str) -> Array:
        """What the table tells of the seeds: their median, or their mean."""
        return self.quality.median if statistic == "median" else self.quality.mean


class Searched(Record):
    name: str
    value: str


class Tried(Record):
    value: str
    quality: Spread


class Row(Record):
    """One algorithm of a case."""

    algorithm: str
    runs: Count
    samples_per_s: Spread
    wait_share: Spread
    folders: list[FolderName]
    tried: list[Tried]
    diverged: Count = 0
    quality: Spread = field(default_factory=Spread)  # unknown where runs have no gradients
    share_of_ideal: Spread | None = None
    fresh_fraction: Spread | None = None
    mean_staleness: Spread | None = None
    staleness: list[Count] | None = None
    target_time_s: Spread | None = None
    target_reached: Count | None = None
    searched: Searched | None = None
    curve: Curve | None = None


class Case(Record):
    workers: Count
    batch: Count
    statistic: str  # what the table shows of quality: single, mean or median
    verdict: str
    rows: Annotated[list[Row], Meta(min_length=1)]
    target: Number = NAN  # the quality to which times are told
    # As people read it (lab/compare/tables.h). Older comparisons have no table.
    about: str = ""
    table: Table | None = None
    tried_table: Table | None = None
    notes: list[str] = []

    def __post_init__(self) -> None:
        if self.table and [row[0] for row in self.table.rows] != [row.algorithm for row in self.rows]:
            raise ValueError("its table is not of the algorithms of its rows")


class How(Record):
    engine: str
    task: str
    platform: str = ""
    seeds: Count = 1
    first_seed: Count = 1
    task_settings: dict[str, Scalar] = {}
    pace: Pace = field(default_factory=Pace)


class ComparisonFile(Record):
    """compare.json."""

    interrupted: bool
    how: How
    cases: list[Case]
    metric: str = ""  # empty: the runs had no gradients, and nothing is about quality
    lower_is_better: bool = True


class Series(Record):
    """Series of one name belong together: a line and points, say, of what was simulated and what was published."""

    name: str
    mark: Literal["line", "points"]
    x: Array
    y: Array

    def __post_init__(self) -> None:
        if self.x.size != self.y.size:
            raise ValueError(f"series {self.name!r} has {self.x.size} places and {self.y.size} values")


class StudyPicture(Record):
    title: str
    x_title: str
    y_title: str
    log_x: bool
    log_y: bool
    series: list[Series]
    x_names: list[str] = []  # of the places 0, 1, ... on the x axis


class StudyTable(Table):
    name: str  # of its picture's file
    title: str
    picture: StudyPicture

    def __post_init__(self) -> None:
        super().__post_init__()
        if Path(self.name).name != self.name:
            raise ValueError(f"table {self.name!r} is no name of a file")


class StudyFile(Record):
    """study.json."""

    study: str
    description: str
    words: list[str]
    tables: list[StudyTable]
