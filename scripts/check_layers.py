"""Checks that the layers hold: each folder of src/ includes only from itself and from those above it.

The order is the one drawn in docs/architecture.md. Some layers must also stay free of things that belong to others:
torch headers, threads and clocks, MPI.
"""

import re
import subprocess
import sys
from pathlib import Path

LAYERS = [
    "base",
    "math",
    "kernels",
    "protocol",
    "engines",
    "runtime",
    "algorithms",
    "train",
    "torch",
    "tasks",
    "compare",
    "cli",
]
ABOVE_THE_ENGINES = {"runtime", "algorithms", "train"}
PURE = {"math", "protocol"}
TORCH_ALLOWED = ("src/torch/", "src/tasks/torch/", "src/engines/c10d/")


def problems_of(path: Path) -> list[str]:
    text = path.read_text()
    layer = path.parts[1]
    found = []
    for included in re.findall(r'^#include "([a-z_0-9]+)/', text, re.MULTILINE):
        if included in LAYERS and LAYERS.index(included) > LAYERS.index(layer):
            found.append(f"includes {included}/, which is below {layer}/")
    if re.search(r"#include <(torch|ATen|c10)/", text) and not str(path).startswith(TORCH_ALLOWED):
        found.append("includes torch headers")
    if layer in PURE and re.search(r"#include <(mpi\.h|thread|mutex|condition_variable|chrono|sys/)", text):
        found.append("does I/O or keeps time in a pure layer")
    if layer in ABOVE_THE_ENGINES and re.search(
        r"std::(j?thread|mutex|condition_variable)|_clock::now|sleep_for|<mpi\.h>", text
    ):
        found.append("waits or reads a clock past the engine")
    return [f"{path}: {problem}" for problem in found]


def main() -> int:
    listed = subprocess.run(["git", "ls-files", "src/*.h", "src/*.cpp"], capture_output=True, text=True, check=True)
    problems = [problem for name in listed.stdout.split() for problem in problems_of(Path(name))]
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
