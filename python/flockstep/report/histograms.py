"""Histograms: how old contributions were where nobody waits for everybody, and how long steps computed."""

import math
import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from flockstep.report.reading import Comparison, Run
from flockstep.report.records import STEP_TIME_BINS, Array, Case, StepTimes
from flockstep.report.sheet import Picture, Sheet
from flockstep.report.style import INK, PALETTE, Colours, colour, y_title
from flockstep.report.words import time_text

MOST_AGES = 8  # older contributions share the last bar
COLUMNS = 2
LABEL_WIDTH = 20  # characters over a panel
# Bin k of a summary begins at SHORTEST * 10 ** (k / PER_DECADE) seconds (src/telemetry/step_times.h).
SHORTEST, PER_DECADE = 1e-6, 40
MOST_TIMES = 40


def folded(counts: Sequence[int], bars: int) -> Array:
    """Shares in percent, the last bar taking in all that is older."""
    known = np.zeros(max(bars, len(counts)))
    known[: len(counts)] = counts
    shares: Array = np.append(known[: bars - 1], known[bars - 1 :].sum())
    shares *= 100 / shares.sum()
    return shares


def _draw_staleness(sheet: Sheet, axes: Axes, shares: Array, goes_on: bool, shade: str, series: str) -> None:
    ages = np.arange(shares.size)
    drawn = axes.bar(ages, shares, width=0.8, color=shade)
    for age, share, bar in zip(ages, shares, drawn, strict=True):
        if share > 0:
            old = f"{age} or more" if goes_on and age == ages[-1] else str(age)
            sheet.tell(bar, series, f"{old} iterations old: {share:.3g}%")
            text = f"{share:.0f}" if share >= 1 else "<1"
            axes.annotate(text, (age, share), (0, 2), textcoords="offset points", ha="center", fontsize=7.5, color=INK)
    axes.set_xticks(ages, [f"{age}+" if goes_on and age == ages[-1] else str(age) for age in ages])
    axes.tick_params(axis="x", length=0)
    axes.grid(axis="x", visible=False)
    axes.margins(y=0.14)


def _wrapped(label: str) -> str:
    """In lines that fit over a panel, broken between the options of a variant."""
    return "\n".join(line.replace(": ", ":") for line in textwrap.wrap(label.replace(":", ": "), LABEL_WIDTH))


def _bars(histograms: Sequence[Sequence[int]]) -> int:
    return min(MOST_AGES, max(len(counts) for counts in histograms))


def staleness_of_run(run: Run) -> Picture | None:
    counts = run.summary.staleness if run.summary else None
    if not run.summary or not counts or not sum(counts):
        return None
    bars = _bars([counts])
    sheet = Sheet()
    axes = sheet.axes()
    _draw_staleness(sheet, axes, folded(counts, bars), len(counts) > bars, PALETTE[0], "contributions")
    mean = run.summary.mean_staleness
    title = "How many iterations old contributions were" + (f", mean {mean:.2g}" if math.isfinite(mean) else "")
    axes.set_xlabel("iterations")
    y_title(axes, "share of all contributions (%)")
    return sheet.picture(title, f"Bars: {title}.")


def staleness_of_case(case: Case, colours: Colours) -> Picture | None:
    """A panel for each algorithm whose averages do not wait."""
    rows = [row for row in case.rows if sum(row.staleness or [])]
    if not rows:
        return None
    histograms = [row.staleness or [] for row in rows]
    bars = _bars(histograms)
    goes_on = any(len(counts) > bars for counts in histograms)
    columns = min(COLUMNS, len(rows))
    lines = math.ceil(len(rows) / columns)
    sheet = Sheet(0.5 + 1.5 * lines)
    grid = sheet.figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
    for axes, row, counts in zip(grid.flat, rows, histograms, strict=False):
        _draw_staleness(sheet, axes, folded(counts, bars), goes_on, colour(colours[row.algorithm]), row.algorithm)
        mean = row.mean_staleness.mean if row.mean_staleness else math.nan
        name = row.algorithm + (f", mean {mean:.2g}" if math.isfinite(mean) else "")
        axes.set_title(_wrapped(name), fontsize=9, fontweight="bold")
        axes.yaxis.set_major_locator(MaxNLocator(4))
        axes.tick_params(axis="x", labelbottom=True)
    for axes in grid.flat[len(rows) :]:
        axes.set_visible(False)
    sheet.figure.supxlabel("iterations old; % of contributions", fontsize=9.5)
    names = ", ".join(row.algorithm for row in rows)
    title = "How many iterations old contributions were"
    return sheet.picture(title, f"Bars, a panel for each of {names}: how many iterations old contributions were.")


def merged(distributions: Sequence[StepTimes]) -> tuple[Array, Array]:
    """The edges of bars, one more than there are, and the counts of several runs in them."""
    counts = np.zeros(STEP_TIME_BINS)
    for each in distributions:
        counts[each.first_bin : each.first_bin + len(each.counts)] += each.counts
    known = np.flatnonzero(counts)
    together = next(size for size in (1, 2, 4, 5, 10) if known[-1] // size - known[0] // size < MOST_TIMES)
    first, end = known[0] // together, known[-1] // together + 1
    edges = SHORTEST * 10 ** (together * np.arange(first, end + 1) / PER_DECADE)
    return edges, counts.reshape(-1, together).sum(axis=1)[first:end]


def _middle_and_tail(times: StepTimes) -> str:
    median, tail, longest = times.median_s, times.p99_s, times.longest_s
    ratio = f"; one in a hundred took {tail / median:.2g} times that or more" if median > 0 else ""
    return f"Half of the steps computed for {time_text(median)} or less{ratio}, the longest {time_text(longest)}"


def _step_times(distributions: Sequence[StepTimes], title: str) -> Picture:
    edges, counts = merged(distributions)
    sheet = Sheet()
    axes = sheet.axes()
    shares = 100 * counts / counts.sum()
    drawn = axes.bar(edges[:-1], shares, width=np.diff(edges), align="edge", color=PALETTE[0])
    for bar, share, begin, end in zip(drawn, shares, edges[:-1], edges[1:], strict=True):
        if share > 0:
            sheet.tell(bar, "steps", f"{time_text(begin)} to {time_text(end)}: {share:.3g}% of the steps")
    axes.set_xscale("log")
    reach = edges[-1] / edges[0]
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5) if reach < 10 else (1, 2, 5) if reach < 100 else (1,)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: time_text(value)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(axis="x", visible=False)
    axes.set_xlabel("time that a step computes")
    y_title(axes, "share of all steps (%)")
    return sheet.picture(title, f"Histogram: {title}.")


def step_times_of_run(run: Run) -> Picture | None:
    times = run.summary.step_times if run.summary else None
    return _step_times([times], _middle_and_tail(times)) if times and sum(times.counts) else None


def step_times_of_case(comparison: Comparison, case: Case) -> Picture | None:
    """Of the first algorithm: how long a step computes hardly depends on the others."""
    for row in case.rows:
        all_times = [summary.step_times for summary in comparison.summaries_of(row)]
        if known := [times for times in all_times if times and sum(times.counts)]:
            of_seeds = f", {len(known)} seeds" if len(known) > 1 else ""
            return _step_times(known, f"How long steps of {row.algorithm} computed, waiting left out{of_seeds}")
    return None
