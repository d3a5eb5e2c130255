"""The curves of one case of a comparison, its search, and bars: one for each algorithm, with a whisker over the seeds.

An algorithm looks the same on the whole page.
"""

import math
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter, MaxNLocator, NullLocator

from flockstep.report.panels import Panels, Shown, panels_of
from flockstep.report.reading import Comparison
from flockstep.report.records import LARGEST_DRAWN, Case, Curve, Row, Spread
from flockstep.report.sheet import Entry, Picture, Sheet
from flockstep.report.style import (
    HEIGHT,
    INK,
    LINE_WIDTH,
    Colours,
    colour,
    dotted_swatch,
    fit_y,
    spans_decades,
    y_title,
)
from flockstep.report.words import capitalised, listed, readable, short

MOST_TOLD_APART = 6  # lines of one picture that the eye can follow; with more, each has a panel of its own as well
NAMES_INSIDE_FROM = 13  # letters: longer names stand above their bars


def colours_of(comparison: Comparison) -> Colours:
    """The best of the first case, and what the others are compared with, first: colours repeat after the tenth."""
    labels = dict.fromkeys(row.algorithm for case in comparison.saved.cases for row in case.rows)
    apart = {
        label
        for case in comparison.saved.cases[:1]
        for by_time in (False, True)
        for label in told_apart(comparison, case, by_time)
    }
    return {label: index for index, label in enumerate(sorted(labels, key=lambda label: label not in apart))}


