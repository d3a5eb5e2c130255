"""A line per worker over the steps: all in colour while they are few, the notable ones in colour when they are many.

Long series are made short and calm enough to be drawn.
"""

import math
import warnings
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from numpy.typing import NDArray

from flockstep.report.records import Array
from flockstep.report.sheet import Entry, Sheet
from flockstep.report.style import GREY, box_swatch, colour, y_title

MOST_POINTS = 300
MOST_RAW_STEPS = 100  # up to so many, lines of single steps can be told apart
TAIL = 0.025  # of a worker's values at either end, which shall not rule the range that is shown
FEWEST_FOR_TAILS = 20
FEW = 4  # lines that cross each other at every step and can still be told apart
MOST_FLAGGED = 5
HIGHLIGHTS = (1, 0, 2, 3, 4, 5, 6, 7, 8, 9)  # places in the palette; a flagged worker comes first
RASTER_FROM = 33  # so many lines are lighter as pixels


def means(values: Array, axis: int = 0) -> Array:
    """Means that skip NaN, and are NaN where there is nothing else."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.asarray(np.nanmean(values, axis=axis))


@dataclass
class Bins:
    """Cuts a long series into at most MOST_POINTS stretches of equal length, to be drawn as their means."""

    edges: list[int]
    width: int

    @classmethod
    def over(cls, count: int) -> "Bins":
        width = max(1, math.ceil(count / MOST_POINTS))
        return cls(list(range(0, count, width)), width)

    def means(self, values: Array) -> Array:
        if self.width == 1:
            return values
        return np.array([means(values[begin : begin + self.width]) for begin in self.edges])

    def sums(self, values: Array) -> Array:
        return np.add.reduceat(values, self.edges) if self.edges else values

    @property
    def axis_label(self) -> str:
        return "step" if self.width == 1 else f"step (means over {self.width})"


@dataclass
class MovingMeans:
    """Means over a window around each of at most MOST_POINTS steps; the steps themselves while they are few."""

    centres: NDArray[np.int64]
    window: int

    @classmethod
    def over(cls, count: int) -> "MovingMeans":
        """The window is about a twentieth of the run, and a round number: 1, 2 or 5 and zeros."""
        centres = np.unique(np.linspace(0, count - 1, min(count, MOST_POINTS)).round().astype(np.int64))
        if count <= MOST_RAW_STEPS:
            return cls(centres, 1)
        power = 10 ** int(math.log10(count / 20))
        return cls(centres, max(factor * power for factor in (1, 2, 5) if factor * power <= count / 20))

    def of(self, values: Array) -> Array:
        """Of a table with a row per step. Skips NaN, yet a column ends where others go on without it."""
        if self.window == 1:
            return values[self.centres]
        before = (self.window - 1) // 2
        begins = self.centres - before
        calm = np.array([means(values[max(0, begin) : begin + self.window]) for begin in begins])
        there = np.isfinite(values[self.centres])
        calm[~there & there.any(axis=1, keepdims=True)] = math.nan
        return calm

    @property
    def axis_label(self) -> str:
        return "step" if self.window == 1 else f"step (moving means over {self.window})"


def range_without_outliers(values: Array, drawn: Array) -> tuple[float, float, int] | None:
    """The part of the range of `drawn` where nearly all of every column of `values` is, and how many points lie beyond.

    None when there are no such points. By columns, so that a worker that is always odd stays in sight however many
    others there are; and by the values themselves even if only their means are drawn, since one outlier reaches into
    as many means as a window is long.
    """
    known = [np.sort(column[np.isfinite(column)]) for column in values.T]
    known = [column for column in known if column.size >= FEWEST_FOR_TAILS]
    if not known:
        return None
    cuts = [math.ceil(TAIL * column.size) for column in known]
    low = min(float(column[cut]) for column, cut in zip(known, cuts, strict=True))
    high = max(float(column[-1 - cut]) for column, cut in zip(known, cuts, strict=True))
    room = 0.5 * max(high - low, 0.1 * max(abs(low), abs(high)), 1e-9)
    least, most = float(np.nanmin(drawn)), float(np.nanmax(drawn))
    low = low - 0.2 * room if least < low - room else least
    high = high + 0.2 * room if most > high + room else most
    beyond = int(np.sum((drawn < low) | (drawn > high)))
    return (low, high, beyond) if beyond else None


def notable(values: Array, flagged: list[int]) -> dict[int, str]:
    """The workers to name among many, and why: those that a finding is about, and the extremes of the mean."""
    chosen = {worker: "flagged" for worker in flagged[:MOST_FLAGGED]}
    overall = means(values)
    if np.isfinite(overall).any() and np.nanmax(overall) > np.nanmin(overall):
        chosen.setdefault(int(np.nanargmax(overall)), "highest mean")
        chosen.setdefault(int(np.nanargmin(overall)), "lowest mean")
    return chosen


def draw_few(sheet: Sheet, axes: Axes, steps: Array, values: Array, flagged: list[int]) -> None:
    for worker in range(values.shape[1]):
        label = f"{worker} (flagged)" if worker in flagged else str(worker)
        width, order = (2.6, 4) if worker in flagged else (1.3, 3)
        sheet.line(axes, series_of(worker), steps, values[:, worker], worker, label, linewidth=width, zorder=order)


def series_of(worker: int) -> str:
    return f"worker {worker}"


def draw_faint(sheet: Sheet, axes: Axes, steps: Array, values: Array) -> None:
    """Single steps behind the means of few workers."""
    for worker in range(values.shape[1]):
        (drawn,) = axes.plot(steps, values[:, worker], color=colour(worker), linewidth=0.6, alpha=0.18, zorder=1)
        sheet.tell(drawn, series_of(worker))


def draw_many(sheet: Sheet, axes: Axes, steps: Array, values: Array, flagged: list[int]) -> None:
    workers = values.shape[1]
    named = notable(values, flagged)
    for place, (worker, why) in enumerate(named.items()):
        look = HIGHLIGHTS[place % len(HIGHLIGHTS)]
        label = f"{worker} ({why})"
        sheet.line(axes, series_of(worker), steps, values[:, worker], look, label, linewidth=1.8, zorder=3)
    others = [worker for worker in range(workers) if worker not in named]
    name = f"the other {len(others)}" if named else f"all {workers}"
    if workers >= RASTER_FROM:
        segments = [np.column_stack([steps, values[:, worker]]) for worker in others]
        lines = LineCollection(segments, colors=GREY, linewidths=0.5, alpha=0.35, zorder=1, rasterized=True)
        axes.add_collection(lines)
        axes.autoscale_view()
        sheet.tell(lines, name)
    for worker in others if workers < RASTER_FROM else ():
        (line,) = axes.plot(steps, values[:, worker], color=GREY, linewidth=0.5, alpha=0.45, zorder=1)
        sheet.tell(line, series_of(worker), series_of(worker), steps, values[:, worker])
    sheet.legend.append(Entry("", name, box_swatch(GREY, GREY)))


def worker_figure(
    y_label: str, steps: Array, values: Array, flagged: list[int], without_outliers: bool = False
) -> tuple[Sheet, Axes]:
    """`without_outliers`: a few values far from all others may lie beyond the axis, which then says so."""
    calm = MovingMeans.over(len(steps))
    sheet = Sheet(legend_title="worker")
    axes = sheet.axes()
    flagged = [worker for worker in flagged if worker < values.shape[1]]
    few = values.shape[1] <= FEW
    lines = drawn = calm.of(values)
    if few and calm.window > 1 and len(steps) <= MOST_POINTS:
        draw_faint(sheet, axes, steps, values)
        drawn = values
    draw = draw_few if few else draw_many
    draw(sheet, axes, steps[calm.centres], lines, flagged)
    axes.set_xlabel(calm.axis_label)
    note = ""
    if without_outliers and (limits := range_without_outliers(values, drawn)):
        low, high, beyond = limits
        margin = 0.05 * (high - low)
        axes.set_ylim(low - margin, high + margin)
        note = f" ({beyond} of {np.isfinite(drawn).sum()} cut off)"
    y_title(axes, y_label, note)
    return sheet, axes
