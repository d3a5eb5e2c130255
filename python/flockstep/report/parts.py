"""Files that workers have written one by one, because nobody asked them all: metrics-3.jsonl beside metrics.jsonl."""

import re
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from flockstep.report import shapes
from flockstep.report.files import read_lines, understood
from flockstep.report.values import drawn_number

MEASURED = ("loss", "seconds", "wait_s", "transfer_s")


def parts_of(path: Path) -> list[Path]:
    """Those of the other workers, by rank."""
    pattern = re.compile(rf"{re.escape(path.stem)}-([0-9]+){re.escape(path.suffix)}")
    found = [(int(name[1]), part) for part in path.parent.iterdir() if (name := pattern.fullmatch(part.name))]
    return [part for _, part in sorted(found)]


def take_means(path: Path, steps: list[dict[str, Any]]) -> None:
    """Makes what worker 0 has measured in its steps the mean over all workers whose files are there."""
    known: dict[tuple[int, str], list[float]] = defaultdict(list)

    def take(line: dict[str, Any]) -> None:
        shapes.LINES["step"](line, "")
        for name in MEASURED:
            known[line["step"], name].append(drawn_number(line[name]))

    for part in parts_of(path):
        for where, line in read_lines(part, only='"step"'):
            if line["kind"] == "step":
                understood(part, where, partial(take, line))
    for line in steps if known else ():
        for name in MEASURED:
            values = [drawn_number(line[name]), *known[line["step"], name]]
            finite = [value for value in values if np.isfinite(value)]
            line[name] = float(np.mean(finite)) if finite else None
