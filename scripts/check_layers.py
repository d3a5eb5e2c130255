"""Checks the layers of src/ and lab/, in the order of cmake/layers.txt, and what some layers have to stay free of.

Without arguments it reads the sources. A file includes only headers of its own layer and of those before it: in quotes, and named
from the top of src/, lab/ or include/, so that no spelling goes past the check. A public header belongs to the layer that implements
it, and a package to the layers that USES gives it.

A source can reach another layer without an include, through a declaration of its own or a header that declares more than its
layer defines. Only compiled code tells. `check_layers.py --objects FOLDER` reads what a build made of each layer (FOLDER/NAME.txt
lists the objects of NAME): every symbol that a layer leaves undefined and some layer defines has to be defined in that layer or
before it. ctest runs it as the test `layers`.

Some layers stay free of things that belong to others: torch headers, threads and clocks, MPI. What is linked where torch is, which
is all but the command itself, stays free of C++ streams, and of torch's functions that build texts with them: where a
compiler links its C++ library statically, a stream meets two of them and breaks. And no two files may define a type of the
same name in the same namespace: the compiler sees one at a time, and the linker keeps either's functions for both.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LISTED = re.findall(r"^(?:src|lab)/(\w+) *(.*)$", (ROOT / "cmake" / "layers.txt").read_text(), re.MULTILINE)
LAYERS = [name for name, _ in LISTED]
LAYER_OF_PUBLIC = {header: name for name, headers in LISTED for header in headers.split()}
TOPS = ["src", "lab", "include"]  # where the compiler looks for our headers
PACKAGES = {
    r"mpi\.h|flockstep/mpi\.h": {"engines", "api", "bench"},
    r"(simgrid|asio)/|sodium\.h": {"engines"},
    r"(zlib|png|jpeglib|jerror)\.h": {"tasks"},
    r"(CLI|toml\+\+)/": {"command"},
}
USERS_OF_ENGINES = {"runtime", "algorithms", "telemetry", "session", "train"}
PURE = {"math", "protocol"}
STREAMS_ALLOWED = "lab/command/"
STREAM = r"#include <(iostream|[iof]stream|sstream|iomanip|c10/util/StringUtil\.h)>|std::\w*stream\b|\bc10::(str|Join)\(|\bTORCH_(CHECK|WARN)"
TORCH_ALLOWED = ("src/torch/", "include/flockstep/torch.h", "src/engines/c10d/")
TORCH_ALLOWED_IN_LAB = ("lab/tasks/torch/", "lab/bench/data_parallel_benchmark.cpp")


def streams_of(path: Path) -> list[str]:
    found = None if str(path).startswith(STREAMS_ALLOWED) else re.search(STREAM, path.read_text())
    return [f"{path}: has {found[0]}, and streams break near torch: use base/text.h or base/files.h"] if found else []


def problem_of_include(included: str, layer: str) -> str | None:
    """What is wrong with a file of `layer` that includes this; `included` has its quotes or brackets."""
    name = included[1:-1]
    folder, _, header = name.partition("/")
    for package, layers in PACKAGES.items():
        if re.match(package, name) and layer not in layers:
            return f"includes {name}, which is for {', '.join(sorted(layers))} alone"
    if included.startswith("<") and ".." not in name and not any(Path(top, name).is_file() for top in TOPS):
        return None  # of the system or of a package
    other = LAYER_OF_PUBLIC.get(header) if folder == "flockstep" else folder
    if not re.fullmatch(r'"[a-z_0-9/]+\.h"', included) or other not in LAYERS:
        return f'includes {included}: write "FOLDER/NAME.h", with a FOLDER of cmake/layers.txt or with flockstep and a NAME from there'
    if LAYERS.index(other) > LAYERS.index(layer):
        return f"includes {name}, which belongs to {other}, after {layer} in cmake/layers.txt"
    return None


def problems_of(path: Path) -> list[str]:
    text = path.read_text()
    layer = LAYER_OF_PUBLIC.get(path.name, "") if path.parts[0] == "include" else path.parts[1]
    if layer not in LAYERS:
        return [f"{path}: belongs to no layer that cmake/layers.txt lists"]
    found = [
        problem
        for included in re.findall(r"^[ \t]*#[ \t]*include\w*[ \t]*(.*?)[ \t]*(?://.*)?$", text, re.MULTILINE)
        if (problem := problem_of_include(included, layer))
    ]
    if re.search(r"#include <(torch|ATen|c10)/", text) and not str(path).startswith(
        TORCH_ALLOWED + TORCH_ALLOWED_IN_LAB
    ):
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


def symbols_of(objects: list[str]) -> tuple[set[str], set[str]]:
    """The symbols that these objects define, and those that they use and leave undefined."""
    objects = [each for each in objects if each.endswith(".o")]  # CMake lists precompiled headers, too
    listed = subprocess.run(
        ["nm", "--portability", "--extern-only", *objects], capture_output=True, text=True, check=True
    )
    symbols = [line.split()[:2] for line in listed.stdout.splitlines() if line and not line.endswith(":")]
    defined = {name for name, kind in symbols if kind not in "Uvw"}
    return defined, {name for name, kind in symbols if kind in "Uvw"} - defined


def symbol_problems(folder: Path) -> list[str]:
    """What a layer uses of a later one, in the objects that the files of this folder list."""
    layers = [name for name in LAYERS if (folder / f"{name}.txt").exists()]
    if not layers:
        return [f"{folder} has no lists of objects: configure with -DFLOCKSTEP_TESTS=ON, and build"]
    symbols = {name: symbols_of((folder / f"{name}.txt").read_text().split()) for name in layers}
    so_far, all_defined = set(), set().union(*(defined for defined, _ in symbols.values()))
    problems = []
    for place, name in enumerate(layers):
        defined, undefined = symbols[name]
        so_far |= defined
        for symbol in sorted((undefined & all_defined) - so_far):
            owner = next(later for later in layers[place + 1 :] if symbol in symbols[later][0])
            plain = subprocess.run(["c++filt", symbol], capture_output=True, text=True, check=True).stdout.strip()
            problems.append(f"{name}: uses {plain}, which {owner} defines, after {name} in cmake/layers.txt")
    return problems


def sources_in(*folders: str) -> list[Path]:
    patterns = [f"{folder}/*.{kind}" for folder in folders for kind in ("h", "cpp")]
    listed = subprocess.run(["git", "ls-files", *patterns], capture_output=True, text=True, check=True)
    return [Path(name) for name in listed.stdout.split()]


def source_problems() -> list[str]:
    paths = sources_in(*TOPS)
    problems = [problem for path in paths for problem in problems_of(path)] + repeated_types(paths)
    for path in sources_in(*TOPS, "python/native", "tests/torch", "tests/tasks/torch"):
        problems += streams_of(path)
    return problems


def main() -> int:
    problems = symbol_problems(Path(sys.argv[2])) if sys.argv[1:2] == ["--objects"] else source_problems()
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
