"""Fair timing: contenders run in turns, so that whatever else the machine does hits all alike.

As lab/bench/harness.h does for the command, and figures are printed alike.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from flockstep._schema import SCHEMA

_RESAMPLED = 2000
ABOUT_RATIOS = "A ratio is the median of the ratios within a round, not the ratio of the medians above."


@dataclass(frozen=True)
class Spread:
    """The middle of some measurements, and the quartiles as their spread."""

    median: float
    lower: float
    upper: float

    @staticmethod
    def of(values: torch.Tensor) -> "Spread":
        lower, median, upper = torch.quantile(values.double(), torch.tensor([0.25, 0.5, 0.75]).double()).tolist()
        return Spread(median, lower, upper)


def milliseconds(spread: Spread) -> str:
    return f"{1e3 * spread.median:.2f} ({1e3 * spread.lower:.2f} to {1e3 * spread.upper:.2f})"


def ratio(spread: Spread) -> str:
    return f"{spread.median:.3f} ({spread.lower:.3f} to {spread.upper:.3f})"


@dataclass(frozen=True)
class Target:
    """A measured figure, the median of a spread, and the bar that it may reach at most, or has to reach at least.

    Where the spread is an interval that holds the figure with 95%, the line tells it.
    """

    id: str
    measure: str
    spread: Spread
    bar: float
    has_interval: bool = False
    at_most: bool = True

    @property
    def holds(self) -> bool:
        return self.spread.median <= self.bar if self.at_most else self.spread.median >= self.bar

    def line(self) -> str:
        verdict = "holds" if self.holds else "does not hold"
        interval = f" (95%: {self.spread.lower:.3f} to {self.spread.upper:.3f})" if self.has_interval else ""
        side = "at most" if self.at_most else "at least"
        return f"{self.id} {self.measure}: {self.spread.median:.3f}{interval}, {side} {self.bar:.2f}: {verdict}"

    def json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "id": self.id,
            "measure": self.measure,
            "figure": self.spread.median,
            "lower": self.spread.lower,
            "upper": self.spread.upper,
            "bar": self.bar,
            "at_most": self.at_most,
            "holds": self.holds,
        }


def print_targets(targets: list[Target], as_json: bool) -> None:
    if as_json:
        print(json.dumps([target.json() for target in targets], indent=2))
    else:
        print(ABOUT_RATIOS)
        print("\n".join(target.line() for target in targets))


class Timings:
    """seconds[name][r] is what the slowest worker took in round r."""

    def __init__(self, seconds: dict[str, torch.Tensor]) -> None:
        self._seconds = seconds

    def seconds(self, name: str) -> Spread:
        return Spread.of(self._seconds[name])

    def all_seconds(self, name: str) -> list[float]:
        """One by one, for a summary over several processes."""
        seconds: list[float] = self._seconds[name].tolist()
        return seconds

    def ratio(self, numerator: str, denominator: str) -> Spread:
        """Taken within each round and only then summarised: a round that was slow as a whole leaves it alone."""
        return Spread.of(self._seconds[numerator] / self._seconds[denominator])

    def ratio_of_medians(self, numerator: str, denominator: str) -> Spread:
        """With the interval that holds it with 95%, from rounds drawn again and again."""
        one, other = self._seconds[numerator], self._seconds[denominator]
        drawn = torch.randint(len(one), (_RESAMPLED, len(one)), generator=torch.Generator().manual_seed(1))
        ratios = one[drawn].quantile(0.5, dim=1) / other[drawn].quantile(0.5, dim=1)
        lower, upper = torch.quantile(ratios, torch.tensor([0.025, 0.975]).double()).tolist()
        return Spread(float(one.quantile(0.5) / other.quantile(0.5)), lower, upper)

    def difference(self, one: str, other: str) -> Spread:
        return Spread.of(self._seconds[one] - self._seconds[other])


def run_interleaved(contenders: Mapping[str, Callable[[], object]], rounds: int, warm_up_rounds: int = 2) -> Timings:
    """Runs every contender once per round, each round starting with the next one, and all workers together.

    One that returns a float has taken its own time, in seconds.
    """
    names = list(contenders)
    times = torch.zeros(warm_up_rounds + rounds, len(names), dtype=torch.float64)
    for number in range(len(times)):
        for turn in range(len(names)):
            which = (number + turn) % len(names)
            dist.all_reduce(torch.zeros(1))  # all begin together; where there is NCCL too, over Gloo
            began = time.perf_counter()
            own = contenders[names[which]]()
            times[number, which] = own if isinstance(own, float) else time.perf_counter() - began
    dist.all_reduce(times, dist.ReduceOp.MAX)
    return Timings({name: times[warm_up_rounds:, which] for which, name in enumerate(names)})


def table(head: list[str], rows: list[list[str]]) -> str:
    """The first column to the left, the others to the right; a row may have fewer columns, and its last one runs on."""
    full = [row for row in [head, *rows] if len(row) == len(head)]
    widths = [max(len(row[column]) for row in full) for column in range(len(head))]
    widths[0] = max(len(row[0]) for row in [head, *rows])
    lines = []
    for row in [head, *rows]:
        right = (
            row[1:]
            if len(row) < len(head)
            else [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        )
        lines.append("  ".join([row[0].ljust(widths[0]), *right]).rstrip())
    lines.insert(1, "-" * (sum(widths) + 2 * (len(head) - 1)))
    return "\n".join(lines)
