"""How pictures look: colours that the colour-blind can tell apart, sizes that survive a phone, SVG without its date.

All are equally narrow: on a phone one fills the screen, elsewhere several stand side by side, and their letters are as
large here as there. What a picture shows is told above it by the page, whose lines break where they must. Lines differ in
dashes and marks and not in colour alone, for print.
"""

import base64
import io
import math
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter

from flockstep.report.errors import ReportError, how_to_get
from flockstep.report.records import Array

Colours = dict[str, int]  # an algorithm's place in the palette
# After Okabe and Ito, without the yellow that white paper swallows; then three darker ones that differ in lightness.
PALETTE = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#4D4D4D"),
    *("#882255", "#117733", "#332288"),
)
DASHES = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (5, 1.5, 1, 1.5)))
INK, GREY, FAINT = "#1A1A1A", "#6B6B6B", "#D9D9D9"
MARKS = ("o", "s", "^", "D", "v", "X", "P", "<", "*", "h", ">")
GLYPHS = "●■▲◆▼✖✚◀★⬢▶"  # the same as letters, for tables
MOST_MARKS = 8  # on one line
# A phone shows 3.6 inches at 1.4 times their size: letters of 9.5 points become 13 pixels.
WIDTH, HEIGHT = 3.6, 2.6
LEGEND_LINE = 0.19  # inches
LONGEST_NAME, MOST_NAMES = 13, 6  # letters and names that leave a narrow picture enough room for its lines
NAME_POINTS = 12.0  # the height of a name
LOG_FROM = 100.0  # the ratio between largest and smallest from which an axis is logarithmic

# The first whose legends know a place outside of the axes.
if tuple(int(part) for part in matplotlib.__version__.split(".")[:2]) < (3, 7):
    raise ReportError(f"matplotlib here is {matplotlib.__version__}, {how_to_get('the report needs 3.7 or newer')}")

matplotlib.rcParams.update(
    {
        "font.size": 9.5,
        "axes.titlesize": 10,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.labelcolor": INK,
        "axes.edgecolor": GREY,
        "axes.linewidth": 0.8,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": "#E8E8E8",
        "grid.linewidth": 0.8,
        "text.color": INK,
        "xtick.color": GREY,
        "ytick.color": GREY,
        "xtick.labelcolor": INK,
        "ytick.labelcolor": INK,
        "legend.frameon": False,
        "legend.fontsize": 9,
        "legend.title_fontsize": 9,
        "lines.linewidth": 1.6,
        "svg.fonttype": "path",
        "svg.hashsalt": "flockstep",  # the same numbers give the same bytes
    }
)


@dataclass
class Picture:
    source: str  # a data: address
    title: str
    alt: str


def colour(index: int) -> str:
    return PALETTE[index % len(PALETTE)]


def key(index: int) -> tuple[str, str]:
    """A mark and its colour: what stands before an algorithm's name in a table."""
    return GLYPHS[index % len(GLYPHS)], colour(index)


