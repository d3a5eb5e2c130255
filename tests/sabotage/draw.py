"""Draws faults for sabotages.toml from a seed: one in each of 60 files of src, as a mutation tester would.

A file is drawn if it has more than 150 lines, or is the longest source of a folder without such a file; each folder gives
one file before any gives a second. Entries go to standard output, and what was skipped, by rule, to standard error. The
argument is a folder with what `make build` made, by default build/release: it tells how a file is compiled.
"""

import collections
import itertools
import json
import random
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SEED, COUNT = 38, 60
ROOT = Path(__file__).resolve().parents[2]
# Code that only a GPU runs: no test on a CPU could notice.
ON_A_GPU = ("src/kernels/cuda", "src/engines/nccl")
# Changes within a line: what stands there, and what takes its place.
CHANGES = {
    "comparison": "< <=, <= <, > >=, >= >, == !=, != ==",
    "logic": "&& ||, || &&, (! (, true false, false true",
    "arithmetic": "+ -, - +, * /, / *, % /, += -=, -= +=, std::min std::max, std::max std::min",
    "constant": "0 1, 1 2, 2 3, 3 2, 4 3, 8 7",
}
# Lines that are left out.
DROPS = {
    "lock": r"\s+const std::(lock_guard|scoped_lock) \w+\(.*\);$",
    "wait": r"\s+[\w.>()\[\]*-]*wait\w*\(.*\);$|\s+[\w.>-]+(join|synchronize)\w*\(\);$",
    "condition": r"\s+if \(.*\) [^{]*;$",
    "statement": r"\s+(?!return\b|throw\b|case\b|co_|using\b|delete\b)[\w.>()\[\]:*+-]+(\(.*\)| [-+*/|&]?= .*|\+\+);$",
}
# What changes nothing that a test could state, by the line alone.
SKIPPED = {
    "log or trace": r"\b(log|trace|spdlog)::|\blog\(|\.(debug|info|warn|warning)\(|trace_|trace\(\)",
    "capacity": r"\.reserve\(|shrink_to_fit",
    "wording": r"\bfmt::|\bformat\(|\bError\(|\bdescribe|std::to_string",
    "declaration": r"^\s*(static_assert|using|template|friend)\b|^\s*[A-Z]\w*\(|\boperator\b|= default|#|<[\w:, ]*\d+[\w:, ]*>",
    "internal check": r"\bbase::check\(",
    "patience": r"[Pp]atience|kLook|milliseconds|seconds\(|\d(ms|s|us)\b|yield\(",
}


# Operators stand between spaces; names and numbers stand alone.
def pattern_of(old: str) -> str:
    if old == "(!":
        return r"\(!"
    return rf"(?<![\w.']){old}(?![\w.'])" if old[0].isalnum() else f"(?<= ){re.escape(old)}(?= )"


# The line with its strings and its comment blanked, of the same length.
def code_of(line: str) -> str:
    return re.sub(r'"(\\.|[^"\\])*"|//.*', lambda found: " " * len(found[0]), line)


# Kind, description, line, and the lines that take its place.
def candidates(lines: list[str]) -> Iterator[tuple[str, str, int, list[str]]]:
    before = "{"
    codes = [code_of(line) for line in lines]
    for number, (line, code) in enumerate(zip(lines, codes, strict=True)):
        for kind, changes in CHANGES.items():
            for old, new in map(str.split, changes.split(", ")):
                for found in re.finditer(pattern_of(old), code):
                    changed = line[: found.start()] + new + line[found.end() :]
                    yield kind, f"`{old}` becomes `{new}`", number, [changed]
        drop = next((kind for kind, pattern in DROPS.items() if re.match(pattern, code.rstrip())), None)
        is_whole = before.endswith(("{", "}", ";", ":")) and code.count("(") == code.count(")")
        if drop and is_whole and not "".join(codes[number + 1 : number + 2]).strip().startswith("else"):
            yield drop, f"`{line.strip()}` is left out", number, []
        before = code.strip() or before


