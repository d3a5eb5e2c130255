"""From an SVG file as matplotlib writes it to an element of the page: lean, in the page's colours, with the series' names."""

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import numpy as np
from matplotlib.axes import Axes

from flockstep.report.records import Array
from flockstep.report.style import css_colour

DROPPED = ("metadata", "style")
USUAL = ("font-family", "stroke-linejoin", "stroke-linecap", "fill:#1a1a1a", "stroke-dashoffset:0")
CONTROLS = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")  # in a name out of a file; XML has no place for them


@dataclass
class Mark:
    """What an artist shows: of which series, in words, and where its points are."""

    series: str
    title: str
    x: Array | None = None
    y: Array | None = None
    cells: Array | None = None  # of a heat map


@dataclass
class Frame:
    """Where data lie within a picture, so that a script can find the point below the pointer."""

    left: float
    top: float
    width: float
    height: float
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    scales: tuple[str, str]
    names: tuple[str, str]
    x_names: list[str]

    @classmethod
    def of(cls, axes: Axes, x_names: list[str]) -> "Frame":
        box, (width, height) = axes.get_position(), 72 * axes.figure.get_size_inches()  # type: ignore[union-attr]
        return cls(
            *(box.x0 * width, (1 - box.y1) * height, box.width * width, box.height * height),
            *(axes.get_xlim(), axes.get_ylim(), (axes.get_xscale(), axes.get_yscale())),
            *((axes.get_xlabel(), str(axes.get_label())), x_names),
        )

    def attributes(self) -> dict[str, str]:
        return {
            "data-frame": " ".join(f"{each:.1f}" for each in (self.left, self.top, self.width, self.height)),
            "data-range": " ".join(f"{each:.9g}" for each in (*self.x_range, *self.y_range)),
            "data-scales": " ".join(self.scales),
            "data-x-name": self.names[0],
            "data-y-name": self.names[1],
            **({"data-x-names": "\n".join(self.x_names)} if self.x_names else {}),
        }


def numbers_text(values: Array) -> str:
    """To six digits; what is no number is a dash."""
    return " ".join(f"{value:.6g}" if np.isfinite(value) else "-" for value in values)


def _local(name: str) -> str:
    """Without its namespace."""
    return name.rpartition("}")[2]


def _rounded(text: str) -> str:
    return re.sub(r"-?\d+\.\d+", lambda found: f"{float(found[0]):.2f}".rstrip("0").rstrip("."), text)


def clean_style(style: str) -> str:
    """Without fonts, which are the page's, and what the style sheet says already."""
    apart = re.sub(
        r"font: (\d+ )?([\d.]+px) [^;]*", r"font-size: \2; font-weight: \1", style
    )  # as matplotlib 3.7 has it
    parts = [part.strip().replace(": ", ":") for part in apart.split(";")]
    kept = [part for part in parts if part and not part.startswith(USUAL) and not part.endswith(":")]
    return re.sub(r"#[0-9a-f]{6}\b", lambda found: css_colour(found[0]), ";".join(kept))


def _clean(element: Element, ids: Mapping[str, str], marks: Mapping[str, Mark]) -> None:
    """Names without namespaces; ids that no other picture of the page has; coordinates of a hundredth of a point."""
    element.tag = _local(element.tag)
    cleaned = {_local(name): value for name, value in element.attrib.items()}
    if "d" in cleaned:
        cleaned["d"] = re.sub(r"\s*([A-Za-z])\s*", r"\1", _rounded(cleaned["d"])).strip()
    for name in {"x", "y", "width", "height"} & set(cleaned):
        cleaned[name] = _rounded(cleaned[name])
    if cleaned.get("transform", "").startswith("rotate(-0 "):
        del cleaned["transform"]
    if "style" in cleaned:
        cleaned["style"] = clean_style(cleaned["style"])
    if "fill" in cleaned:
        cleaned["fill"] = css_colour(cleaned["fill"])
    own = cleaned.pop("id", "")
    if own in ids:
        cleaned["id"] = ids[own]
    for name in {"href", "clip-path", "style"} & set(cleaned):
        cleaned[name] = re.sub(r"(^|url\()#(\w+)", lambda found: f"{found[1]}#{ids[found[2]]}", cleaned[name])
    element.attrib.clear()
    element.attrib.update(cleaned)
    element.text = (element.text or "").strip() or None
    element.tail = None
    for child in list(element):
        _clean(child, ids, marks)
        if child.tag in DROPPED or child.attrib.get("style") == "fill:none":
            element.remove(child)
    _unwrap(element)
    if own in marks:
        _tell(element, marks[own])


def _unwrap(element: Element) -> None:
    """Groups that say nothing go, and so do empty definitions."""
    for place, child in reversed(list(enumerate(element))):
        if child.tag in ("g", "defs") and (not len(child) or (child.tag == "g" and not child.attrib)):
            element[place : place + 1] = list(child)


def _tell(element: Element, mark: Mark) -> None:
    if mark.cells is not None:
        element.set("data-cells", " ".join(f"{value:.2f}" if np.isfinite(value) else "-" for value in mark.cells.flat))
        return
    element.set("class", "series")
    element.set("data-series", mark.series)
    if mark.x is not None and mark.y is not None:
        element.set("data-x", numbers_text(mark.x))
        element.set("data-y", numbers_text(mark.y))
    if mark.title:
        title = Element("title")
        title.text = mark.title
        element.insert(0, title)


def inline(drawn: bytes, marks: Mapping[str, Mark], frame: Frame | None, alt: str) -> str:
    root = ElementTree.fromstring(CONTROLS.sub(b"?", drawn))
    prefix = f"i{zlib.crc32(drawn + alt.encode()):x}"
    # What is counted (axes_1) and what we have named are nobody's goal; all else is: markers, clip paths, patterns.
    known = [own for each in root.iter() if (own := each.get("id"))]
    goals = [own for own in known if own not in marks and not re.search(r"_\d+$", own)]
    _clean(root, {own: f"{prefix}-{place}" for place, own in enumerate(goals)}, marks)
    view = root.get("viewBox") or ""
    root.attrib.clear()
    shown = {"class": "plot", "role": "img", "aria-label": alt, "viewBox": view}
    root.attrib.update({**shown, **(frame.attributes() if frame else {})})
    return ElementTree.tostring(root, encoding="unicode").replace(" />", "/>")
