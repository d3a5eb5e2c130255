"""The pictures of one case of a comparison. An algorithm has one colour on the whole page."""

import math
from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter, MaxNLocator, NullLocator

from flockstep.report.style import (
    GREY,
    WIDE,
    Picture,
    capitalised,
    colour,
    dashes,
    fit_y,
    legend,
    new_figure,
    picture_of,
    plain,
    short,
    spans_decades,
)
from flockstep.report.values import LARGEST_DRAWN, Array, Case, Comparison, Evaluation, Row, drawn_number

Colours = dict[str, int]  # an algorithm's place in the palette


def colours_of(comparison: Comparison) -> Colours:
    labels = [row.label for case in comparison.cases for row in case.rows]
    return {label: index for index, label in enumerate(dict.fromkeys(labels))}


def over_seeds(
    lower_is_better: bool, curves: list[list[Evaluation]], x_of: Callable[[Evaluation], float]
) -> tuple[Array, Array, Array, Array]:
    """x, median, lowest and highest quality at every step that was evaluated.

    A seed that diverged counts as worst, so where half of them did there is no median and the line has a gap.
    """
    worst = math.inf if lower_is_better else -math.inf
    steps = sorted({evaluation.step for curve in curves for evaluation in curve})
    columns = []
    for step in steps:
        here = [evaluation for curve in curves for evaluation in curve if evaluation.step == step]
        known = [evaluation.quality for evaluation in here if math.isfinite(evaluation.quality)]
        median = float(np.median([*known, *[worst] * (len(here) - len(known))]))
        x = float(np.median([x_of(evaluation) for evaluation in here]))
        ends = (min(known), max(known)) if known else (math.nan, math.nan)
        columns.append((x, median if math.isfinite(median) else math.nan, *ends))
    table = np.array(columns, dtype=np.float64).reshape(-1, 4)
    return table[:, 0], table[:, 1], table[:, 2], table[:, 3]


def zoom_past_the_start(axes: Axes, series: list[Array]) -> bool:
    """Where an untrained model lies far from all that follows, shows what follows. Says whether it does."""
    everything = np.concatenate(series)
    later = np.concatenate([values[1:] for values in series])
    later = later[np.isfinite(later)]
    if (
        later.size < 2
        or later.max() == later.min()
        or np.nanmax(everything) - np.nanmin(everything) < 2 * np.ptp(later)
    ):
        return False
    margin = 0.05 * np.ptp(later)
    axes.set_ylim(later.min() - margin, later.max() + margin)
    return True


def _curves(
    comparison: Comparison, case: Case, colours: Colours, x_of: Callable[[Evaluation], float], title: str, x_label: str
) -> Picture | None:
    rows = [row for row in case.rows if any(row.curves)]
    if not rows:
        return None
    figure = new_figure(height=3.4 + 0.11 * len(rows))  # the legend grows
    axes = figure.subplots()
    drawn = []
    faint = 0.14 if len(rows) <= 4 else 0.06
    seeds = max(len(row.curves) for row in rows)
    for row in rows:
        place = colours[row.label]
        x, median, low, high = over_seeds(comparison.lower_is_better, row.curves, x_of)
        axes.plot(x, median, color=colour(place), linestyle=dashes(place), label=plain(row.label))
        if seeds > 1:
            axes.fill_between(x, low, high, color=colour(place), alpha=faint, linewidth=0)
        drawn += [low, high]
    fit_y(axes, np.concatenate(drawn))
    cut = axes.get_yscale() == "linear" and zoom_past_the_start(axes, drawn)
    axes.set(
        title=plain(title),
        xlabel=x_label,
        ylabel=plain(comparison.metric)
        + (" (lower is better)" if comparison.lower_is_better else "")
        + (", without the start" if cut else ""),
    )
    legend(figure, axes)
    names = ", ".join(row.label for row in rows)
    return picture_of(figure, f"Lines, one per algorithm ({names}): {title}.")


def against_step(comparison: Comparison, case: Case, colours: Colours) -> Picture | None:
    title = f"{capitalised(comparison.metric)} against steps"
    return _curves(comparison, case, colours, lambda evaluation: evaluation.step, title, "step")


def against_time(comparison: Comparison, case: Case, colours: Colours) -> Picture | None:
    title = f"{capitalised(comparison.metric)} against time"
    return _curves(comparison, case, colours, lambda evaluation: evaluation.time_s, title, "time in steps (s)")


