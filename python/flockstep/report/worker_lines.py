"""A line per worker over the steps: all in colour while they are few, the notable ones in colour when they are many."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from flockstep.report.series import MOST_POINTS, MovingMeans, means, range_without_outliers
from flockstep.report.style import GREY, PALETTE, colour, legend, look, new_figure, y_title
from flockstep.report.values import Array

FEW = 12
FAINT_UP_TO = 4  # workers whose single steps are shown behind their means
MOST_FLAGGED = 5
HIGHLIGHTS = (PALETTE[1], PALETTE[0], PALETTE[2], *PALETTE[3:])  # a flagged worker comes first
RASTER_FROM = 33  # so many lines are lighter as pixels


def notable(values: Array, flagged: list[int]) -> dict[int, str]:
    """The workers to name among many, and why: those that a finding is about, and the extremes of the mean."""
    chosen = {worker: "flagged" for worker in flagged[:MOST_FLAGGED]}
    overall = means(values)
    if np.isfinite(overall).any() and np.nanmax(overall) > np.nanmin(overall):
        chosen.setdefault(int(np.nanargmax(overall)), "highest mean")
        chosen.setdefault(int(np.nanargmin(overall)), "lowest mean")
    return chosen


def draw_few(axes: Axes, steps: Array, values: Array, flagged: list[int]) -> None:
    for worker in range(values.shape[1]):
        label = f"{worker} (flagged)" if worker in flagged else str(worker)
        width, order = (2.6, 4) if worker in flagged else (1.3, 3)
        axes.plot(
            *(steps, values[:, worker]),
            **look(worker, len(steps)),
            linewidth=width,
            zorder=order,
            label=label,
        )


def draw_faint(axes: Axes, steps: Array, values: Array) -> None:
    """Single steps behind the means of few workers."""
    for worker in range(values.shape[1]):
        axes.plot(steps, values[:, worker], color=colour(worker), linewidth=0.6, alpha=0.18, zorder=1)


def draw_many(axes: Axes, steps: Array, values: Array, flagged: list[int]) -> None:
    workers = values.shape[1]
    named = notable(values, flagged)
    others = [np.column_stack([steps, values[:, worker]]) for worker in range(workers) if worker not in named]
    lines = LineCollection(others, colors=GREY, linewidths=0.5, alpha=0.35, zorder=1)
    lines.set_rasterized(workers >= RASTER_FROM)
    axes.add_collection(lines)
    axes.autoscale_view()
    for place, (worker, why) in enumerate(named.items()):
        like = {**look(place, len(steps)), "color": HIGHLIGHTS[place % len(HIGHLIGHTS)]}
        axes.plot(steps, values[:, worker], **like, linewidth=1.8, zorder=3, label=f"{worker} ({why})")
    axes.add_line(Line2D([], [], color=GREY, linewidth=0.8, alpha=0.6, label=f"the other {len(others)}"))


def worker_figure(
    y_label: str, steps: Array, values: Array, flagged: list[int], without_outliers: bool = False
) -> tuple[Figure, Axes]:
    """`without_outliers`: a few values far from all others may lie beyond the axis, which then says so."""
    calm = MovingMeans.over(len(steps))
    figure = new_figure()
    axes = figure.subplots()
    flagged = [worker for worker in flagged if worker < values.shape[1]]
    few = values.shape[1] <= FEW
    lines = drawn = calm.of(values)
    if values.shape[1] <= FAINT_UP_TO and calm.window > 1 and len(steps) <= MOST_POINTS:
        draw_faint(axes, steps, values)
        drawn = values
    draw = draw_few if few else draw_many
    draw(axes, steps[calm.centres], lines, flagged)
    axes.set_xlabel(calm.axis_label)
    if without_outliers and (limits := range_without_outliers(values, drawn)):
        low, high, beyond = limits
        margin = 0.05 * (high - low)
        axes.set_ylim(low - margin, high + margin)
        y_label += f" ({beyond} of {np.isfinite(drawn).sum()} cut off)"
    y_title(axes, y_label)
    legend(figure, axes, "worker")
    return figure, axes
