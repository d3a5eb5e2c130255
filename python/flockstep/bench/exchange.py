"""G1, G2: AdaCons through DDP's hook on a GPU, against an all-reduce of NCCL and against the published two.

Every contender runs in processes of its own, so that each can have the settings of NCCL that suit it best. Processes of
different contenders take turns, since they cannot share a round.
"""

import json
import sys
from dataclasses import dataclass
from typing import Any

import torch

from flockstep._schema import SCHEMA
from flockstep.bench.harness import Spread, Target, Timings, milliseconds, table
from flockstep.bench.launch import Children, ranks_share_gpus

BARS = {"all_reduce": ("G1", "dist.all_reduce", 0.90), "two_all_reduces": ("G2", "two all-reduces", 0.45)}
CONTENDERS = {
    "adacons": "adacons, exact, through DDP's hook",
    "all_reduce": "dist.all_reduce",
    "two_all_reduces": "AdaCons as published, two all-reduces",
    "ddp": "backward of plain DDP",
}
# More threads and sockets per connection; the hook's own communicators need no setting.
SETTINGS: dict[str, dict[str, str]] = {
    "defaults": {},
    "4x4-sockets": {"NCCL_SOCKET_NTHREADS": "4", "NCCL_NSOCKS_PERTHREAD": "4"},
}
ABOUT = "A ratio is one of medians, each contender at the settings that suit it best, with the interval that holds it with 95%."
SHARED = "The ranks share a GPU and exchange over loopback sockets, which says nothing of NVLink or of a network."


@dataclass(frozen=True)
class Measured:
    """Times of a contender with the same settings, over all its processes; or why there are none."""

    contender: str
    settings: str
    seconds: list[float]
    failure: str = ""

    @property
    def median(self) -> float:
        return self.spread.median

    @property
    def spread(self) -> Spread:
        return Spread.of(torch.tensor(self.seconds))

    def cells(self) -> list[str]:
        name = CONTENDERS[self.contender]
        if self.failure:
            return [name, f"{self.settings}  failed: {self.failure}"]
        return [name, self.settings, milliseconds(self.spread)]

    def json(self) -> dict[str, Any]:
        about = {"schema": SCHEMA, "id": self.contender, "settings": self.settings}
        return {**about, "failed": self.failure} if self.failure else {**about, "median_s": self.median}


def best(measured: list[Measured], contender: str) -> Measured | None:
    """With the settings under which it is fastest."""
    found = [each for each in measured if each.contender == contender and each.seconds and not each.failure]
    return min(found, key=lambda each: each.median, default=None)


def targets(measured: list[Measured], size: int) -> list[Target]:
    ours = best(measured, "adacons")
    found = []
    for contender, (name, what, bar) in BARS.items():
        theirs = best(measured, contender)
        if ours is None or theirs is None:
            continue
        timings = Timings(
            {"ours": torch.tensor(ours.seconds).double(), "theirs": torch.tensor(theirs.seconds).double()}
        )
        measure = f"adacons ({ours.settings}) / {what} ({theirs.settings}), P = {size}"
        found.append(Target(name, measure, timings.ratio_of_medians("ours", "theirs"), bar, has_interval=True))
    return found


def _measure(
    children: Children,
    contenders: list[str],
    settings: list[str],
    repeats: int,
    arguments: list[str],
    device: str,
    limit_s: float,
) -> list[Measured]:
    floats, rounds, bucket_mb = arguments
    keys = [(contender, name) for name in settings for contender in contenders]
    seconds: dict[tuple[str, str], list[float]] = {key: [] for key in keys}
    failures: dict[tuple[str, str], str] = {}
    for repeat in range(repeats):
        for key in keys:
            call = [key[0], floats, rounds, bucket_mb, device]
            printed, failure = children.run("flockstep.bench.exchange_row", call, limit_s, SETTINGS[key[1]])
            if failure:
                failures.setdefault(key, failure)
            elif children.rank == 0:
                new = json.loads(printed.splitlines()[-1])
                seconds[key] += new
                told = milliseconds(Spread.of(torch.tensor(new)))
                print(f"{key[0]}, {key[1]}, {repeat + 1} of {repeats}: {told} ms", file=sys.stderr, flush=True)
    return [Measured(*key, seconds[key], failures.get(key, "")) for key in keys]


def run(
    floats: int,
    rounds: int,
    as_json: bool,
    *,
    contenders: list[str],
    settings: list[str],
    repeats: int = 2,
    bucket_mb: float = 25,
    limit_s: float = 180,
    device: str = "cuda",
) -> int:
    """The exit code: not 0 where a contender failed. Rank 0 has it: others would end it while it prints."""
    children = Children()
    measured = _measure(
        children, contenders, settings, repeats, [str(floats), str(rounds), str(bucket_mb)], device, limit_s
    )
    found = targets(measured, children.size) if children.rank == 0 else []
    if children.rank == 0 and as_json:
        rows = [each.json() for each in measured]
        print(json.dumps([*rows, *(target.json() for target in found)], indent=2), flush=True)
    elif children.rank == 0:
        backend = "NCCL" if device == "cuda" else "Gloo"
        print(f"{children.size} workers over {backend}, {floats} floats; medians and quartiles of the slowest worker")
        if device == "cuda" and ranks_share_gpus():
            print(SHARED)
        print(table(["operation", "NCCL's settings", "ms"], [each.cells() for each in measured]), end="\n\n")
        print("\n".join([ABOUT, *(target.line() for target in found)]), flush=True)
    return int(children.rank == 0 and any(each.failure for each in measured))