def throughput(case: Case, colours: Colours) -> Picture:
    """Samples per second, with the range over the seeds, and beside it what they cost: how much of the time went into
    waiting and, where averages do not wait for everybody, how many held the model that was merged with them."""
    rows = case.rows
    panels = [("samples_per_s", "Throughput", "samples/s, all workers")]
    panels.append(("wait_share", "Waiting", "% of the time in steps"))
    if any(row.figures.get("fresh_fraction") for row in rows):
        panels.append(("fresh_fraction", "Fresh", "% of merged steps"))
    figure = new_figure(height=1.3 + 0.36 * len(rows), width=WIDE)
    all_axes = figure.subplots(1, len(panels), sharey=True, width_ratios=(3, 2, 2)[: len(panels)])
    places = np.arange(len(rows))
    shades = [colour(colours[row.label]) for row in rows]

    def spread(row: Row, figure_name: str, key: str) -> float:
        return drawn_number((row.figures.get(figure_name) or {}).get(key))

    for axes, (name, title, unit) in zip(all_axes, panels, strict=True):
        is_share = name != "samples_per_s"
        scale = 100.0 if is_share else 1.0
        middle = np.array([scale * spread(row, name, "mean") for row in rows])
        axes.barh(places, middle, height=0.62, color=shades)
        ends = scale * np.array([[spread(row, name, key) for row in rows] for key in ("min", "max")])
        if any(row.figures["runs"] > 1 for row in rows):
            reach = np.maximum(np.abs(ends - middle), 0)
            axes.errorbar(middle, places, xerr=reach, fmt="none", ecolor=GREY, capsize=3, linewidth=1)
        for place, value in enumerate(middle):
            if not rows[place].figures.get(name):  # in lockstep nothing is fresh or stale
                continue
            # Behind the whisker, so that neither hides the other.
            end = max((each for each in (value, ends[1][place]) if math.isfinite(each)), default=0.0)
            text = f"{value:.0f}%" if is_share and math.isfinite(value) else short(value)
            axes.annotate(text, (end, place), xytext=(5, 0), textcoords="offset points", va="center", fontsize=9)
        axes.margins(x=0.16 if len(panels) == 2 else 0.22)
        axes.set_xlim(left=0)
        axes.xaxis.set_major_locator(MaxNLocator(4 if is_share or len(panels) > 2 else 5))
        axes.grid(axis="y", visible=False)
        axes.tick_params(axis="y", length=0)
        axes.set(title=title, xlabel=unit)
    speed = all_axes[0]
    speed.xaxis.set_major_formatter(EngFormatter(sep=""))
    speed.set_yticks(places, [plain(row.label) for row in rows])
    speed.invert_yaxis()
    alt = (
        f"Bars: {', '.join(title.lower() for _, title, _ in panels[:-1])} and {panels[-1][1].lower()} of each algorithm"
    )
    known = [row for row in rows if math.isfinite(spread(row, "samples_per_s", "mean"))]
    if known:
        alt += f"; {max(known, key=lambda row: spread(row, 'samples_per_s', 'mean')).label} is the fastest"
    return picture_of(figure, f"{alt}.")


def search(comparison: Comparison, case: Case, colours: Colours) -> Picture | None:
    """Quality against the searched option, for the algorithms that it concerns."""
    searched = [row for row in case.rows if row.figures.get("searched") and row.figures["tried"]]
    try:
        tried = {
            row.label: sorted(
                (float(each["value"]), drawn_number(each["quality"]["mean"])) for each in row.figures["tried"]
            )
            for row in searched
        }
    except ValueError:  # words have no place on an axis; the table lists them
        return None
    values = np.unique([value for points in tried.values() for value, _ in points])
    if not values.size or not (np.abs(values) <= LARGEST_DRAWN).all():
        return None
    name = str(searched[0].figures["searched"]["name"])
    figure = new_figure(height=3.7)
    axes = figure.subplots()
    for label, points in tried.items():
        place = colours[label]
        x, y = np.array(points).T
        axes.plot(x, y, color=colour(place), linestyle=dashes(place), marker="o", markersize=4, label=plain(label))
    all_points = np.array([point for points in tried.values() for point in points])
    fit_y(axes, all_points[:, 1])
    if values[0] > 0 and (values[-1] / values[0] >= 8 or spans_decades(values)):
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(values, [f"{value:g}" for value in values])
    title = f"{capitalised(comparison.metric)} for each value tried"
    axes.set(title=plain(title), xlabel=plain(name), ylabel=f"{plain(comparison.metric)}, mean over the seeds")
    legend(figure, axes)
    return picture_of(figure, f"Lines, one per algorithm: {title} of {name}.")
