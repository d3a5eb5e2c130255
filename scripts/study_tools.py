"""What the studies share: running a comparison once, reading it back, saving a picture, writing a table."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
COMMAND = ROOT / os.environ.get("FLOCKSTEP_BUILD", "build/release") / "bin" / "flockstep"
PICTURES = ROOT / "docs" / "pictures"

Rows = dict[str, dict[str, Any]]  # of a comparison with one case, by algorithm


def compare(out: Path, *arguments: str) -> Path:
    """Runs a comparison; what of it is already in `out` is not done again."""
    subprocess.run([COMMAND, "compare", *arguments, "--out", out], check=True, stdout=sys.stderr)
    return out


def rows_of(folder: Path) -> Rows:
    (case,) = json.loads((folder / "compare.json").read_text())["cases"]
    return {row["algorithm"]: row for row in case["rows"]}


def figure(row: dict[str, Any], name: str) -> float:
    """The mean over the seeds; NaN where some diverged."""
    value = row[name]["mean"]
    return math.nan if value is None else float(value)


def fresh(row: dict[str, Any]) -> str:
    return f"{row['fresh_fraction']['mean']:.2f}" if row.get("fresh_fraction") else "-"


def save(figure: Any, name: str) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURES / f"{name}.svg", metadata={"Date": None, "Creator": None})


def table(head: list[str], rows: list[list[str]]) -> None:
    for cells in (head, ["---"] * len(head), *rows):
        print("| " + " | ".join(cells) + " |")
    print()