def look(index: int, points: int = 0) -> dict[str, Any]:
    """Of the line of an algorithm: no two of a page look alike, in colour or without. `points`: that the line has."""
    every = max(1, points // MOST_MARKS)
    return {
        "color": colour(index),
        "linestyle": DASHES[(index + index // len(DASHES)) % len(DASHES)],
        "marker": MARKS[index % len(MARKS)],
        "markersize": 4.5,
        # Marks of different lines shall not lie upon each other.
        "markevery": (index % every, every),
    }


def y_title(axes: Axes, text: str) -> None:
    """Says what the y axis is, lying above it: upright letters need no turned head and no room beside."""
    axes.set_title(plain(text), loc="left", fontsize=9.5, fontweight="normal")


def new_figure(height: float = HEIGHT, width: float = WIDTH) -> Figure:
    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def picture_of(figure: Figure, title: str, alt: str) -> Picture:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", dpi=200, metadata={"Date": None, "Creator": None})
    encoded = base64.b64encode(buffer.getvalue()).decode("ascii")
    return Picture(f"data:image/svg+xml;base64,{encoded}", title, alt)


def legend(figure: Figure, axes: Axes, title: str = "") -> None:
    """Below the axes, in as many columns as fit; the figure grows by its height."""
    handles, labels = axes.get_legend_handles_labels()
    if not handles:
        return
    room = 13 * figure.get_figwidth()  # characters of a legend's line; a handle takes the place of seven

    def width(columns: int) -> int:
        return sum(max(map(len, column)) + 7 for column in np.array_split(np.array(labels), columns))

    columns = next((count for count in range(len(labels), 1, -1) if width(count) <= room), 1)
    lines = math.ceil(len(labels) / columns) + (1 if title else 0)
    figure.set_figheight(figure.get_figheight() + LEGEND_LINE * lines)
    figure.legend(
        *(handles, labels),
        loc="outside lower left",
        ncols=columns,
        title=title or None,
        alignment="left",
        columnspacing=1.2,
        handlelength=2.6,
    )


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


def plain(name: str) -> str:
    """A name out of a file as pictures have to be told it: between two dollars they would look for formulas."""
    return name.replace("$", r"\$")


@dataclass
class Line:
    """A drawn line; a legend tells its name and `figure`, what it ends with."""

    name: str
    x: float
    y: float
    color: str
    figure: str


def spread_out(wanted: list[float], apart: float) -> list[float]:
    """The given places in rising order, moved as little as brings each `apart` from the next: clusters share a mean."""
    clusters: list[tuple[float, int]] = []  # centre and members
    for place in wanted:
        centre, members = place, 1
        while clusters and centre - clusters[-1][0] < apart * (members + clusters[-1][1]) / 2:
            before, count = clusters.pop()
            centre = (centre * members + before * count) / (members + count)
            members += count
        clusters.append((centre, members))
    return [centre + apart * (index - (members - 1) / 2) for centre, members in clusters for index in range(members)]


def label_ends(figure: Figure, axes: Axes, lines: list[Line]) -> None:
    """Names at the ends of lines, or, where there are too many or they are too long, a legend in the order of the lines.

    Call this last: names stand where the axes, as they are by then, have the ends.
    """
    known = [line for line in lines if np.isfinite(line.x) and np.isfinite(line.y)]
    if len(known) < len(lines) or len(lines) > MOST_NAMES or max(len(line.name) for line in lines) > LONGEST_NAME:
        _legend_in_order(figure, axes, lines)
        return
    points = 72 * HEIGHT * 0.7  # about what the axes have
    heights = [float(axes.transAxes.inverted().transform(axes.transData.transform((0, line.y)))[1]) for line in known]
    order = np.argsort(heights)
    places = spread_out([heights[index] * points for index in order], NAME_POINTS)
    for index, place in zip(order, places, strict=True):
        line = known[index]
        axes.annotate(
            plain(line.name),
            xy=(line.x, line.y),
            xytext=(1.04, place / points),
            textcoords="axes fraction",
            va="center",
            color=line.color,
            fontweight="bold",
            fontsize=9,
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": line.color, "linewidth": 0.6, "shrinkA": 1, "shrinkB": 2},
        )


def _legend_in_order(figure: Figure, axes: Axes, lines: list[Line]) -> None:
    """The uppermost line first, as the eye meets them; those without an end last."""
    handles, labels = axes.get_legend_handles_labels()
    drawn = dict(zip(labels, handles, strict=True))
    order = sorted(lines, key=lambda line: -line.y if np.isfinite(line.y) else np.inf)
    figure.set_figheight(figure.get_figheight() + LEGEND_LINE * len(order))
    figure.legend(
        [drawn[plain(line.name)] for line in order],
        [plain(f"{line.name}  {line.figure}") for line in order],
        loc="outside lower left",
        alignment="left",
        handlelength=3.4,
    )
