"""`flockstep launch` or `python -m flockstep.launch`: starts workers of any program, and starts those again that are lost.

The same as the C++ command's ``flockstep launch``, for whoever has the package alone. docs/elastic.md says what it does.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys

# Before the compiled half, which needs its libraries.
import torch  # noqa: F401

from flockstep import BadInputError, Error
from flockstep._native import LaunchOptions, supervise

_FAILED, _WRONG_CALL = 1, 2  # exit codes, as the command has them


def _number(text: str) -> int:
    if not text.removeprefix("-").isdigit() or abs(int(text)) >= 1 << 31:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number")
    return int(text)


def _names(text: str) -> list[str]:
    return text.split(",")


def _parser() -> argparse.ArgumentParser:
    defaults = LaunchOptions()
    parser = argparse.ArgumentParser(
        prog="flockstep launch",
        usage="%(prog)s --workers N [OPTIONS] -- COMMAND [ARGUMENTS]",
        description="Start workers of any program, and restart those that are lost.",
        epilog="Each worker finds its place in its environment: FLOCKSTEP_RANK, FLOCKSTEP_WORKERS and others "
        "(docs/elastic.md). A worker that fails is restarted alone, after a delay that grows. Ctrl-C ends all workers.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--workers", type=_number, default=0, metavar="N", help="number of workers to start")
    add(
        "--hosts",
        type=_names,
        default=[],
        metavar="A,B",
        help="start them on these hosts, in blocks, through ssh [this host]",
    )
    add(
        "--restarts",
        type=_number,
        default=defaults.restarts,
        metavar="N",
        help="how many times each worker is restarted when it fails [%(default)s]",
    )
    add(
        "--heartbeat",
        default=defaults.heartbeat,
        metavar="TIME",
        help="a worker that is silent for this long counts as lost [%(default)s]",
    )
    add("--join", default="", metavar="HOST:PORT", help="add the workers to a run in progress, whose store is there")
    add(
        "--secret-file",
        default="",
        metavar="FILE",
        help="file with the run's secret, which only you may read; made if it does not exist, except with --join "
        "[a new one, removed at the end]",
    )
    add(
        "--address",
        default="",
        metavar="HOST",
        help="address of this host for other hosts [with --hosts its name, else 127.0.0.1]",
    )
    add("--port", type=_number, default=0, metavar="N", help="of the run's store [any that is free]")
    add(
        "--ssh",
        default=defaults.ssh,
        metavar="PROGRAM",
        help="to reach other hosts with, called as `ssh HOST sh -s` [%(default)s]",
    )
    add("--prefix", action="store_true", help="prefix each line of a worker with its rank, as on a terminal")
    return parser


def _options(arguments: list[str]) -> LaunchOptions:
    """Splits at the first --, since all that follows is another program's business."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    chosen, extras = _parser().parse_known_args(arguments[:at])
    if extras and extras[0].startswith("-"):
        raise BadInputError(f"launch does not take {extras[0]} (see `flockstep launch --help`)")
    if extras:
        raise BadInputError(f"launch needs -- before the command of a worker: write `-- {extras[0]} ...`")
    options = LaunchOptions()
    for name, value in vars(chosen).items():
        setattr(options, name, value)
    options.command = arguments[at + 1 :]
    return options


def _signals_as_bytes() -> int:
    """From here on the interpreter writes the numbers of these signals to a pipe; its reading end."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, lambda *_: None)
    return reading


def main(arguments: list[str]) -> int:
    """Runs until no worker is left; the exit code."""
    try:
        return supervise(_options(arguments), _signals_as_bytes())
    except Error as error:
        print(f"flockstep: {error}", file=sys.stderr)
        return _WRONG_CALL if isinstance(error, BadInputError) else _FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
