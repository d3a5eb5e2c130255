"""A bar for each algorithm of a case, with its name and figure beside it, and a whisker over the seeds."""

import math
from dataclasses import dataclass

import numpy as np
from matplotlib.ticker import EngFormatter, MaxNLocator

from flockstep.report.style import INK, Picture, colour, new_figure, picture_of, plain
from flockstep.report.tables import readable
from flockstep.report.values import Case, Colours, Row, drawn_number
from flockstep.report.wording import capitalised, short

NAMES_INSIDE_FROM = 13  # letters: longer names stand above their bars


@dataclass
class Bar:
    row: Row
    value: float
    low: float
    high: float
    text: str


def _bar(row: Row, name: str, key: str, scale: float, unit: str) -> Bar:
    spread = row.figures.get(name) or {}
    value, low, high = (scale * drawn_number(spread.get(each)) for each in (key, "min", "max"))
    return Bar(row, value, low, high, f"{short(value) if scale == 1.0 else f'{value:.0f}'}{unit}")


def _draw(bars: list[Bar], colours: Colours, title: str, x_label: str, best: str) -> Picture | None:
    """`best`: what the longest or shortest bar is called, said for those who cannot see it."""
    if not any(math.isfinite(bar.value) for bar in bars):
        return None
    above = max(len(bar.row.label) for bar in bars) >= NAMES_INSIDE_FROM
    figure = new_figure(height=0.55 + (0.4 if above else 0.28) * len(bars))
    axes = figure.subplots()
    low, height = (0.0, 0.42) if above else (-0.32, 0.64)
    for place, bar in enumerate(bars):
        value = bar.value if math.isfinite(bar.value) else 0.0
        middle = place + low + height / 2
        axes.barh(middle, value, height=height, color=colour(colours[bar.row.label]))
        end = value
        if bar.row.figures["runs"] > 1 and math.isfinite(bar.low) and math.isfinite(bar.high) and bar.value == value:
            reach = np.abs(np.array([[bar.low], [bar.high]]) - value)
            axes.errorbar([value], [middle], xerr=reach, fmt="none", ecolor=INK, capsize=2.5, linewidth=1)
            end = max(value, bar.high)  # behind the whisker, so that neither hides the other
        axes.annotate(bar.text, (end, middle), (5, 0), textcoords="offset points", va="center", fontsize=9)
        if above:
            axes.annotate(plain(bar.row.label), (0, place), (1, 1), textcoords="offset points", va="bottom", fontsize=9)
    axes.set_yticks(range(len(bars)), [""] * len(bars) if above else [plain(bar.row.label) for bar in bars])
    axes.set(ylim=(len(bars) - 0.45, -0.55), xlabel=x_label)
    axes.margins(x=0.2)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    if axes.get_xlim()[1] >= 1000:
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)
    said = ", ".join(f"{bar.row.label} {bar.text}" for bar in bars)
    return picture_of(figure, title, f"Bars, one per algorithm ({said}): {title}; {best}.")


def _extreme(bars: list[Bar], least: bool, what: str) -> str:
    known = [bar for bar in bars if math.isfinite(bar.value)]
    if not known:
        return what
    return f"{(min if least else max)(known, key=lambda bar: bar.value).row.label} {what}"


def throughput(case: Case, colours: Colours) -> Picture | None:
    bars = [_bar(row, "samples_per_s", "mean", 1.0, "") for row in case.rows]
    return _draw(bars, colours, "Throughput", "samples/s, all workers", _extreme(bars, False, "is the fastest"))


def waiting(case: Case, colours: Colours) -> Picture | None:
    bars = [_bar(row, "wait_share", "mean", 100.0, "%") for row in case.rows]
    return _draw(bars, colours, "Waiting", "% of the time in steps", _extreme(bars, True, "waits least"))


def share_of_ideal(case: Case, colours: Colours) -> Picture | None:
    """Where compute is pretended, so that it is known how long steps would take without waiting."""
    bars = [_bar(row, "share_of_ideal", "mean", 100.0, "%") for row in case.rows if row.figures.get("share_of_ideal")]
    title = "Throughput, as a share of that of workers who never wait"
    return _draw(bars, colours, title, "% of ideal", _extreme(bars, False, "comes closest"))


def fresh(case: Case, colours: Colours) -> Picture | None:
    """For those whose averages do not wait for everybody: in lockstep nothing is fresh or stale."""
    bars = [_bar(row, "fresh_fraction", "mean", 100.0, "%") for row in case.rows if row.figures.get("fresh_fraction")]
    title = "Fresh: merged steps whose own model was in the average"
    return _draw(bars, colours, title, "% of merged steps", _extreme(bars, False, "is the freshest"))


def time_to_target(metric: str, case: Case, colours: Colours) -> Picture | None:
    if not math.isfinite(case.target):
        return None
    bars = [_bar(row, "target_time_s", "median", 1.0, " s") for row in case.rows]
    if not any(bar.value > 0 for bar in bars):  # an untrained model was as good
        return None
    for bar in bars:
        reached, runs = int(bar.row.figures.get("target_reached") or 0), int(bar.row.figures["runs"])
        if not math.isfinite(bar.value):
            bar.text = "not reached" if reached == 0 else f"only {reached} of {runs} seeds"
        elif reached < runs:
            bar.text += f", {reached} of {runs} seeds"
    title = f"Time to {metric} {readable(case.target)}"
    statistic = ", median over the seeds" if any(row.figures["runs"] > 1 for row in case.rows) else ""
    return _draw(bars, colours, capitalised(title), f"s{statistic}", _extreme(bars, True, "is there first"))
