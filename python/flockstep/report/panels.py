"""Small multiples: every algorithm once in its colour, against all others in grey.

Where there are too many lines for one picture. The panels have the axes of that picture, and are drawn here, since the
grey lines of all are the same ones: a page holds them once.
"""

import zlib
from dataclasses import dataclass
from html import escape

import numpy as np
from matplotlib.axes import Axes

from flockstep.report.records import Array
from flockstep.report.style import LINE_WIDTH, colour, css_colour, swatch

WIDTH, HEIGHT = 160, 104
LEFT, RIGHT, TOP, BOTTOM = 30, 156, 6, 90


@dataclass
class Shown:
    """A line with what it reaches at the lowest and the highest; `figure` is what it ends with."""

    series: str
    figure: str
    place: int
    x: Array
    y: Array
    low: Array
    high: Array


@dataclass
class Panel:
    series: str
    figure: str
    swatch: str
    svg: str


@dataclass
class Panels:
    title: str
    note: str
    panels: list[Panel]


def _path(axes: Axes, x: Array, y: Array) -> str:
    """In a panel's coordinates; a gap where there is no number."""
    places = axes.transAxes.inverted().transform(axes.transData.transform(np.column_stack([x, y])))
    parts, pen = [], "M"
    for across, up in places:
        if not (np.isfinite(across) and np.isfinite(up)):
            pen = "M"
            continue
        up = min(max(up, -9.0), 9.0)  # far outside, and cut off there
        parts.append(f"{pen}{LEFT + across * (RIGHT - LEFT):.1f} {BOTTOM - up * (BOTTOM - TOP):.1f}")
        pen = "L"
    return "".join(parts)


def _band(axes: Axes, line: Shown) -> str:
    known = np.isfinite(line.low) & np.isfinite(line.high)
    x, edges = line.x[known], (line.low[known], line.high[known][::-1])
    return _path(axes, np.concatenate([x, x[::-1]]), np.concatenate(edges)) + "z" if x.size > 1 else ""


def _ticks(axes: Axes) -> str:
    """The first and the last of either axis, in words, and a faint line for each of the y axis."""
    drawn = []
    low, high = sorted(axes.get_ylim())
    ups = [(place, text.get_text()) for place, text in zip(axes.get_yticks(), axes.get_yticklabels(), strict=False)]
    ups = [(place, text) for place, text in ups if low <= place <= high and text]
    for index, (place, text) in enumerate(ups):
        y = BOTTOM - float(axes.transAxes.inverted().transform(axes.transData.transform((0, place)))[1]) * (
            BOTTOM - TOP
        )
        drawn.append(f'<path d="M{LEFT} {y:.1f}H{RIGHT}" stroke="var(--grid)"/>')
        if index in (0, len(ups) - 1):
            drawn.append(f'<text x="{LEFT - 3}" y="{y + 3:.1f}" text-anchor="end">{escape(text)}</text>')
    left, right = axes.get_xlim()
    places = [(place, text.get_text()) for place, text in zip(axes.get_xticks(), axes.get_xticklabels(), strict=False)]
    places = [(place, text) for place, text in places if left <= place <= right and text]
    for place, text in places[:: max(1, len(places) - 1)]:
        x = LEFT + (place - left) / (right - left) * (RIGHT - LEFT)
        drawn.append(f'<text x="{x:.1f}" y="{HEIGHT - 3}" text-anchor="middle">{escape(text)}</text>')
    return "".join(drawn)


def panels_of(axes: Axes, lines: list[Shown], title: str) -> Panels:
    """`axes` are those of the picture with all lines, once it is drawn. The first line is in every panel."""
    paths = [_path(axes, line.x, line.y) for line in lines]
    grey = "".join(f'<path d="{path}"/>' for path in paths)
    behind = f"p{zlib.crc32((title + grey).encode()):x}"
    clip = f'clip-path="url(#{behind}-c)"'
    shared = f'<clipPath id="{behind}-c"><path d="M{LEFT} {TOP - 2}H{RIGHT + 2}V{BOTTOM + 2}H{LEFT}z"/></clipPath>'
    shared += f'<g id="{behind}" font-size="8.5" fill="var(--ink)">{_ticks(axes)}'
    shared += f'<g fill="none" stroke="var(--faint)" {clip}>{grey}'
    shared += f'<path d="{paths[0]}" stroke="var(--ink)" stroke-dasharray="1 2"/></g></g>'
    panels = []
    for index, line in enumerate(lines):
        shade = css_colour(colour(line.place))
        drawn = (shared if index == 0 else f'<use href="#{behind}"/>') + f"<g {clip}>"
        if band := _band(axes, line):
            drawn += f'<path d="{band}" fill="{shade}" opacity=".25"/>'
        drawn += f'<path d="{paths[index]}" fill="none" stroke="{shade}" stroke-width="{1.4 * LINE_WIDTH:g}"/></g>'
        said = escape(f"{line.series} {line.figure}, against the others: {title}.")
        frame = f'class="panel" role="img" aria-label="{said}" viewBox="0 0 {WIDTH} {HEIGHT}"'
        panels.append(Panel(line.series, line.figure, swatch(line.place, line=False), f"<svg {frame}>{drawn}</svg>"))
    note = f"The axes of the picture above. In grey all others; dotted, {lines[0].series}."
    return Panels(title, note, panels)