# The text and what takes its place, with as many lines before as it takes to occur once.
def at_its_place(lines: list[str], number: int, changed: list[str]) -> tuple[str, str]:
    first = number - (not changed)
    while "\n".join(lines).count("\n".join(lines[first : number + 1])) > 1:
        first -= 1
    return "\n".join(lines[first : number + 1]), "\n".join([*lines[first:number], *changed])


# As the build folder compiles the file, or for a header another source of its folder.
def command_for(file: Path, units: list[dict[str, str]]) -> list[str]:
    sources = [file] if file.suffix == ".cpp" else sorted(file.parent.glob("*.cpp"))
    wanted = [f"/{source.relative_to(ROOT)}" for source in sources]
    for unit in units:
        path = Path(unit["directory"], unit["file"])
        text = path.read_text() if path.suffix == ".cxx" else ""
        if any(unit["file"].endswith(name) or f'{name}"' in text for name in wanted):
            words = shlex.split(unit["command"].split(" -o ")[0])
            return [word for word in words if "ccache" not in word] + ["-fsyntax-only", "-x", "c++", "-"]
    raise SystemExit(f"the build folder does not compile {file}")


def entry_of(file: Path, units: list[dict[str, str]], skipped: collections.Counter[str]) -> str:
    chance = random.Random(f"{SEED} {file.relative_to(ROOT)}")
    lines = file.read_text().split("\n")
    of_kind = collections.defaultdict(list)
    for candidate in candidates(lines):
        of_kind[candidate[0]].append(candidate)
    while any(of_kind.values()):
        kinds = [kind for kind, left in of_kind.items() if left for _ in range(3 if kind == "wait" else 1)]
        listed = of_kind[chance.choice(kinds)]
        kind, what, number, changed = listed.pop(chance.randrange(len(listed)))
        rule = next((name for name, pattern in SKIPPED.items() if re.search(pattern, lines[number])), None)
        if not rule:
            text = "\n".join([*lines[:number], *changed, *lines[number + 1 :]]).replace("#pragma once\n", "\n")
            build = units[0]["directory"]
            if (
                subprocess.run(
                    command_for(file, units), cwd=build, input=text, text=True, stderr=subprocess.DEVNULL
                ).returncode
                == 0
            ):
                old, new = at_its_place(lines, number, changed)
                name = f"{file.parent.name}-{file.stem}".replace("_", "-") + ("-h" if file.suffix == ".h" else "")
                fields = {"id": name, "layer": file.relative_to(ROOT).parts[1], "fault": f"{kind}: {what}"}
                fields |= {"file": str(file.relative_to(ROOT)), "old": old, "new": new}
                written = [f"{key} = {json.dumps(value)}\n" for key, value in fields.items()]
                return "[[sabotage]]\n" + "".join(written)
            rule = "does not compile"
        skipped[rule] += 1
    return ""


def files() -> list[Path]:
    folders = collections.defaultdict(list)
    for path in sorted(ROOT.glob("src/**/*.*")):
        if path.suffix in (".h", ".cpp") and not str(path.relative_to(ROOT)).startswith(ON_A_GPU):
            folders[path.parent].append((path.read_text().count("\n"), path))
    chosen = []
    for inside in folders.values():
        sources = [each for each in inside if each[1].suffix == ".cpp"]
        chosen += [path for length, path in inside if length > 150] or [path for _, path in sorted(sources)[-1:]]
    random.Random(SEED).shuffle(chosen)
    first = {path.parent: path for path in chosen}
    return [*first.values(), *(path for path in chosen if path not in first.values())]


def main() -> None:
    build = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "release"
    units = json.loads((build / "compile_commands.json").read_text())
    skipped: collections.Counter[str] = collections.Counter()
    entries = filter(None, (entry_of(file, units, skipped) for file in files()))
    for entry in itertools.islice(entries, COUNT):
        print(entry, flush=True)
    print("skipped:", ", ".join(f"{rule} {number}" for rule, number in skipped.most_common()), file=sys.stderr)


if __name__ == "__main__":
    main()
