"""The folder of a study as values: what `flockstep study` has left in study.json."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flockstep.report import shapes
from flockstep.report.files import read_object, understood
from flockstep.report.values import Array, drawn_number


@dataclass
class Series:
    """Series of one name belong together: a line and points, say, of what was simulated and what was published."""

    name: str
    mark: str  # line or points
    x: Array
    y: Array


@dataclass
class Table:
    name: str  # of its picture's file
    title: str
    columns: list[str]
    rows: list[list[str]]
    picture: dict[str, Any]
    series: list[Series]


@dataclass
class Study:
    folder: Path
    name: str
    description: str
    words: list[str]
    tables: list[Table]


def _series(each: dict[str, Any]) -> Series:
    x, y = (np.array([drawn_number(value) for value in each[axis]], dtype=np.float64) for axis in "xy")
    if x.size != y.size:
        raise ValueError(f"series {each['name']!r} has {x.size} places and {y.size} values")
    return Series(each["name"], each["mark"], x, y)


def _table(each: dict[str, Any]) -> Table:
    if any(len(row) != len(each["columns"]) for row in each["rows"]):
        raise ValueError(f"table {each['name']!r} has rows of different lengths")
    if Path(each["name"]).name != each["name"]:
        raise ValueError(f"table {each['name']!r} is no name of a file")
    series = [_series(one) for one in each["picture"]["series"]]
    return Table(each["name"], each["title"], each["columns"], each["rows"], each["picture"], series)


def read_study(folder: Path) -> Study:
    path = folder / "study.json"
    json = read_object(path)

    def make() -> Study:
        shapes.STUDY(json, "")
        tables = [_table(each) for each in json["tables"]]
        return Study(folder, json["study"], json["description"], json["words"], tables)

    return understood(path, "", make)
