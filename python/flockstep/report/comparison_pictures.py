"""The curves of one case of a comparison, and its search. An algorithm looks the same on the whole page."""

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from flockstep.report.end_labels import Line, label_ends
from flockstep.report.style import (
    FAINT,
    HEIGHT,
    INK,
    Picture,
    colour,
    fit_y,
    look,
    new_figure,
    picture_of,
    plain,
    spans_decades,
    y_title,
)
from flockstep.report.tables import readable, searched_in
from flockstep.report.values import (
    LARGEST_DRAWN,
    Array,
    Case,
    Colours,
    Comparison,
    Curve,
    Evaluation,
    Row,
    drawn_number,
    number,
)
from flockstep.report.wording import capitalised, counted, listed

MOST_TOLD_APART = 6  # lines of one picture that the eye can follow


def colours_of(comparison: Comparison) -> Colours:
    """Those whose lines stand out first: colours repeat after the tenth."""
    labels = [row.label for case in comparison.cases for row in case.rows]
    apart = {
        label
        for case in comparison.cases[:1]
        for by_time in (False, True)
        for label in told_apart(comparison, case, by_time)
    }
    return {
        label: index for index, label in enumerate(sorted(dict.fromkeys(labels), key=lambda label: label not in apart))
    }


def smoothed(values: Array) -> Array:
    """The running median of five, but for the start, which is the same for all: what single evaluations do hides where
    many lines go."""
    medians = [np.median(values[max(0, index - 2) : index + 3]) for index in range(values.size)]
    return np.where(np.isfinite(values) & (np.arange(values.size) > 0), np.array(medians), values)


def over_seeds(curves: list[list[Evaluation]]) -> Curve:
    """At every step that was evaluated. Where a seed diverged there is no mean, and the line has a gap."""
    steps = sorted({evaluation.step for curve in curves for evaluation in curve})
    columns = []
    for step in steps:
        here = [evaluation for curve in curves for evaluation in curve if evaluation.step == step]
        known = [evaluation.quality for evaluation in here if math.isfinite(evaluation.quality)]
        mean = float(np.mean([evaluation.quality for evaluation in here]))
        median = float(np.median(known)) if len(known) == len(here) else math.nan
        ends = (min(known), max(known)) if known else (math.nan, math.nan)
        columns.append((float(np.mean([evaluation.time_s for evaluation in here])), mean, *ends, median))
    return Curve(np.array(steps, dtype=np.float64), *np.array(columns, dtype=np.float64).reshape(-1, 5).T)


def curve_of(row: Row) -> Curve | None:
    """As the comparison has it, or, of an older one, made from its runs."""
    if row.curve is None and any(row.curves):
        row.curve = over_seeds(row.curves)
    return row.curve if row.curve is not None and row.curve.steps.size else None


def zoom_past_the_start(axes: Axes, curves: list[Curve]) -> bool:
    """Where an untrained model lies far from all that follows, shows what follows. Says whether it does.

    The first fifth of a run is where the models differ least and the numbers most.
    """
    everything = np.concatenate([np.concatenate([curve.low, curve.high]) for curve in curves])
    later = np.concatenate(
        [part[curve.steps >= 0.2 * curve.steps[-1]] for curve in curves for part in (curve.low, curve.high)]
    )
    later = later[np.isfinite(later)]
    if later.size < 2 or np.ptp(later) == 0 or np.nanmax(everything) - np.nanmin(everything) < 2 * np.ptp(later):
        return False
    margin = 0.05 * np.ptp(later)
    axes.set_ylim(later.min() - margin, later.max() + margin)
    return True


def quality_of(row: Row, case: Case) -> float:
    """As the table has it."""
    return number(row.figures["quality"]["median" if case.statistic == "median" else "mean"])


def told_apart(comparison: Comparison, case: Case, by_time: bool) -> set[str]:
    """The algorithms whose lines stand out: of many the first, which is what the others are compared with, and the best;
    against time those that reach the target first."""
    if len(case.rows) <= MOST_TOLD_APART:
        return {row.label for row in case.rows}

    def rank(row: Row) -> tuple[float, float]:
        quality = quality_of(row, case) if comparison.lower_is_better else -quality_of(row, case)
        time_s = number((row.figures.get("target_time_s") or {}).get("median")) if by_time else 0.0
        return tuple(each if math.isfinite(each) else math.inf for each in (time_s, quality))  # type: ignore[return-value]

    best = sorted(case.rows[1:], key=rank)[: MOST_TOLD_APART - 1]
    return {row.label for row in (case.rows[0], *best)}


