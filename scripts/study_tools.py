"""What the studies share: running a comparison once, saving a picture, writing a table."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
COMMAND = ROOT / os.environ.get("FLOCKSTEP_BUILD", "build/release") / "bin" / "flockstep"
PICTURES = ROOT / "docs" / "pictures"


def compare(out: Path, *arguments: str) -> Path:
    """Runs a comparison; what of it is already in `out` is not done again."""
    subprocess.run([COMMAND, "compare", *arguments, "--out", out], check=True, stdout=sys.stderr)
    return out


def save(figure: Any, name: str) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURES / f"{name}.svg", metadata={"Date": None, "Creator": None})


def table(head: list[str], rows: list[list[str]]) -> None:
    for cells in (head, ["---"] * len(head), *rows):
        print("| " + " | ".join(cells) + " |")
    print()
