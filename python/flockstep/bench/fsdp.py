"""A10: a whole step of FSDP2 training under a rule against FSDP2 alone."""

import json
from dataclasses import dataclass

from flockstep._schema import SCHEMA
from flockstep.bench.fsdp_row import PLAIN
from flockstep.bench.harness import Spread, Target, milliseconds, ratio, table
from flockstep.bench.launch import Children

BAR = 1.02
BARRED = ("adacons", "direction_consensus")  # `mean` is there to compare with


@dataclass(frozen=True)
class Figures:
    """What was measured, by name."""

    model: str
    workers: int
    rules: list[str]
    of: dict[str, Spread]

    def _measure(self, rule: str) -> str:
        return f"a step of {self.model}, {rule} / FSDP2 alone, P = {self.workers}"

    def targets(self) -> list[Target]:
        return [
            Target("A10", self._measure(rule), self.of[f"{rule}_medians_over_plain"], BAR, has_interval=True)
            for rule in self.rules
            if rule in BARRED
        ]

    def rows(self) -> list[list[str]]:
        rows = [["FSDP2 alone", milliseconds(self.of[f"{PLAIN}_s"]), "-"]]
        for rule in self.rules:
            rows.append([rule, milliseconds(self.of[f"{rule}_s"]), ratio(self.of[f"{rule}_over_plain"])])
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


def run(model: str, rules: list[str], rounds: int, limit_s: float, as_json: bool, device: str) -> int:
    """The exit code. Rank 0 has it: others would end it while it prints."""
    children = Children()
    arguments = [model, ",".join(rules), str(rounds), device]
    printed, failure = children.run("flockstep.bench.fsdp_row", arguments, limit_s)
    if children.rank != 0:
        return 0
    if failure:
        print(f"failed: {failure}", flush=True)
        return 1
    spreads = {key: Spread(**spread) for key, spread in json.loads(printed.splitlines()[-1]).items()}
    figures = Figures(model, children.size, rules, spreads)
    if as_json:
        print(json.dumps(figures.json(), indent=2), flush=True)
        return 0
    over = "NCCL" if device == "cuda" else "Gloo"
    print(f"{model}, {children.size} workers over {over}; medians and quartiles of the slowest worker")
    print(table(["training", "step, ms", "step / FSDP2 alone"], figures.rows()))
    print("\n".join(target.line() for target in figures.targets()), flush=True)
    return 0
