"""How models met where nobody waits for everybody: how old contributions were, and what waiting bought."""

import math
import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from flockstep.report.style import INK, PALETTE, Picture, colour, legend, look, new_figure, picture_of, plain, y_title
from flockstep.report.values import Array, Case, Colours, Run, drawn_number

MOST_BARS = 8  # older contributions share the last one
COLUMNS = 2
LABEL_WIDTH = 20  # characters over a panel


def folded(counts: Sequence[int], bars: int) -> Array:
    """Shares in percent, the last bar taking in all that is older."""
    known = np.zeros(max(bars, len(counts)))
    known[: len(counts)] = counts
    shares: Array = np.append(known[: bars - 1], known[bars - 1 :].sum())
    shares *= 100 / shares.sum()
    return shares


def _draw_staleness(axes: Axes, shares: Array, goes_on: bool, shade: str) -> None:
    ages = np.arange(shares.size)
    axes.bar(ages, shares, width=0.8, color=shade)
    for age, share in zip(ages, shares, strict=True):
        if share > 0:
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
    return min(MOST_BARS, max(len(counts) for counts in histograms))


def staleness_of_run(run: Run) -> Picture | None:
    counts = run.summary.get("staleness")
    if not counts or not sum(counts):
        return None
    bars = _bars([counts])
    figure = new_figure()
    axes = figure.subplots()
    _draw_staleness(axes, folded(counts, bars), len(counts) > bars, PALETTE[0])
    mean = drawn_number(run.summary.get("mean_staleness"))
    title = "How many iterations old contributions were" + (f", mean {mean:.2g}" if math.isfinite(mean) else "")
    axes.set_xlabel("iterations")
    y_title(axes, "share of all contributions (%)")
    return picture_of(figure, title, f"Bars: {title}.")


def staleness_of_case(case: Case, colours: Colours) -> Picture | None:
    """A panel for each algorithm whose averages do not wait."""
    rows = [row for row in case.rows if sum(row.figures.get("staleness") or [])]
    if not rows:
        return None
    histograms = [row.figures["staleness"] for row in rows]
    bars = _bars(histograms)
    goes_on = any(len(counts) > bars for counts in histograms)
    columns = min(COLUMNS, len(rows))
    lines = math.ceil(len(rows) / columns)
    figure = new_figure(height=0.5 + 1.5 * lines)
    grid = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
    for axes, row, counts in zip(grid.flat, rows, histograms, strict=False):
        _draw_staleness(axes, folded(counts, bars), goes_on, colour(colours[row.label]))
        mean = drawn_number((row.figures.get("mean_staleness") or {}).get("mean"))
        name = row.label + (f", mean {mean:.2g}" if math.isfinite(mean) else "")
        axes.set_title(plain(_wrapped(name)), fontsize=9)
        axes.yaxis.set_major_locator(MaxNLocator(4))
        axes.tick_params(axis="x", labelbottom=True)
    for axes in grid.flat[len(rows) :]:
        axes.set_visible(False)
    figure.supxlabel("iterations old; % of contributions", fontsize=9.5)
    names = ", ".join(row.label for row in rows)
    title = "How many iterations old contributions were"
    return picture_of(figure, title, f"Bars, a panel for each of {names}: how many iterations old contributions were.")


def freshness(run: Run) -> Picture | None:
    """What waiting buys: as both go on, the share of fresh steps and of the time spent waiting."""
    known = [evaluation for evaluation in run.evaluations if math.isfinite(evaluation.fresh_fraction)]
    if not known:
        return None
    figure = new_figure()
    axes = figure.subplots()
    steps = [evaluation.step for evaluation in known]
    lines = (
        ("fresh, of the merged steps", [evaluation.fresh_fraction for evaluation in known]),
        ("waiting, of the time in steps", [evaluation.wait_share for evaluation in known]),
    )
    for index, (name, shares) in enumerate(lines):
        axes.plot(steps, 100 * np.array(shares), **look(index, len(steps)), label=name)
    title = f"{100 * known[-1].fresh_fraction:.0f}% of merged steps fresh"
    if math.isfinite(known[-1].wait_share):
        title += f", {100 * known[-1].wait_share:.0f}% of the time waiting"
    axes.set_xlabel("step")
    y_title(axes, "share so far (%)")
    axes.set_ylim(bottom=0)
    legend(figure, axes)
    return picture_of(figure, title, f"Lines: share of fresh steps and of time spent waiting. {title}.")
