"""How long steps computed, waiting left out: how uneven a workload is before any algorithm has to cope with it."""

from typing import Any

import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from flockstep.report.shapes import STEP_TIME_BINS
from flockstep.report.style import PALETTE, Picture, new_figure, picture_of, plain, y_title
from flockstep.report.tables import time_text
from flockstep.report.values import Array, Case, Run, number

# Bin k of a summary begins at SHORTEST * 10 ** (k / PER_DECADE) seconds (src/train/step_times.h).
SHORTEST, PER_DECADE = 1e-6, 40
MOST_BARS = 40


def merged(distributions: list[dict[str, Any]]) -> tuple[Array, Array]:
    """The edges of bars, one more than there are, and the counts of several runs in them."""
    counts = np.zeros(STEP_TIME_BINS)
    for each in distributions:
        counts[each["first_bin"] : each["first_bin"] + len(each["counts"])] += each["counts"]
    known = np.flatnonzero(counts)
    together = next(size for size in (1, 2, 4, 5, 10) if known[-1] // size - known[0] // size < MOST_BARS)
    first, end = known[0] // together, known[-1] // together + 1
    edges = SHORTEST * 10 ** (together * np.arange(first, end + 1) / PER_DECADE)
    return edges, counts.reshape(-1, together).sum(axis=1)[first:end]


def sentence(times: dict[str, Any]) -> str:
    """The middle and the tail of the distribution."""
    median, tail, longest = (number(times[name]) for name in ("median_s", "p99_s", "longest_s"))
    ratio = f"; one in a hundred took {tail / median:.2g} times that or more" if median > 0 else ""
    return f"Half of the steps computed for {time_text(median)} or less{ratio}, the longest {time_text(longest)}"


def _picture(distributions: list[dict[str, Any]], title: str) -> Picture:
    edges, counts = merged(distributions)
    figure = new_figure()
    axes = figure.subplots()
    axes.bar(edges[:-1], 100 * counts / counts.sum(), width=np.diff(edges), align="edge", color=PALETTE[0])
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if edges[-1] / edges[0] < 100 else (1,)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: time_text(value)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(axis="x", visible=False)
    axes.set_xlabel("time that a step computes")
    y_title(axes, "share of all steps (%)")
    return picture_of(figure, plain(title), f"Histogram: {title}.")


def of_run(run: Run) -> Picture | None:
    times = run.summary.get("step_times")
    if not times or not sum(times["counts"]):
        return None
    return _picture([times], sentence(times))


def of_case(case: Case) -> Picture | None:
    """Of the first algorithm: how long a step computes hardly depends on the others."""
    for row in case.rows:
        known = [times for times in row.step_times if sum(times["counts"])]
        if known:
            of_seeds = f", {len(known)} seeds" if len(known) > 1 else ""
            return _picture(known, f"How long steps of {row.label} computed, waiting left out{of_seeds}")
    return None
