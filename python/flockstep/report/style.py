"""How pictures look: colours that the colour-blind can tell apart, and sizes that survive a phone.

All pictures are equally narrow: on a phone one fills the screen, elsewhere several stand side by side, and their letters are
as large here as there. Lines differ in dashes and marks and not in colour alone, for print. The page's style sheet has the
colours that a dark page shows instead.
"""

from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogFormatter

from flockstep.report.errors import ReportError, how_to_get
from flockstep.report.records import Array

Colours = dict[str, int]  # an algorithm's place in the palette
# After Okabe and Ito, without the yellow that white paper swallows; then three darker ones that differ in lightness.
PALETTE = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#4D4D4D"),
    *("#882255", "#117733", "#332288"),
)
DASHES: tuple[tuple[float, ...], ...] = ((), (5, 2), (1.5, 1.5), (5, 1.5, 1, 1.5))  # in widths of the line
INK, GREY, GRID, PAPER = "#1A1A1A", "#6B6B6B", "#E8E8E8", "#FFFFFF"
# Each as matplotlib calls it and as a path within 3.2 units around 0.
MARKS = {
    "o": "M-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0z",
    "s": "M-2.8-2.8h5.6v5.6h-5.6z",
    "^": "M0-3.2 3.2 2.8h-6.4z",
    "D": "M0-3.2 3.2 0 0 3.2-3.2 0z",
    "v": "M0 3.2 3.2-2.8h-6.4z",
    "X": "M-3-1.5-1.5-3 0-1.5 1.5-3 3-1.5 1.5 0 3 1.5 1.5 3 0 1.5-1.5 3-3 1.5-1.5 0z",
    "P": "M-1-3h2v2h2v2h-2v2h-2v-2h-2v-2h2z",
    "<": "M-3.2 0 2.8-3.2v6.4z",
    "*": "M0-3.2.7-1H3L1.1.4 1.9 2.6 0 1.2-1.9 2.6-1.1.4-3-1H-.7z",
    "h": "M0-3.2 2.8-1.6v3.2L0 3.2-2.8 1.6v-3.2z",
    ">": "M3.2 0-2.8-3.2v6.4z",
}
MOST_MARKS = 8  # on one line
# A phone shows 3.6 inches at 1.4 times their size: letters of 9.5 points become 13 pixels.
WIDTH, HEIGHT = 3.6, 2.6
LINE_WIDTH = 1.6
LOG_FROM = 100.0  # the ratio between largest and smallest from which an axis is logarithmic

# The first whose legends know a place outside of the axes.
if tuple(int(part) for part in matplotlib.__version__.split(".")[:2]) < (3, 7):
    raise ReportError(f"matplotlib here is {matplotlib.__version__}, {how_to_get('the report needs 3.7 or newer')}")

matplotlib.rcParams.update(
    {
        "font.size": 9.5,
        "axes.titlesize": 10,
        "axes.titlelocation": "left",
        "axes.labelcolor": INK,
        "axes.edgecolor": GREY,
        "axes.facecolor": "none",
        "axes.linewidth": 0.8,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": GRID,
        "grid.linewidth": 0.8,
        "text.color": INK,
        "text.parse_math": False,  # names out of files are no formulas
        "xtick.color": GREY,
        "ytick.color": GREY,
        "xtick.labelcolor": INK,
        "ytick.labelcolor": INK,
        "legend.frameon": False,
        "legend.fontsize": 9,
        "lines.linewidth": LINE_WIDTH,
        "svg.fonttype": "none",  # text that can be selected, in the page's font and colour
        "svg.hashsalt": "flockstep",  # the same numbers give the same bytes
    }
)


def colour(index: int) -> str:
    return PALETTE[index % len(PALETTE)]


def _dashes(index: int) -> tuple[float, ...]:
    return DASHES[(index + index // len(DASHES)) % len(DASHES)]


def _mark(index: int) -> str:
    return list(MARKS)[index % len(MARKS)]


def look(index: int, points: int = 0) -> dict[str, Any]:
    """Of the line of an algorithm: no two of a page look alike, in colour or without. `points`: that the line has."""
    every = max(1, points // MOST_MARKS)
    return {
        "color": colour(index),
        "linestyle": (0, _dashes(index)) if _dashes(index) else "-",
        "marker": _mark(index),
        "markersize": 4.5,
        # Marks of different lines shall not lie upon each other.
        "markevery": (index % every, every),
    }


def css_colour(hexadecimal: str) -> str:
    """The style sheet's variable for one of the colours above; any other as it is."""
    return CSS_COLOURS.get(hexadecimal.lower(), hexadecimal)


CSS_COLOURS = {
    **{colour.lower(): f"var(--c{index})" for index, colour in enumerate(PALETTE)},
    **{INK.lower(): "var(--ink)", GREY.lower(): "var(--grey)", GRID.lower(): "var(--grid)"},
    PAPER.lower(): "var(--paper)",
}


def swatch(index: int, line: bool = True) -> str:
    """The look of a line as a tiny picture, for legends and tables; with line=False its mark alone."""
    shade = css_colour(colour(index))
    dashes = " ".join(f"{LINE_WIDTH * part:g}" for part in _dashes(index))
    drawn = f'<path d="M0 5H26" stroke="{shade}" stroke-width="{LINE_WIDTH}"'
    drawn += f' stroke-dasharray="{dashes}"/>' if dashes else "/>"
    mark = f'<path d="{MARKS[_mark(index)]}" transform="translate(13 5)" fill="{shade}"/>'
    shape = 'width="26" height="10" viewBox="0 0 26 10"' if line else 'width="12" height="12" viewBox="9 1 8 8"'
    return f'<svg class="key" {shape} aria-hidden="true">{drawn if line else ""}{mark}</svg>'


def dotted_swatch() -> str:
    """The look of a line across a picture."""
    line = f'<path d="M0 5H26" stroke="{css_colour(INK)}" stroke-dasharray="1 2"/>'
    return f'<svg class="key" width="26" height="10" viewBox="0 0 26 10" aria-hidden="true">{line}</svg>'


def box_swatch(face: str, edge: str, hatched: bool = False) -> str:
    """The look of a bar."""
    stripes = f'<path d="M2 9 9 1M8 9 15 1M14 9 21 1" stroke="{css_colour(edge)}"/>' if hatched else ""
    frame = f'x=".5" y=".5" width="21" height="9" fill="{css_colour(face)}" stroke="{css_colour(edge)}"'
    return (
        f'<svg class="key" width="22" height="10" viewBox="0 0 22 10" aria-hidden="true"><rect {frame}/>{stripes}</svg>'
    )


def y_title(axes: Axes, text: str, note: str = "") -> None:
    """Says what the y axis is, lying above it: upright letters need no turned head and no room beside."""
    axes.set_title(text + note, loc="left", fontsize=9.5, fontweight="normal")
    axes.set_label(text)


def spans_decades(values: Array) -> bool:
    known = values[np.isfinite(values)]
    return known.size > 1 and known.min() > 0 and known.max() / known.min() >= LOG_FROM


def log_y(axes: Axes) -> None:
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(LogFormatter(labelOnlyBase=False))
    axes.yaxis.set_minor_formatter(LogFormatter(labelOnlyBase=False, minor_thresholds=(1.2, 0.5)))


def fit_y(axes: Axes, values: Array) -> None:
    if spans_decades(values):
        log_y(axes)