def zoom(axes: Axes, curves: dict[str, Curve]) -> tuple[bool, list[str]]:
    """Where untrained models, or one algorithm in seven, lie far from all else, shows the rest.

    Says whether it does, and which algorithms it leaves out in part. The first fifth of a run is where the models differ
    least and the numbers most.
    """
    everything, later = [], {}
    for name, curve in curves.items():
        both = np.concatenate([curve.quality.min, curve.quality.max])
        late = np.tile(curve.steps >= 0.2 * curve.steps[-1], 2) & np.isfinite(both)
        everything.append(both)
        if late.any():
            later[name] = (float(both[late].min()), float(both[late].max()))
    middle = float(np.median([sum(ends) / 2 for ends in later.values()])) if later else 0.0
    by_distance = sorted(later, key=lambda name: max(abs(end - middle) for end in later[name]))

    def height(names: list[str]) -> float:
        return max(later[name][1] for name in names) - min(later[name][0] for name in names) if names else 0.0

    fewer = [by_distance[: len(by_distance) - left_out] for left_out in range(1, len(by_distance) // 7 + 1)]
    shown = next((names for names in fewer if height(by_distance) >= 2 * height(names) > 0), by_distance)
    known = np.concatenate(everything)
    if height(shown) == 0 or np.nanmax(known) - np.nanmin(known) < 2 * height(shown):
        return False, []
    margin = 0.05 * height(shown)
    axes.set_ylim(min(later[name][0] for name in shown) - margin, max(later[name][1] for name in shown) + margin)
    return True, [name for name in by_distance if name not in shown]


def quality_of(row: Row, case: Case) -> float:
    """As the table has it."""
    return row.quality.median if case.statistic == "median" else row.quality.mean


def told_apart(comparison: Comparison, case: Case, by_time: bool) -> set[str]:
    """The algorithms whose lines are thicker.

    Of many the first, which is what the others are compared with, and the best; against time those that reach the target
    first.
    """
    if len(case.rows) <= MOST_TOLD_APART:
        return {row.algorithm for row in case.rows}

    def rank(row: Row) -> tuple[float, float]:
        quality = quality_of(row, case) if comparison.saved.lower_is_better else -quality_of(row, case)
        time_s = (row.target_time_s or Spread()).median if by_time else 0.0
        return tuple(each if math.isfinite(each) else math.inf for each in (time_s, quality))  # type: ignore[return-value]

    best = sorted(case.rows[1:], key=rank)[: MOST_TOLD_APART - 1]
    return {row.algorithm for row in (case.rows[0], *best)}


def _curves(
    comparison: Comparison, case: Case, colours: Colours, by_time: bool
) -> tuple[Picture, Panels | None] | None:
    rows = [(row, row.curve) for row in case.rows if row.curve and row.curve.steps.size]
    if not rows:
        return None
    apart = told_apart(comparison, case, by_time)
    many = len(apart) < len(case.rows)
    sheet = Sheet(HEIGHT + (0.6 if many else 0.2))
    axes = sheet.axes()
    faint = 0.14 if len(apart) <= 4 else 0.08
    shown = []
    # The uppermost line first, as the eye meets them; those without an end last.
    for row, curve in sorted(rows, key=lambda pair: _end_of(pair[1], case)):
        place, name = colours[row.algorithm], row.algorithm
        x, y = curve.time_s if by_time else curve.steps, curve.middle(case.statistic)
        low, high = (curve.quality.min, curve.quality.max) if row.runs > 1 else (y, y)
        if row.runs > 1 and not many:
            band = axes.fill_between(x, low, high, color=colour(place), alpha=faint, linewidth=0)
            sheet.tell(band, name)
        figure = readable(quality_of(row, case))
        width = LINE_WIDTH if row.algorithm in apart else 0.6 * LINE_WIDTH
        sheet.line(axes, name, x, y, place, f"{name} {figure}", linewidth=width)
        shown.append(Shown(name, figure, place, x, y, low, high))
    fit_y(axes, np.concatenate([part for _, curve in rows for part in (curve.quality.min, curve.quality.max)]))
    is_linear = axes.get_yscale() == "linear"
    cut, outside = zoom(axes, {row.algorithm: curve for row, curve in rows}) if is_linear else (False, [])
    if math.isfinite(case.target):
        axes.axhline(case.target, color=INK, linewidth=0.8, linestyle=(0, (1, 2)), zorder=1)
        sheet.legend.append(Entry("", f"target {readable(case.target)}", dotted_swatch()))
    axes.set_xlabel("time in steps (s)" if by_time else "step")
    better = " (lower is better)" if comparison.saved.lower_is_better else ""
    y_title(axes, comparison.saved.metric, better + (", without the start" if cut else ""))
    title = f"{capitalised(comparison.saved.metric)} against {'time' if by_time else 'steps'}"
    title += f"; {listed(outside)} in part" if outside else ""
    names = ", ".join(f"{row.algorithm} {readable(quality_of(row, case))}" for row, _ in rows)
    picture = sheet.picture(title, f"Lines, one per algorithm, with what each ends with ({names}): {title}.")
    in_order = sorted(shown, key=lambda line: [row.algorithm for row, _ in rows].index(line.series))
    return picture, panels_of(axes, in_order, title) if many else None


def _end_of(curve: Curve, case: Case) -> float:
    end = float(curve.middle(case.statistic)[-1])
    return -end if math.isfinite(end) else math.inf


def against_step(comparison: Comparison, case: Case, colours: Colours) -> tuple[Picture, Panels | None] | None:
    return _curves(comparison, case, colours, by_time=False)


def against_time(comparison: Comparison, case: Case, colours: Colours) -> tuple[Picture, Panels | None] | None:
    return _curves(comparison, case, colours, by_time=True)


def search(comparison: Comparison, case: Case, colours: Colours) -> Picture | None:
    """Quality against the searched option, for the algorithms that it concerns."""
    searched = {row.algorithm: row.searched for row in case.rows if row.searched and row.tried}
    try:
        tried = {
            row.algorithm: sorted((float(each.value), each.quality.mean) for each in row.tried)
            for row in case.rows
            if row.algorithm in searched
        }
    except ValueError:  # words have no place on an axis; the table lists them
        return None
    values = np.unique([value for points in tried.values() for value, _ in points])
    if not values.size or not (np.abs(values) <= LARGEST_DRAWN).all():
        return None
    name = next(iter(searched.values())).name.removeprefix(f"{comparison.saved.how.task}.")
    sheet = Sheet()
    axes = sheet.axes()
    for label, points in tried.items():
        x, y = np.array(points).T
        sheet.line(axes, label, x, y, colours[label], f"{label}, best at {searched[label].value}")
    all_points = np.array([point for points in tried.values() for point in points])
    fit_y(axes, all_points[:, 1])
    if values[0] > 0 and (values[-1] / values[0] >= 8 or spans_decades(values)):
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(values, [f"{value:g}" for value in values])
    title = f"{capitalised(comparison.saved.metric)} for each value tried"
    axes.set_xlabel(name)
    y_title(axes, f"{comparison.saved.metric}, mean over the seeds")
    best = listed([f"{each.value} for {label}" for label, each in searched.items()])
    return sheet.picture(title, f"Lines, one per algorithm: {title} of {name}. Best: {best}.")


@dataclass
class Bar:
    row: Row
    value: float
    low: float
    high: float
    text: str


def _bar(row: Row, name: str, key: str, scale: float, unit: str) -> Bar:
    spread = getattr(row, name) or Spread()
    value, low, high = (scale * getattr(spread, each) for each in (key, "min", "max"))
    return Bar(row, value, low, high, f"{short(value) if scale == 1.0 else f'{value:.0f}'}{unit}")


def _bars(bars: list[Bar], colours: Colours, title: str, x_label: str, best: str) -> Picture | None:
    """`best`: what the longest or shortest bar is called, said for those who cannot see it."""
    if not any(math.isfinite(bar.value) for bar in bars):
        return None
    above = max(len(bar.row.algorithm) for bar in bars) >= NAMES_INSIDE_FROM
    sheet = Sheet(0.55 + (0.4 if above else 0.28) * len(bars))
    axes = sheet.axes()
    low, height = (0.0, 0.42) if above else (-0.32, 0.64)
    for place, bar in enumerate(bars):
        value = bar.value if math.isfinite(bar.value) else 0.0
        middle = place + low + height / 2
        name, said = bar.row.algorithm, f"{bar.row.algorithm}: {bar.text}"
        (drawn,) = axes.barh(middle, value, height=height, color=colour(colours[name]))
        end = value
        if bar.row.runs > 1 and math.isfinite(bar.low) and math.isfinite(bar.high) and bar.value == value:
            reach = np.abs(np.array([[bar.low], [bar.high]]) - value)
            axes.errorbar([value], [middle], xerr=reach, fmt="none", ecolor=INK, capsize=2.5, linewidth=1)
            end = max(value, bar.high)  # behind the whisker, so that neither hides the other
            said += f"; seeds from {short(bar.low)} to {short(bar.high)}"
        sheet.tell(drawn, name, said)
        axes.annotate(bar.text, (end, middle), (5, 0), textcoords="offset points", va="center", fontsize=9)
        if above:
            axes.annotate(name, (0, place), (1, 1), textcoords="offset points", va="bottom", fontsize=9)
    axes.set_yticks(range(len(bars)), [""] * len(bars) if above else [bar.row.algorithm for bar in bars])
    axes.set(ylim=(len(bars) - 0.45, -0.55), xlabel=x_label)
    axes.margins(x=0.2)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    if axes.get_xlim()[1] >= 1000:
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)
    said = ", ".join(f"{bar.row.algorithm} {bar.text}" for bar in bars)
    return sheet.picture(title, f"Bars, one per algorithm ({said}): {title}; {best}.")


def _extreme(bars: list[Bar], least: bool, what: str) -> str:
    known = [bar for bar in bars if math.isfinite(bar.value)]
    if not known:
        return what
    return f"{(min if least else max)(known, key=lambda bar: bar.value).row.algorithm} {what}"


def throughput(case: Case, colours: Colours) -> Picture | None:
    bars = [_bar(row, "samples_per_s", "mean", 1.0, "") for row in case.rows]
    return _bars(bars, colours, "Throughput", "samples/s, all workers", _extreme(bars, False, "is the fastest"))


def waiting(case: Case, colours: Colours) -> Picture | None:
    bars = [_bar(row, "wait_share", "mean", 100.0, "%") for row in case.rows]
    return _bars(bars, colours, "Waiting", "% of the time in steps", _extreme(bars, True, "waits least"))


def share_of_ideal(case: Case, colours: Colours) -> Picture | None:
    """Where compute is pretended, so that it is known how long steps would take without waiting."""
    bars = [_bar(row, "share_of_ideal", "mean", 100.0, "%") for row in case.rows if row.share_of_ideal]
    title = "Throughput, as a share of that of workers who never wait"
    return _bars(bars, colours, title, "% of ideal", _extreme(bars, False, "comes closest"))


def fresh(case: Case, colours: Colours) -> Picture | None:
    """For those whose averages do not wait for everybody: in lockstep nothing is fresh or stale."""
    bars = [_bar(row, "fresh_fraction", "mean", 100.0, "%") for row in case.rows if row.fresh_fraction]
    title = "Fresh: merged steps whose own model was in the average"
    return _bars(bars, colours, title, "% of merged steps", _extreme(bars, False, "is the freshest"))


def time_to_target(metric: str, case: Case, colours: Colours) -> Picture | None:
    if not math.isfinite(case.target):
        return None
    bars = [_bar(row, "target_time_s", "median", 1.0, " s") for row in case.rows]
    if not any(bar.value > 0 for bar in bars):  # an untrained model was as good
        return None
    for bar in bars:
        reached, runs = bar.row.target_reached or 0, bar.row.runs
        if not math.isfinite(bar.value):
            bar.text = "not reached" if reached == 0 else f"only {reached} of {runs} seeds"
        elif reached < runs:
            bar.text += f", {reached} of {runs} seeds"
    title = f"Time to {metric} {readable(case.target)}"
    statistic = ", median over the seeds" if any(row.runs > 1 for row in case.rows) else ""
    return _bars(bars, colours, capitalised(title), f"s{statistic}", _extreme(bars, True, "is there first"))
