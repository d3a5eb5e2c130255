"""G6 to G8: a step with Flock, averaging after every step, against the same without communication; and late workers."""

import json
from dataclasses import dataclass

from flockstep._schema import SCHEMA
from flockstep.bench.averager_row import ALONE, LATE, OVERLAPPED, WAITING
from flockstep.bench.harness import Spread, Target, milliseconds, ratio, table
from flockstep.bench.launch import Children

STEP_BAR, LATE_BAR, MEMORY_BAR = 1.05, 1.03, 1.0
NAMES = {
    ALONE: "without communication",
    WAITING: "Flock()",
    OVERLAPPED: "Flock(overlap=True)",
}


@dataclass(frozen=True)
class Figures:
    """What was measured, by name."""

    model: str
    workers: int
    steps: int
    late_ms: int
    of: dict[str, Spread]

    def _about(self, name: str) -> dict[str, tuple[str, str]]:
        """What each figure is: those with and without overlap alike."""
        ours = NAMES[name]
        late = f"{self.late_ms} ms late in every {self.steps}th step"
        return {
            "G6": (
                f"{name}_over_alone",
                f"a step of {self.model} with {ours}, P = {self.workers} / without communication",
            ),
            "G7": (f"{name}_late_over_none", f"the others' step with {ours}, one rank {late} / nobody late"),
            "G8": (f"{name}_peak_models", f"device memory with {ours} beyond that without an averager, in models"),
        }

    def targets(self) -> list[Target]:
        """Those with overlap. On the CPU there is none of device memory."""
        bars = {"G6": STEP_BAR, "G7": LATE_BAR, "G8": MEMORY_BAR}
        return [
            Target(id, measure, self.of[key], bars[id], has_interval=id != "G8")
            for id, (key, measure) in self._about(OVERLAPPED).items()
            if key in self.of
        ]

    def notes(self) -> list[str]:
        """The same without overlap."""
        lines = []
        for key, measure in self._about(WAITING).values():
            if key in self.of:
                lines.append(f"{measure}: {ratio(self.of[key])}")
        for name in (WAITING, OVERLAPPED):
            if f"{name}_held_models" in self.of:
                held = self.of[f"{name}_held_models"].median
                lines.append(f"device memory that {NAMES[name]} holds between steps, in models: {held:.2f}")
        return lines

    def rows(self) -> list[list[str]]:
        rows = []
        for name, words in NAMES.items():
            late = f"{name}{LATE}_s"
            rows.append(
                [words, milliseconds(self.of[f"{name}_s"]), milliseconds(self.of[late]) if late in self.of else "-"]
            )
        return rows

    def json(self) -> list[dict[str, object]]:
        others = [
            {
                "schema": SCHEMA,
                "id": key,
                "measure": key,
                "figure": spread.median,
                "lower": spread.lower,
                "upper": spread.upper,
            }
            for key, spread in self.of.items()
        ]
        return [*(target.json() for target in self.targets()), *others]


def run(model: str, rounds: int, steps: int, late_ms: int, limit_s: float, as_json: bool, device: str) -> int:
    """The exit code. Rank 0 has it: others would end it while it prints."""
    children = Children()
    arguments = [model, str(rounds), str(steps), str(late_ms), device]
    printed, failure = children.run("flockstep.bench.averager_row", arguments, limit_s)
    if children.rank != 0:
        return 0
    if failure:
        print(f"failed: {failure}", flush=True)
        return 1
    spreads = {key: Spread(**spread) for key, spread in json.loads(printed.splitlines()[-1]).items()}
    figures = Figures(model, children.size, steps, late_ms, spreads)
    if as_json:
        print(json.dumps(figures.json(), indent=2), flush=True)
        return 0
    print(
        f"{model}, {children.size} workers on {device}; ms of a step, medians and quartiles of {rounds} blocks of {steps} steps,"
    )
    print("of the slowest rank but the last, which is the late one and trains a model of its own while it is late")
    print(table(["training", "nobody late", "one late"], figures.rows()))
    print("\n".join([*figures.notes(), *(target.line() for target in figures.targets())]), flush=True)
    return 0