def _curves(comparison: Comparison, case: Case, colours: Colours, by_time: bool) -> Picture | None:
    rows = [(row, curve) for row in case.rows if (curve := curve_of(row))]
    if not rows:
        return None
    apart = told_apart(comparison, case, by_time)
    many = len(apart) < len(case.rows)
    figure = new_figure(height=HEIGHT + (1.2 if many else 0.5))
    axes = figure.subplots()
    faint = 0.14 if len(apart) <= 4 else 0.08
    ends = []
    for row, curve in rows:
        place = colours[row.label]
        x = curve.time_s if by_time else curve.steps
        y = curve.middle(case.statistic)
        y = smoothed(y) if many else y
        if row.label not in apart:
            axes.plot(x, y, color=FAINT, linewidth=0.9, zorder=1)
            continue
        axes.plot(x, y, **look(place, x.size), label=plain(row.label))
        if row.figures["runs"] > 1 and not many:
            axes.fill_between(x, curve.low, curve.high, color=colour(place), alpha=faint, linewidth=0)
        quality = quality_of(row, case)
        end = quality if many else float(y[-1])
        ends.append(Line(row.label, float(x[-1]), end, colour(place), readable(quality)))
    drawn = [curve for _, curve in rows]
    fit_y(axes, np.concatenate([part for curve in drawn for part in (curve.low, curve.high)]))
    cut = axes.get_yscale() == "linear" and zoom_past_the_start(axes, drawn)
    target = case.target
    if math.isfinite(target):
        axes.axhline(target, color=INK, linewidth=0.8, linestyle=(0, (1, 2)), zorder=1)
        axes.annotate(
            f"target {readable(target)}",
            (0.01, target),
            (0, 2),
            xycoords=axes.get_yaxis_transform(),
            textcoords="offset points",
            fontsize=8.5,
        )
    axes.set_xlabel("time in steps (s)" if by_time else "step")
    better = " (lower is better)" if comparison.lower_is_better else ""
    y_title(axes, comparison.metric + better + (", without the start" if cut else ""))
    label_ends(figure, axes, ends)
    title = f"{capitalised(comparison.metric)} against {'time' if by_time else 'steps'}"
    names = ", ".join(f"{line.name} {line.figure}" for line in ends)
    if grey := len(rows) - len(ends):
        which = "that reach the target first" if by_time and math.isfinite(case.target) else "that end best"
        title += f", smoothed: {rows[0][0].label} and those {which}; {counted(grey, 'other')} in grey"
    return picture_of(figure, title, f"Lines, one per algorithm, with what each ends with ({names}): {title}.")


def against_step(comparison: Comparison, case: Case, colours: Colours) -> Picture | None:
    return _curves(comparison, case, colours, by_time=False)


def against_time(comparison: Comparison, case: Case, colours: Colours) -> Picture | None:
    return _curves(comparison, case, colours, by_time=True)


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
    chosen = {row.label: str(row.figures["searched"]["value"]) for row in searched}
    name = searched_in(comparison, case)
    figure = new_figure()
    axes = figure.subplots()
    ends = []
    for label, points in tried.items():
        place = colours[label]
        x, y = np.array(points).T
        axes.plot(x, y, **look(place), label=plain(label))
        ends.append(Line(label, float(x[-1]), float(y[-1]), colour(place), f"best at {chosen[label]}"))
    all_points = np.array([point for points in tried.values() for point in points])
    fit_y(axes, all_points[:, 1])
    if values[0] > 0 and (values[-1] / values[0] >= 8 or spans_decades(values)):
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(values, [f"{value:g}" for value in values])
    title = f"{capitalised(comparison.metric)} for each value tried"
    axes.set_xlabel(plain(name))
    y_title(axes, f"{comparison.metric}, mean over the seeds")
    label_ends(figure, axes, ends)
    best = listed([f"{value} for {label}" for label, value in chosen.items()])
    return picture_of(figure, title, f"Lines, one per algorithm: {title} of {name}. Best: {best}.")
