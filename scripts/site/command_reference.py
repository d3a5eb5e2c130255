"""Writes docs/reference/command.md from what the built command says of itself; a test compares the two.

build/venv/bin/python scripts/site/command_reference.py [build/release/bin/flockstep]
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "command.md"
LARGE = ("train", "compare")  # which have --help-all
SHARED = r"Options of (?!sim$)"  # what both have alike: options of tasks and algorithms
COLUMN = 30  # at which CLI11 begins to say what an option means, unless its name and type are longer
HEAD = re.compile(r"  (-\S+|[A-Z]+)( ([A-Z]+|\w+(\|\w+)+)\S*)?( REQUIRED)?( \.\.\.)? +")
INTRODUCTION = """# The command

What `flockstep COMMAND --help` says, and `--help-all` of `train` and `compare`. Every option of these two is also a key of a TOML file
for `--config`. Exit codes: 0 done, 1 a run failed, 2 a wrong call, 143 ended early by a signal.
"""


def page(command: Path) -> str:
    """The whole page, as Markdown."""
    names = re.findall(r"^  (\w+)  ", said(command, "--help").partition("Subcommands:\n")[2], re.MULTILINE)
    parts = [INTRODUCTION]
    for name in names:
        help_text = said(command, name, "--help-all" if name in LARGE else "--help")
        parts += [f"## flockstep {name}\n", *described(help_text)]
    everything = sections(said(command, LARGE[0], "--help-all"))
    parts.append("## Options of tasks and algorithms\n\nThey belong to `train` and `compare`.\n")
    for title, rows in everything:
        if re.match(SHARED, title):
            parts += [f"### {title.removeprefix('Options of ')}\n", table(rows)]
    return "\n".join(parts)


def said(command: Path, *arguments: str) -> str:
    return subprocess.run([command, *arguments], capture_output=True, text=True, check=True, timeout=60).stdout


def described(help_text: str) -> Iterator[str]:
    """What a subcommand is for, how to call it and what it takes."""
    summary, usage = help_text.split("\n", 2)[:2]
    yield f"{summary[0].upper()}{summary[1:]}.\n\n```text\n{usage.removeprefix('Usage: ')}\n```\n"
    for title, rows in sections(help_text):
        if not re.match(SHARED, title):
            yield f"**{title.replace('Positionals', 'Arguments')}**\n\n{table(rows)}"
    ending = help_text.rstrip().rpartition("\n\n")[2]
    if not re.search(r"^(  |\w.*:$)", ending, re.MULTILINE):
        yield f"```text\n{ending}\n```\n" if re.search(r"\S  +\S", ending) else f"{ending}\n"  # columns stay columns


def sections(help_text: str) -> list[tuple[str, list[tuple[str, str]]]]:
    """By title: options, or arguments, and what they mean."""
    found: list[tuple[str, list[tuple[str, str]]]] = []
    for line in help_text.split("\n")[2:]:
        if re.fullmatch(r"[A-Z][\w ,]*:", line):
            found.append((line[:-1], []))
        elif line.startswith(" " * COLUMN) and found:
            name, meaning = found[-1][1][-1]
            choice = re.sub(r"^ {32}(\w+) +", r"`\1`: ", line)  # of an argument that is one of a few words
            found[-1][1][-1] = name, f"{meaning}{'<br>' if choice != line else ' '}{choice.strip()}".strip()
        elif line.startswith("  ") and found:
            name, meaning = (line[:COLUMN], line[COLUMN:]) if HEAD.fullmatch(line[:COLUMN]) else (line, "")
            if "--help" not in name:
                found[-1][1].append((name.strip(), meaning.strip()))
    return [(title, rows) for title, rows in found if rows]


def table(rows: list[tuple[str, str]]) -> str:
    lines = ["| | |", "|---|---|"]
    for name, meaning in rows:
        option, _, kind = name.partition(" ")
        default = re.search(r"=(.+)$", kind)
        if default:
            meaning += f" [{default[1]}]"
        lines.append(f"| `{option}` | {escaped(meaning)} |")
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Markdown outside of what is code already."""
    parts = re.split(r"(`[^`]*`)", text)
    parts[::2] = [re.sub(r"([*_|]|<(?!br>))", r"\\\1", part) for part in parts[::2]]
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(
        page(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/release/bin/flockstep")), encoding="utf-8"
    )
