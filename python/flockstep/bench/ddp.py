"""A4, A4s, A4g: a whole step of DDP training under a rule against plain DDP; and the hooks that PyTorch has itself."""

import json
from dataclasses import dataclass
from typing import Any

from flockstep._schema import SCHEMA
from flockstep.bench.contenders import RULES
from flockstep.bench.harness import ABOUT_RATIOS, Spread, Target, milliseconds, ratio, table
from flockstep.bench.launch import Children

BARS = {"exact": ("A4", 1.00), "gloo": ("A4s", 1.01), "nccl": ("A4g", 1.02)}
OF_SKETCHES = ("adacons", "direction_consensus")
HEAD = ["hook", "step, ms", "exposed", "plain DDP, ms", "exposed", "step / plain DDP"]


@dataclass(frozen=True)
class Row:
    """What a contender took, side by side with plain DDP; or why there is nothing to tell."""

    model: str
    contender: str
    figures: dict[str, Spread]
    failure: str
    transfer: str = "exact"
    device: str = "cpu"

    @property
    def target(self) -> Target | None:
        """Of AdaCons alone, and with sketches of direction_consensus: the others are there to compare with."""
        if self.failure:
            return None
        if self.transfer == "exact":
            return Target(*self._named("exact")) if self.contender == "adacons" else None
        backend = "nccl" if self.device == "cuda" else "gloo"
        return Target(*self._named(backend), has_interval=True) if self.contender in OF_SKETCHES else None

    def _named(self, bar: str) -> tuple[str, str, Spread, float]:
        name, most = BARS[bar]
        return name, self._measure, self.figures["over_plain" if bar == "exact" else "medians_over_plain"], most

    @property
    def _measure(self) -> str:
        return f"a step of {self.model}, {self.contender} / plain DDP"

    def cells(self) -> list[str]:
        if self.failure:
            return [self.contender, f"failed: {self.failure}"]
        others = [f"{1e3 * self.figures[key].median:.2f}" for key in ("exposed_s", "plain_step_s", "plain_exposed_s")]
        return [self.contender, milliseconds(self.figures["step_s"]), *others, ratio(self.figures["over_plain"])]

    def json(self) -> dict[str, Any]:
        if self.failure:
            return {"schema": SCHEMA, "id": self.contender, "measure": self._measure, "failed": self.failure}
        spread = self.figures["over_plain"]
        plain = {"schema": SCHEMA, "figure": spread.median, "lower": spread.lower, "upper": spread.upper}
        about = self.target.json() if self.target else {"id": self.contender, "measure": self._measure, **plain}
        return {**about, **{key: spread.median for key, spread in self.figures.items() if "over_plain" not in key}}


def _measured(
    children: Children, model: str, contender: str, rounds: int, limit_s: float, transfer: str, device: str
) -> Row:
    arguments = [model, contender, str(rounds), transfer, device]
    printed, failure = children.run("flockstep.bench.ddp_row", arguments, limit_s)
    figures = {} if failure or children.rank != 0 else json.loads(printed.splitlines()[-1])
    spreads = {key: Spread(**spread) for key, spread in figures.items()}
    return Row(model, contender, spreads, failure, transfer, device)


def run(
    models: list[str],
    contenders: list[str],
    rounds: int,
    limit_s: float,
    as_json: bool,
    transfer: str = "exact",
    device: str = "cpu",
) -> int:
    """The exit code: a contender of PyTorch's may fail, ours may not."""
    children = Children()
    rows: list[Row] = []
    for model in models:
        of_model = [
            _measured(children, model, contender, rounds, limit_s, transfer, device) for contender in contenders
        ]
        rows += of_model
        if children.rank == 0 and not as_json:
            over = "NCCL" if device == "cuda" else "Gloo"
            print(
                f"{model}, {children.size} workers over {over}, {transfer}; medians and quartiles of the slowest worker"
            )
            print(table(HEAD, [row.cells() for row in of_model]), end="\n\n", flush=True)
    if children.rank == 0:
        targets = ABOUT_RATIOS + "\n" + "".join(f"{row.target.line()}\n" for row in rows if row.target)
        print(json.dumps([row.json() for row in rows], indent=2) + "\n" if as_json else targets, end="", flush=True)
    return int(any(row.failure and row.contender in RULES for row in rows))
