"""A figure that knows which of its marks show which series, and the picture that becomes of it.

A picture is SVG within the page, so that its letters and colours are the page's. Each mark tells the name of its series,
and its values, to whoever points at it: by a <title>, which browsers show themselves, and by attributes for the page's script.
"""

import io
import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import matplotlib
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from flockstep.report.records import Array
from flockstep.report.style import HEIGHT, WIDTH, look, swatch
from flockstep.report.svg import Frame, Mark, inline

LABEL_ROOM = 4.0  # points between two tick labels, at least
LEGEND_LINE, CHARACTERS = 0.19, 13 * WIDTH  # its height in inches, and what fits into it


@dataclass
class Entry:
    """Of a legend. `series` is what the marks call it; empty for several together."""

    series: str
    label: str
    swatch: str


@dataclass
class Picture:
    svg: str
    title: str
    alt: str
    legend: list[Entry]
    legend_title: str


@dataclass
class Sheet:
    height: float = HEIGHT
    figure: Figure = field(init=False)
    legend: list[Entry] = field(init=False, default_factory=list)
    legend_title: str = ""
    marks: dict[str, Mark] = field(init=False, default_factory=dict)  # by the id of the artist
    x_names: list[str] = field(init=False, default_factory=list)  # of the places 0, 1, ... on the x axis

    def __post_init__(self) -> None:
        self.figure = Figure(figsize=(WIDTH, self.height), layout="constrained", facecolor="none")

    def axes(self) -> Axes:
        axes: Axes = self.figure.subplots()
        return axes

    def tell(
        self, artist: Artist, series: str, title: str = "", x: Array | None = None, y: Array | None = None
    ) -> None:
        """Says what `artist` shows.

        One without a title, such as the band behind a line, has no value to tell; one with `x` and `y`, which are data of
        its axes, has one for each point.
        """
        gid = f"mark{len(self.marks)}"
        artist.set_gid(gid)
        self.marks[gid] = Mark(series, title, x, y)

    def line(self, axes: Axes, series: str, x: Array, y: Array, place: int, label: str = "", **changed: Any) -> None:
        """A line that looks as those of `place` do, with an entry in the legend."""
        (drawn,) = axes.plot(x, y, **{**look(place, len(x)), **changed})
        self.tell(drawn, series, label or series, x, y)
        self.legend.append(Entry(series, label or series, swatch(place)))

    def tell_cells(self, mesh: Artist, values: Array) -> None:
        """Of a heat map."""
        mesh.set_gid("cells")
        self.marks["cells"] = Mark("cosines", "", cells=values)

    def _part_x_labels(self) -> None:
        """Leaves out tick labels of an x axis, evenly, until none touches the next."""
        self.figure.draw_without_rendering()
        for axes in self.figure.axes:
            low, high = sorted(axes.get_xlim())
            known = zip(axes.get_xticks(), axes.get_xticklabels(), strict=False)
            shown = [(tick, label) for tick, label in known if low <= tick <= high and label.get_text()]
            if not axes.get_visible() or any(label.get_rotation() for _, label in shown):
                continue
            ends = [label.get_window_extent().intervalx for _, label in shown]
            room = LABEL_ROOM * self.figure.dpi / 72
            every = 1
            while any(after[0] - before[1] < room for before, after in pairwise(ends[::every])):
                every += 1
            if every > 1:
                axes.set_xticks(
                    [tick for tick, _ in shown],
                    ["" if place % every else label.get_text() for place, (_, label) in enumerate(shown)],
                )

    def _saved(self, **how: Any) -> bytes:
        self._part_x_labels()
        buffer = io.BytesIO()
        self.figure.savefig(buffer, format="svg", dpi=200, metadata={"Date": None, "Creator": None}, **how)
        return buffer.getvalue()

    def as_file(self) -> bytes:
        """For places without our style sheet: on white, with letters that look alike everywhere, and a legend inside."""
        drawn = {
            self.marks[gid].series: line for line in reversed(self.figure.axes[0].lines) if (gid := line.get_gid())
        }
        labels = [entry.label for entry in self.legend]
        columns = max(
            1, min(len(labels), int(CHARACTERS / (max(map(len, labels)) + 7)))
        )  # a handle takes those of seven
        self.figure.set_figheight(self.height + LEGEND_LINE * math.ceil(len(labels) / columns))
        handles = [drawn[entry.series] for entry in self.legend]
        self.figure.legend(
            handles, labels, loc="outside lower left", ncols=columns, handlelength=2.6, columnspacing=1.2
        )
        with matplotlib.rc_context({"svg.fonttype": "path"}):
            return self._saved(facecolor="white")

    def picture(self, title: str, alt: str) -> Picture:
        drawn = self._saved()
        asked = any(mark.x is not None for mark in self.marks.values())
        frame = Frame.of(self.figure.axes[0], self.x_names) if asked else None
        return Picture(inline(drawn, self.marks, frame, alt), title, alt, self.legend, self.legend_title)
