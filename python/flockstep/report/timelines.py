"""What every worker did for the length of a step or two: computing, waiting, transferring, averaging in rounds.

From trace.json. Runs with the same seed have the same late workers in the same steps, so one step can be shown of several
algorithms.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from flockstep.report.errors import MissingFileError, ReportError
from flockstep.report.reading import Comparison, Run, read_record
from flockstep.report.records import Array, Case, TraceFile
from flockstep.report.sheet import Entry, Picture, Sheet
from flockstep.report.style import GREY, INK, PALETTE, PAPER, box_swatch
from flockstep.report.words import counted, name_workers

# Operations of all workers together: nothing moves before the last worker has started them.
COLLECTIVES = ("all_to_all", "all_gather", "small_sum", "gather", "barrier")
STANDSTILLS = ("meeting of all workers", "halt of all workers")
TRACKS = ("compute", "wait", "transfer", "rounds")  # by their numbers in the file
MOST_WORKERS = 2**20
LATE_FROM = 1.5  # times as long as half of the workers
CALM_STEPS = 5  # more than these without a meeting of all workers make no better view
MOST_ROWS = 10
NO_GAP = 0.002  # of the time shown, and less, between two spans
BEFORE = 0.06  # of the time shown lies before the step
# Lightness and hatches tell them apart without colours. What happens beside computing has a thin bar below it.
LOOKS: dict[str, dict[str, Any]] = {
    "compute": {"facecolor": PALETTE[0], "edgecolor": PAPER, "linewidth": 0.3},
    "wait": {"facecolor": PAPER, "edgecolor": PALETTE[1], "hatch": "//////", "linewidth": 0.5},
    "transfer": {"facecolor": GREY, "edgecolor": GREY, "linewidth": 0},
    "rounds": {"facecolor": PAPER, "edgecolor": INK, "linewidth": 0.7},
}
NAMES = {"compute": "computing", "wait": "waiting", "transfer": "transferring", "rounds": "in a round of averages"}
BARS = {"compute": (-0.42, 0.56), "wait": (-0.42, 0.56), "transfer": (0.2, 0.17), "rounds": (0.2, 0.17)}


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
        meetings = np.sort(self.begin[(self.worker == 0) & np.isin(self.name, STANDSTILLS)])
        before = np.append(np.searchsorted(begins, meetings), self.steps)  # steps that were done by then
        here = np.arange(self.steps)
        left: NDArray[np.int64] = before[np.searchsorted(before, here, side="right").clip(max=before.size - 1)] - here
        return left


def begin_with_the_last(trace: Trace) -> None:
    """Lets each collective operation begin when the last worker starts it: before that, the others only wait for it."""
    for name in COLLECTIVES:
        kinds = (trace.track == TRACKS.index("transfer")) & (trace.name == name)
        by_worker = [np.flatnonzero(kinds & (trace.worker == worker)) for worker in range(trace.workers)]
        count = min(places.size for places in by_worker)
        if count == 0:
            continue
        places = np.array([mine[np.argsort(trace.begin[mine], kind="stable")][:count] for mine in by_worker])
        last = trace.begin[places].max(axis=0)
        trace.begin[places] = np.minimum(np.maximum(trace.begin[places], last), trace.end[places])


def read_trace(folder: Path) -> Trace | None:
    """None where there is none, or too little in it to show: a run that was killed has not written it."""
    path = folder / "trace.json"
    try:
        saved = read_record(path, TraceFile)
    except MissingFileError:
        return None
    spans = [event for event in saved.trace_events if event.ph == "X"]
    if not spans:
        return None
    numbers = np.array([(span.pid, span.tid, span.ts, span.dur) for span in spans], dtype=np.float64)
    if not (np.isfinite(numbers).all() and (numbers[:, :2] >= 0).all() and numbers[:, 0].max() < MOST_WORKERS):
        raise ReportError(f"{path} is damaged: a span's worker or time is no number that can be")
    worker, track = numbers[:, 0].astype(np.int64), numbers[:, 1].astype(np.int64)
    ends_s = (numbers[:, 2] + numbers[:, 3]) / 1e6
    trace = Trace(worker, track, numbers[:, 2] / 1e6, ends_s, np.array([span.name for span in spans]))
    begin_with_the_last(trace)
    return trace if trace.steps >= 2 and trace.step_s() > 0 else None


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


def rows_of(workers: int, always: int) -> list[int]:
    """All, or so many as fit, evenly from first to last, with the one that must not lack."""
    if workers <= MOST_ROWS:
        return list(range(workers))
    chosen = set(np.linspace(0, workers - 1, MOST_ROWS).round().astype(int).tolist())
    if always not in chosen:
        chosen.remove(min(chosen, key=lambda worker: abs(worker - always)))
    return sorted(chosen | {always})


def _unit(seconds: float) -> tuple[float, str]:
    return (1.0, "s") if seconds >= 1 else (1e3, "ms") if seconds >= 1e-3 else (1e6, "µs")


def duration_text(seconds: float) -> str:
    """To two digits, such as 15 ms or 350 µs."""
    factor, unit = _unit(seconds)
    return f"{float(f'{factor * seconds:.2g}'):g} {unit}"


def steps_each(trace: Trace, begin: float, end: float) -> str:
    """How many steps a worker finished in this time, such as "1 step each" or "1 to 4 steps each"."""
    ended = (trace.name == "update") & (trace.end > begin) & (trace.end <= end)
    done = np.bincount(trace.worker[ended], minlength=trace.workers)
    few, many = int(done.min()), int(done.max())
    return f"{counted(few, 'step')} each" if few == many else f"{few} to {many} steps each"


def joined(spans: Array, gap: float) -> Array:
    """Begin and length of spans, given as begins and ends, with those closer than `gap` in one: no eye would part them."""
    ordered = spans[np.argsort(spans[:, 0])]
    starts, ends = ordered[:, 0], np.maximum.accumulate(ordered[:, 1])
    new = np.append(True, starts[1:] - ends[:-1] > gap) if len(ordered) else np.zeros(0, dtype=bool)
    last = np.append(np.flatnonzero(new)[1:], len(ordered)) - 1
    return np.column_stack([starts[new], ends[last[: new.sum()]] - starts[new]])


def _parts(trace: Trace, worker: int, track: str, begin: float, end: float) -> Array:
    """Begin and length of the spans, cut off at the ends of what is shown."""
    mine = (trace.worker == worker) & (trace.track == TRACKS.index(track)) & (trace.end > begin) & (trace.begin < end)
    spans = np.column_stack([np.maximum(trace.begin[mine], begin), np.minimum(trace.end[mine], end)]) - begin
    return joined(spans, NO_GAP * (end - begin))


def _is_seen(trace: Trace, worker: int, step: int, begin: float, end: float) -> bool:
    """Where nobody waits for everybody, others may have made this step long before."""
    begins, ends = trace.gradients[worker]
    return bool(ends[step] > begin and begins[step] < end)


def draw(trace: Trace, moment: Moment, name: str) -> Picture:
    begin = float(trace.gradients[moment.worker][0][moment.step]) - BEFORE * moment.seconds
    end = begin + moment.seconds
    factor, unit = _unit(moment.seconds)
    rows = rows_of(trace.workers, moment.worker)
    sheet = Sheet(0.62 + 0.2 * len(rows))
    axes = sheet.axes()
    seen = set()
    for place, worker in enumerate(rows):
        for track, look in LOOKS.items():
            parts = _parts(trace, worker, track, begin, end)
            if parts.size:
                seen.add(track)
                low, height = BARS[track]
                for start, length in factor * parts:
                    drawn = axes.add_patch(Rectangle((start, place + low), length, height, clip_on=False, **look))
                    sheet.tell(drawn, NAMES[track], f"worker {worker}: {NAMES[track]}, {length:.3g} {unit}")
    late = [worker for worker in moment.late if _is_seen(trace, worker, moment.step, begin, end)]
    names = [f"{worker}, late" if worker in late else str(worker) for worker in rows]
    axes.set_yticks(range(len(rows)), names)
    axes.set(xlim=(0, factor * moment.seconds), ylim=(len(rows) - 0.45, -0.55), xlabel=f"{unit}, by worker")
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    for track, look in LOOKS.items():
        if track in seen:
            key = box_swatch(look["facecolor"], look["edgecolor"], "hatch" in look)
            sheet.legend.append(Entry(NAMES[track], NAMES[track], key))
    title = (
        f"{name}: {counted(trace.workers, 'worker')}, {duration_text(moment.seconds)}, {steps_each(trace, begin, end)}"
    )
    shown = f" (shown: {len(rows)} of {trace.workers})" if len(rows) < trace.workers else ""
    said = f"late: worker {name_workers(late)}" if late else "nobody is late"
    what = ", ".join(NAMES[track] for track in LOOKS if track in seen)
    return sheet.picture(title + shown, f"Timeline, a row for each worker{shown}: {what}; {said}. {title}.")


def of_run(run: Run) -> Picture | None:
    trace = read_trace(run.folder)
    return draw(trace, choose_moment([trace]), run.summary.algorithm if run.summary else "this run") if trace else None


def of_case(comparison: Comparison, case: Case) -> list[Picture]:
    """The same step of every algorithm, on the same scale, from the run with the first seed."""
    found = {row.algorithm: read_trace(comparison.folder / row.folders[0]) for row in case.rows if row.folders}
    traces = {label: trace for label, trace in found.items() if trace and trace.workers == case.workers}
    if not traces:
        return []
    moment = choose_moment(list(traces.values()))
    return [draw(trace, moment, label) for label, trace in traces.items()]
