"""python -m flockstep.bench: measures a target of docs/benchmarks.md on this machine."""

import argparse
import sys
from collections.abc import Sequence

from flockstep.bench import adacons, ddp
from flockstep.bench.contenders import CONTENDERS
from flockstep.bench.launch import start_torchrun, under_torchrun
from flockstep.bench.networks import WORKLOADS


class _Count:
    """A whole number, at least so large."""

    def __init__(self, least: int) -> None:
        self._least = least

    def __call__(self, text: str) -> int:
        if not text.isdigit() or int(text) < self._least:
            raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of at least {self._least}")
        return int(text)


class _Names:
    """A list such as gpt,resnet50 out of those known."""

    def __init__(self, known: Sequence[str]) -> None:
        self._known = known

    def __call__(self, text: str) -> list[str]:
        names = text.split(",")
        for name in names:
            if name not in self._known:
                raise argparse.ArgumentTypeError(f"'{name}' is none of {', '.join(self._known)}")
        return names


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m flockstep.bench",
        description="Measures a target of docs/benchmarks.md on this machine: under torchrun, or as workers that it starts.",
    )
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--workers", type=_Count(2), default=4, help="P, where torchrun has not started them [4]")
    common.add_argument("--rounds", type=_Count(1), default=15, help="timed rounds [15]")
    common.add_argument("--json", action="store_true", help="one object per figure: id, figure, bar, at_most, holds")
    names = parser.add_subparsers(dest="name", required=True, metavar="NAME")
    a3 = names.add_parser("adacons", parents=[common], help="aggregation alone against an all-reduce on Gloo (A3)")
    a3.add_argument("--floats", type=_Count(1), default=25_600_000, help="length of the gradient [25600000]")
    a4 = names.add_parser("ddp", parents=[common], help="whole steps of DDP training (A4, A4s, A4g)")
    a4.add_argument("--model", type=_Names(list(WORKLOADS)), default=["resnet50", "gpt"], help="[resnet50,gpt]")
    a4.add_argument("--hooks", type=_Names(CONTENDERS), default=CONTENDERS, help=f"[{','.join(CONTENDERS)}]")
    a4.add_argument(
        "--transfer",
        choices=["exact", "sketch"],
        default="exact",
        help="of Flockstep's rules (sketch: A4s, A4g) [exact]",
    )
    a4.add_argument(
        "--device", choices=["cpu", "cuda"], default="cpu", help="cuda: over NCCL, ranks may share a GPU [cpu]"
    )
    a4.add_argument("--limit", type=_Count(1), default=180, metavar="SECONDS", help="of one row [180]")
    return parser


def main(arguments: list[str]) -> int:
    chosen = _parser().parse_args(arguments)
    if not under_torchrun():
        return start_torchrun(chosen.workers, arguments)
    if chosen.name == "adacons":
        return adacons.run(chosen.floats, chosen.rounds, chosen.json)
    return ddp.run(chosen.model, chosen.hooks, chosen.rounds, chosen.limit, chosen.json, chosen.transfer, chosen.device)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
