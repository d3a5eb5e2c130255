"""What every worker did for the length of a step or two: computing, waiting, transferring, averaging in rounds."""

from typing import Any

import numpy as np
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from flockstep.report.style import GREY, INK, PALETTE, Picture, legend, new_figure, picture_of
from flockstep.report.traces import TRACKS, Moment, Trace, choose_moment, read_trace
from flockstep.report.values import Array, Case, Comparison, Run
from flockstep.report.wording import counted, name_workers

MOST_ROWS = 10
BEFORE = 0.06  # of the time shown lies before the step
# Lightness and hatches tell them apart without colours. What happens beside computing has a thin bar below it.
LOOKS: dict[str, dict[str, Any]] = {
    "compute": {"facecolor": PALETTE[0], "edgecolor": "white", "linewidth": 0.3, "label": "computing"},
    "wait": {"facecolor": "white", "edgecolor": PALETTE[1], "hatch": "//////", "linewidth": 0.5, "label": "waiting"},
    "transfer": {"facecolor": GREY, "edgecolor": GREY, "linewidth": 0, "label": "transferring"},
    "rounds": {"facecolor": "white", "edgecolor": INK, "linewidth": 0.7, "label": "in a round of averages"},
}
BARS = {"compute": (-0.42, 0.56), "wait": (-0.42, 0.56), "transfer": (0.2, 0.17), "rounds": (0.2, 0.17)}


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


def finished_steps(trace: Trace, begin: float, end: float) -> int:
    """Updates that ended in this time, on all workers together."""
    ended = trace.end[trace.name == "update"]
    return int(((ended > begin) & (ended <= end)).sum())


def _parts(trace: Trace, worker: int, track: str, begin: float, end: float) -> Array:
    """Begin and length of the spans, cut off at the ends of what is shown."""
    mine = (trace.worker == worker) & (trace.track == TRACKS.index(track)) & (trace.end > begin) & (trace.begin < end)
    starts = np.maximum(trace.begin[mine], begin)
    return np.column_stack([starts - begin, np.minimum(trace.end[mine], end) - starts])


def _is_seen(trace: Trace, worker: int, step: int, begin: float, end: float) -> bool:
    """Where nobody waits for everybody, others may have made this step long before."""
    begins, ends = trace.gradients[worker]
    return bool(ends[step] > begin and begins[step] < end)


def draw(trace: Trace, moment: Moment, name: str) -> Picture:
    begin = float(trace.gradients[moment.worker][0][moment.step]) - BEFORE * moment.seconds
    end = begin + moment.seconds
    factor, unit = _unit(moment.seconds)
    rows = rows_of(trace.workers, moment.worker)
    figure = new_figure(height=0.62 + 0.2 * len(rows))
    axes = figure.subplots()
    seen = set()
    for place, worker in enumerate(rows):
        for track, look in LOOKS.items():
            parts = _parts(trace, worker, track, begin, end)
            if parts.size:
                seen.add(track)
                low, height = BARS[track]
                axes.broken_barh((factor * parts).tolist(), (place + low, height), **{**look, "label": None})
    late = [worker for worker in moment.late if _is_seen(trace, worker, moment.step, begin, end)]
    names = [f"{worker}, late" if worker in late else str(worker) for worker in rows]
    axes.set_yticks(range(len(rows)), names)
    axes.set(xlim=(0, factor * moment.seconds), ylim=(len(rows) - 0.45, -0.55), xlabel=f"{unit}, by worker")
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    for track in LOOKS:
        if track in seen:
            axes.add_patch(Rectangle((0, 0), 0, 0, **LOOKS[track]))
    legend(figure, axes)
    done = counted(finished_steps(trace, begin, end), "step")
    title = f"{name}: {counted(trace.workers, 'worker')}, {duration_text(moment.seconds)}, {done} finished"
    shown = f" (shown: {len(rows)} of {trace.workers})" if len(rows) < trace.workers else ""
    said = f"late: worker {name_workers(late)}" if late else "nobody is late"
    what = ", ".join(str(LOOKS[track]["label"]) for track in LOOKS if track in seen)
    return picture_of(figure, title + shown, f"Timeline, a row for each worker{shown}: {what}; {said}. {title}.")


def of_run(run: Run) -> Picture | None:
    trace = read_trace(run.folder)
    return draw(trace, choose_moment([trace]), str(run.summary.get("algorithm", "this run"))) if trace else None


def of_case(comparison: Comparison, case: Case) -> list[Picture]:
    """The same step of every algorithm, on the same scale, from the run with the first seed."""
    found = {
        row.label: read_trace(comparison.folder / row.figures["folders"][0])
        for row in case.rows
        if row.figures["folders"]
    }
    traces = {label: trace for label, trace in found.items() if trace and trace.workers == case.workers}
    if not traces:
        return []
    moment = choose_moment(list(traces.values()))
    return [draw(trace, moment, label) for label, trace in traces.items()]
