"""Names at the ends of lines, or, where there are too many or they are too long, a legend in the order of the lines."""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from flockstep.report.style import HEIGHT, LEGEND_LINE, plain

LONGEST, MOST = 13, 6  # letters and names that leave a narrow picture enough room for its lines
LINE_POINTS = 12.0  # the height of a name


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
    """Call this last: names stand where the axes, as they are by then, have the ends."""
    known = [line for line in lines if np.isfinite(line.x) and np.isfinite(line.y)]
    if len(known) < len(lines) or len(lines) > MOST or max(len(line.name) for line in lines) > LONGEST:
        _legend_in_order(figure, axes, lines)
        return
    points = 72 * HEIGHT * 0.7  # about what the axes have
    heights = [float(axes.transAxes.inverted().transform(axes.transData.transform((0, line.y)))[1]) for line in known]
    order = np.argsort(heights)
    places = spread_out([heights[index] * points for index in order], LINE_POINTS)
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
