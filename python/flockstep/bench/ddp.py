"""A4, A4s, A4g, G3 to G5: a whole step of DDP training under a rule against plain DDP; and the hooks of PyTorch itself."""

import json
from dataclasses import dataclass
from typing import Any

from flockstep._schema import SCHEMA
from flockstep.bench.contenders import RULES
from flockstep.bench.harness import ABOUT_RATIOS, Spread, Target, milliseconds, ratio, table
from flockstep.bench.launch import Children

# By transfer and device, and the rules that they hold for: the others are there to compare with.
BARS = {
    ("exact", "cpu"): {"adacons": ("A4", 1.00)},
    ("sketch", "cpu"): {"adacons": ("A4s", 1.01), "direction_consensus": ("A4s", 1.01)},
    ("exact", "cuda"): {"adacons": ("G3", 1.10)},
    ("sketch", "cuda"): {"adacons": ("G3", 1.02), "direction_consensus": ("A4g", 1.02)},
}
HOST_BAR_MS, MEMORY_BAR = 1.0, 1.0
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
        """Of the whole step. One round's ratio tells little on a GPU and with sketches: there it is that of the medians."""
        found = BARS[self.transfer, self.device].get(self.contender)
        if self.failure or found is None:
            return None
        name, bar = found
        if name == "A4":
            return Target(name, self._measure, self.figures["over_plain"], bar)
        return Target(name, self._measure, self.figures["medians_over_plain"], bar, has_interval=True)

    @property
    def costs(self) -> list[Target]:
        """What a rule takes beside time on a GPU: the host's time in backward(), and memory where it is exact."""
        if self.target is None or self.device != "cuda":
            return []
        host = self.figures["host_longer_s"]
        longer = Spread(1e3 * host.median, 1e3 * host.lower, 1e3 * host.upper)
        about = f"{self.contender}, {self.transfer}"
        held = f"ms that backward() of {self.model} keeps the host longer than plain DDP's, {about}"
        costs = [Target("G4", held, longer, HOST_BAR_MS)]
        if self.transfer == "exact":
            memory = f"device memory of {self.model} beyond plain DDP's / the gradient, {about}"
            costs.append(Target("G5", memory, self.figures["memory_over_gradient"], MEMORY_BAR))
        return costs

    @property
    def notes(self) -> list[str]:
        """What is reported beside the targets."""
        if self.failure or self.device != "cuda":
            return []
        f = {key: spread.median for key, spread in self.figures.items()}
        return [
            f"{self.contender}: backward() keeps the host {1e3 * f['host_s']:.2f} ms, with plain DDP "
            f"{1e3 * f['plain_host_s']:.2f} ms",
            f"{self.contender}: memory beyond plain DDP's / the gradient of {f['gradient_bytes'] / 1e6:.0f} MB: "
            f"{f['memory_over_gradient']:.2f}, at its peak {f['peak_over_gradient']:.2f}; outside of torch's allocator "
            f"(NCCL's buffers, code) {f['outside_torch_bytes'] / 1e6:.0f} MB a rank",
        ]

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


def _print_targets(rows: list[Row], as_json: bool) -> None:
    if as_json:
        costs = [target.json() for row in rows for target in row.costs]
        print(json.dumps([*(row.json() for row in rows), *costs], indent=2), flush=True)
        return
    is_of_medians = any(row.target and row.target.has_interval for row in rows)
    lines = [] if is_of_medians else [ABOUT_RATIOS]
    for row in rows:
        lines += [target.line() for target in [row.target, *row.costs] if target]
    print("\n".join(lines), flush=True)


def run(
    models: list[str],
    contenders: list[str],
    rounds: int,
    limit_s: float,
    as_json: bool,
    transfer: str = "exact",
    device: str = "cpu",
) -> int:
    """The exit code: a contender of PyTorch's may fail, ours may not. Rank 0 has it: others would end it while it prints."""
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
            print(table(HEAD, [row.cells() for row in of_model]))
            print("".join(f"{note}\n" for row in of_model for note in row.notes), flush=True)
    if children.rank == 0:
        _print_targets(rows, as_json)
    return int(children.rank == 0 and any(row.failure and row.contender in RULES for row in rows))
