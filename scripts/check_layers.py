"""Checks the layering rules that the linker cannot; tests/CMakeLists.txt has the linker check the others.

Headers alone leave nothing to link: each folder of src/ and lab/ includes only from itself and from those listed before it. Some
layers stay free of things that belong to others: torch headers, threads and clocks, MPI. What is linked where torch is, which
is all but the command itself, stays free of C++ streams, and of torch's functions that build texts with them: where a
compiler links its C++ library statically, a stream meets two of them and breaks. And no two files may define a type of the
same name in the same namespace: the compiler sees one at a time, and the linker keeps either's functions for both.
"""

import re
import subprocess
import sys
from pathlib import Path

# As in src/CMakeLists.txt and lab/CMakeLists.txt.
LAYERS = ["base", "math", "kernels", "protocol", "engines", "runtime", "algorithms", "telemetry"]
LAYERS += ["session", "api", "supervisor", "torch"]
LAYERS += ["train", "tasks", "runs", "compare", "study", "bench", "command"]
USERS_OF_ENGINES = {"runtime", "algorithms", "telemetry", "session", "train"}
PURE = {"math", "protocol"}
STREAMS_ALLOWED = "lab/command/"
STREAM = r"#include <(iostream|[iof]stream|sstream|iomanip|c10/util/StringUtil\.h)>|std::\w*stream\b|\bc10::(str|Join)\(|\bTORCH_(CHECK|WARN)"
TORCH_ALLOWED = ("src/torch/", "lab/tasks/torch/", "lab/bench/data_parallel_benchmark.cpp", "src/engines/c10d/")


def streams_of(path: Path) -> list[str]:
    found = None if str(path).startswith(STREAMS_ALLOWED) else re.search(STREAM, path.read_text())
    return [f"{path}: has {found[0]}, and streams break near torch: use base/text.h or base/files.h"] if found else []


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
    if layer in USERS_OF_ENGINES and re.search(
        r"std::(j?thread|mutex|condition_variable)|_clock::now|sleep_for|<mpi\.h>", text
    ):
        found.append("waits or reads a clock past the engine")
    return [f"{path}: {problem}" for problem in found]


def types_of(path: Path) -> set[str]:
    """The types that a file defines, but for those that nobody else can see."""
    text = re.sub(r"^namespace \{$.*?^\}  // namespace$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    found, space = set(), ""
    definition = r"^namespace ([a-z_0-9:]+) \{|^(?:class|struct|enum class) ([A-Za-z0-9]+)(?: final)?(?: :[^;{]*)? \{"
    for opened, name in re.findall(definition, text, re.MULTILINE):
        space = opened or space
        if name:
            found.add(f"{space}::{name}")
    return found


def repeated_types(paths: list[Path]) -> list[str]:
    first: dict[str, Path] = {}
    problems = []
    for path in paths:
        for name in sorted(types_of(path)):
            if first.setdefault(name, path) != path:
                problems.append(f"{path}: defines {name}, as {first[name]} does")
    return problems


def sources_in(*folders: str) -> list[Path]:
    patterns = [f"{folder}/*.{kind}" for folder in folders for kind in ("h", "cpp")]
    listed = subprocess.run(["git", "ls-files", *patterns], capture_output=True, text=True, check=True)
    return [Path(name) for name in listed.stdout.split()]


def main() -> int:
    paths = sources_in("src", "lab")
    problems = [problem for path in paths for problem in problems_of(path)] + repeated_types(paths)
    for path in sources_in("src", "lab", "include", "python/native", "tests/torch"):
        problems += streams_of(path)
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
