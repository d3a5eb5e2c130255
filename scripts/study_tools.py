"""What the studies share: running a comparison once, saving a picture, writing a table."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
COMMAND = ROOT / os.environ.get("FLOCKSTEP_BUILD", "build/release") / "bin" / "flockstep"
PICTURES = ROOT / "docs" / "pictures"


def compare(out: Path, *arguments: str) -> Path:
    """Runs a comparison unless `out` already holds it."""
    result = out / "compare.json"
    if not result.exists():
        subprocess.run([COMMAND, "compare", *arguments, "--out", out], check=True, stdout=sys.stderr)
    elif json.loads(result.read_text())["interrupted"]:
        sys.exit(f"{out} holds a comparison that was interrupted: delete it")
    return out


def save(figure: Any, name: str) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURES / f"{name}.svg", metadata={"Date": None, "Creator": None})


def table(head: list[str], rows: list[list[str]]) -> None:
    for cells in (head, ["---"] * len(head), *rows):
        print("| " + " | ".join(cells) + " |")
    print()
