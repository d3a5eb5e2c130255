"""The vision comparison of docs/studies.md: a residual network under late workers, skewed shards and wrong workers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from flockstep.report import style
from study_tools import compare, save, table

RULES = ("mean", "adacons", "direction_consensus")
AVERAGERS = ("local_sgd", "dpsgd", "sgp", "adpsgd", "wagma", "flock")
WITHOUT_LATE = (*RULES, "local_sgd", "wagma", "flock")
RATES = "0.1,0.2,0.4"
# Two of eight workers are late in each step by about three times what a step takes.
LATE = ["--straggler", "2x64ms", "--evaluate-every", "50"]
ON_TIME = ["--evaluate-every", "100"]
SCENARIOS: dict[str, tuple[str, tuple[str, ...], list[str]]] = {
    "iid": ("all alike, 2 late", (*RULES, *AVERAGERS), LATE),
    "skewed": ("each worker its own classes", WITHOUT_LATE, [*ON_TIME, "--shard", "skewed", "--vision.norm", "group"]),
    "noisy": ("2 workers with random labels", WITHOUT_LATE, [*ON_TIME, "--noisy-workers", "2"]),
    "minus-five": ("1 worker sends -5 g", RULES, [*ON_TIME, "--faulty", "3:scale:-5"]),
}

Rows = dict[str, dict[str, Any]]


def arguments_of(scenario: str, data: str, jobs: int) -> list[str]:
    _, algorithms, flags = SCENARIOS[scenario]
    size = ["--task", "vision", "--size", "small", "--workers", "8"]
    search = ["--lr", RATES, "--seeds", "2", "--algorithms", ",".join(algorithms)]
    magnitude = [word for rule in RULES[1:] for word in (f"--{rule}.magnitude", "mean_norm")]
    given = ["--data", data] if data else []
    return [*size, *search, *magnitude, *given, *flags, "--jobs", str(jobs)]


def accuracy_at(row: dict[str, Any], time_s: float) -> float:
    """What the best runs had reached by then, on their mean curve."""
    curve = row["curve"]
    return float(np.interp(time_s, curve["time_s"], curve["quality"]["mean"]))


def cell(rows: Rows, algorithm: str) -> str:
    if algorithm not in rows:
        return "-"
    quality = rows[algorithm]["quality"]
    return f"{quality['mean']:.3f} ± {quality['deviation']:.1g}"


def tables(results: dict[str, Rows]) -> None:
    everybody = (*RULES, *AVERAGERS)
    head = ["algorithm", *(title for title, _, _ in SCENARIOS.values())]
    table(head, [[f"`{name}`", *(cell(rows, name) for rows in results.values())] for name in everybody])

    late = results["iid"]
    lines = []
    for name in everybody:
        row = late[name]
        end = row["time_s"]["mean"]
        fresh = f"{row['fresh_fraction']['mean']:.2f}" if row.get("fresh_fraction") else "-"
        lines.append(
            [
                f"`{name}`",
                f"{row['samples_per_s']['mean'] / late['mean']['samples_per_s']['mean']:.2f}",
                f"{row['wait_share']['mean']:.2f}",
                fresh,
                f"{row['quality']['mean']:.3f}",
                f"{accuracy_at(late['mean'], end):.3f}",
                row["searched"]["value"],
            ]
        )
    table(["algorithm", "throughput / mean", "waiting", "fresh", "accuracy", "`mean` at that time", "rate"], lines)


def picture(late: Rows) -> None:
    figure = style.new_figure(height=4.2, width=7.2)
    axes = figure.subplots()
    for index, (name, row) in enumerate(late.items()):
        shown = slice(1, None)  # the first is the untrained network
        time_s, quality = row["curve"]["time_s"][shown], row["curve"]["quality"]["mean"][shown]
        axes.plot(time_s, quality, **style.look(index), label=name)
    axes.set_xlabel("seconds in steps, two of eight workers late in each")
    axes.set_ylabel("test accuracy")
    style.legend(figure, axes)
    save(figure, "vision")


def vision(out: Path, data: str, jobs: int) -> None:
    results: dict[str, Rows] = {}
    for name in SCENARIOS:
        folder = compare(out / "vision" / name, *arguments_of(name, data, jobs))
        (case,) = json.loads((folder / "compare.json").read_text())["cases"]
        results[name] = {row["algorithm"]: row for row in case["rows"]}
    tables(results)
    picture(results["iid"])
