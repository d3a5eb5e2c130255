"""How pictures look: colours that the colour-blind can tell apart, sizes that survive a phone, SVG without its date."""

import base64
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from flockstep.report.errors import ReportError, how_to_get
from flockstep.report.values import Array

# After Okabe and Ito, without the yellow that white paper swallows; then three darker ones that differ in lightness.
PALETTE = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#4D4D4D"),
    *("#882255", "#117733", "#332288"),
)
DASHES = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (5, 1.5, 1, 1.5)))
INK, GREY, FAINT = "#1A1A1A", "#6B6B6B", "#D9D9D9"
# A figure this wide fills half of a page, or all of a phone.
WIDTH, HEIGHT, WIDE = 5.2, 3.3, 7.6
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
    alt: str
    wide: bool = False


def colour(index: int) -> str:
    return PALETTE[index % len(PALETTE)]


def dashes(index: int) -> str | tuple[int, tuple[float, ...]]:
    return DASHES[index // len(PALETTE) % len(DASHES)]


def new_figure(height: float = HEIGHT, width: float = WIDTH) -> Figure:
    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def picture_of(figure: Figure, alt: str) -> Picture:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", dpi=200, metadata={"Date": None, "Creator": None})
    encoded = base64.b64encode(buffer.getvalue()).decode("ascii")
    return Picture(f"data:image/svg+xml;base64,{encoded}", alt, figure.get_figwidth() > WIDTH)


def legend(figure: Figure, axes: Axes, title: str = "") -> None:
    """Below the axes, in as many columns as fit."""
    handles, labels = axes.get_legend_handles_labels()
    if not handles:
        return
    room = 13 * figure.get_figwidth()  # characters of a legend's line; a handle takes the place of six

    def width(columns: int) -> int:
        return sum(max(map(len, column)) + 6 for column in np.array_split(np.array(labels), columns))

    columns = next((count for count in range(len(labels), 1, -1) if width(count) <= room), 1)
    figure.legend(
        *(handles, labels),
        loc="outside lower left",
        ncols=columns,
        title=title or None,
        alignment="left",
        columnspacing=1.2,
        handlelength=1.6,
    )


def spans_decades(values: Array) -> bool:
    known = values[np.isfinite(values)]
    return known.size > 1 and known.min() > 0 and known.max() / known.min() >= LOG_FROM


def fit_y(axes: Axes, values: Array) -> None:
    if spans_decades(values):
        axes.set_yscale("log")


def short(value: float) -> str:
    if not math.isfinite(value):
        return "no number"
    return f"{value:.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"


def plain(name: str) -> str:
    """A name out of a file as pictures have to be told it: between two dollars they would look for formulas."""
    return name.replace("$", r"\$")


def capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]


def counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def name_workers(workers: Sequence[int], most: int = 6) -> str:
    names = ", ".join(str(worker) for worker in workers[:most])
    return names + (f" and {len(workers) - most} more" if len(workers) > most else "")
