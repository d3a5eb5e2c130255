"""The console script `flockstep`, and `python -m flockstep`: the subcommands that the package itself has.

Not the C++ command of the same name, which CMake builds. That one finds a Python for its reports and never calls this script, and
this script never starts that one: it only says where it is.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path

from flockstep._compatibility import require_torch
from flockstep._version import __version__

_FAILED, _WRONG_CALL = 1, 2  # exit codes, as the C++ command has them

# Name: its module, whether that needs torch, and what it does.
_SUBCOMMANDS = {
    "doctor": (
        "flockstep._doctor",
        False,
        "check what works on this machine, and say what to do where something does not",
    ),
    "launch": ("flockstep.launch", True, "start workers of any program, and start those again that are lost"),
    "report": (
        "flockstep.report.__main__",
        False,
        "draw the folder of a run or a comparison as one page, DIR/report.html",
    ),
    "bench": ("flockstep.bench.__main__", True, "measure a target of docs/benchmarks.md on this machine"),
}
_OF_THE_CPP_COMMAND = (
    *("train", "compare", "study", "calibrate", "completion", "algorithms", "tasks", "engines", "platforms"),
)


def cpp_command() -> Path | None:
    """The C++ command, where it is on the PATH: the first `flockstep` there that is no script."""
    for folder in os.get_exec_path():
        path = Path(folder) / "flockstep"
        try:
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF" and os.access(path, os.X_OK):
                    return path
        except OSError:
            continue
    return None


def _help() -> str:
    here = "\n".join(f"  {name:<8}  {purpose}" for name, (_, _, purpose) in _SUBCOMMANDS.items())
    return f"""usage: flockstep [--help] [--version] SUBCOMMAND [ARGUMENTS]

Data-parallel deep learning without lockstep: what the Python package has.

{here}

`flockstep SUBCOMMAND --help` tells more. {", ".join(_OF_THE_CPP_COMMAND[:-1])} and {_OF_THE_CPP_COMMAND[-1]}
are subcommands of the C++ command, which is built by CMake: README.md, "Building by hand"."""


def _unknown(name: str) -> str:
    if name in _OF_THE_CPP_COMMAND:
        found = cpp_command()
        how = f"it is {found}" if found else 'build it as README.md, "Building by hand", says'
        return f"{name} is a subcommand of the C++ command flockstep, which the Python package does not contain: {how}"
    close = get_close_matches(name, [*_SUBCOMMANDS, *_OF_THE_CPP_COMMAND], n=1)
    meant = f"; did you mean {close[0]}?" if close else " (see `flockstep --help`)"
    return f"there is no subcommand {name}{meant}"


def main(arguments: list[str] | None = None) -> int:
    """Runs a subcommand; the exit code."""
    name, *rest = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if name in ("-h", "--help", "help"):
        print(_help())
        return 0
    if name == "--version":
        print(f"flockstep {__version__}")
        return 0
    if name not in _SUBCOMMANDS:
        print(f"flockstep: {_unknown(name)}", file=sys.stderr)
        return _WRONG_CALL
    module, needs_torch, purpose = _SUBCOMMANDS[name]
    if name == "report" and rest in (["-h"], ["--help"]):
        print(f"usage: flockstep report [--text] DIR\n\n{purpose}; with --text, print its words and tables instead.")
        return 0
    try:
        if needs_torch:
            require_torch()
        run: Callable[[list[str]], int] = import_module(module).main
    except (ImportError, OSError) as error:  # OSError: a library of torch that cannot be loaded
        print(f"flockstep: {error} (`flockstep doctor` tells more)", file=sys.stderr)
        return _FAILED
    return run(rest)
