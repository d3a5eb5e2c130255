"""The comparisons of docs/studies.md: a task at --size small under late workers, skewed shards and wrong workers."""

import json
import math
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from study_tools import COMMAND, Rows, compare, figure, fresh, rows_of, save, table

RULES = ("mean", "adacons", "direction_consensus")
AVERAGERS = ("local_sgd", "dpsgd", "sgp", "adpsgd", "wagma", "flock")
ALL = ("all",)
FACTORS = (0.5, 1, 2)  # of the task's own learning rate
# Whose results have a length of their own; with that of the mean, one list of rates suits all.
ON_DIRECTIONS = ("normalized_mean", "adacons", "adasum", "direction_consensus", "geometric_median")


@dataclass(frozen=True)
class Scenario:
    title: str
    algorithms: tuple[str, ...]
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Study:
    """The first scenario is the one whose speed is told and drawn."""

    task: str
    workers: int
    scenarios: dict[str, Scenario]
    seeds: int = 3
    steps: int = 0  # those of the size
    # In virtual time, real gradients take as long as they pretend to, however busy the machine is.
    pace: tuple[str, ...] = ("--engine", "sim", "--compute-ms", "100")
    search_seeds: int = 1
    points: float = 100  # that a difference of one in the metric makes

    def with_algorithms(self, algorithms: tuple[str, ...]) -> "Study":
        scenarios = {name: replace(scenario, algorithms=algorithms) for name, scenario in self.scenarios.items()}
        return replace(self, scenarios=scenarios)

    @property
    def timed(self) -> str:
        return next(iter(self.scenarios))


def scenarios_of(workers: int, late: str, skewed: str, noisy: str, milliseconds: int = 0) -> dict[str, Scenario]:
    """A quarter of the workers is late, where any is, or wrong."""
    some = workers // 4
    stragglers = ("--straggler", f"{some}x{milliseconds}ms") if milliseconds else ()
    return {
        "late": Scenario(late, ALL, stragglers),
        "skewed": Scenario(skewed, RULES, ("--shard", "skewed")),
        "noisy": Scenario(f"{some} with {noisy}", RULES, ("--noisy-workers", str(some))),
        "minus-five": Scenario("1 worker sends -5 g", RULES, ("--faulty", "3:scale:-5")),
    }


# Late workers are late by about three times what a step takes, as in the paper on WAGMA.
VISION = {
    "late": Scenario("all alike, 2 late", (*RULES, *AVERAGERS), ("--straggler", "2x64ms")),
    "skewed": Scenario(
        "each worker its own classes",
        (*RULES, "local_sgd", "wagma", "flock"),
        ("--shard", "skewed", "--vision.norm", "group"),
    ),
    "noisy": Scenario(
        "2 workers with random labels", (*RULES, "local_sgd", "wagma", "flock"), ("--noisy-workers", "2")
    ),
    "minus-five": Scenario("1 worker sends -5 g", RULES, ("--faulty", "3:scale:-5")),
}
STUDIES = {
    "vision": Study("vision", 8, VISION, seeds=2, search_seeds=2, pace=()),
    "detection": Study(
        "detection",
        4,
        scenarios_of(4, "all alike, 1 late", "each worker its own kinds", "random boxes", 320),
        steps=250,
    ),
    "recommendation": Study(
        "recommendation",
        4,
        scenarios_of(4, "all alike, 1 late", "each worker its own users", "random clicks", 320),
    ),
    "translation": Study(
        "translation",
        4,
        scenarios_of(4, "all alike, uneven steps", "each worker its own numbers", "others' sentences"),
        steps=300,
        points=1,
    ),
    "navigation": Study(
        "navigation",
        4,
        scenarios_of(4, "all alike, uneven steps", "each worker its own mazes", "random rewards"),
    ),
}


def small(task: str) -> dict[str, Any]:
    """What --size small means for the task."""
    listed = json.loads(subprocess.run([COMMAND, "tasks", "--json"], check=True, capture_output=True).stdout)
    sizes = next((each["sizes"] for each in listed if each["name"] == task), [])
    return next(size for size in sizes if size["name"] == "small")


def arguments_of(study: Study, name: str, size: dict[str, Any], data: str, jobs: int) -> list[str]:
    scenario = study.scenarios[name]
    steps = study.steps or size["steps"]
    every = steps // (5 if name == study.timed else 2)
    rates = ",".join(f"{factor * float(size['settings']['learning_rate']):.6g}" for factor in FACTORS)
    task = ["--task", study.task, "--size", size["name"], "--workers", str(study.workers), *study.pace]
    seeds = ["--seeds", str(study.seeds), "--search-seeds", str(study.search_seeds)]
    search = ["--lr", rates, *seeds, "--algorithms", ",".join(scenario.algorithms)]
    magnitude = [word for rule in ON_DIRECTIONS for word in (f"--{rule}.magnitude", "mean_norm")]
    given = ["--data", data] if data else []
    return [
        *(*task, *search, *magnitude, *given, *scenario.flags),
        *("--steps", str(steps), "--evaluate-every", str(every), "--jobs", str(jobs)),
    ]


def metric_of(folder: Path) -> str:
    return str(json.loads((folder / "compare.json").read_text())["metric"])


def quality_at(rows: Rows, algorithm: str, time_s: float) -> float:
    """What the best runs had reached by then, on their mean curve."""
    curve = rows[algorithm]["curve"]
    quality = [math.nan if value is None else value for value in curve["quality"]["mean"]]
    return float(np.interp(time_s, curve["time_s"], quality))


def readable(value: float, beside: float = 0) -> str:
    """As many digits as seeds agree on: three behind the point for shares, one for what goes to 100."""
    return f"{value:.{1 if max(abs(value), abs(beside)) > 2 else 3}f}"


def cell(rows: Rows, algorithm: str) -> str:
    if algorithm not in rows:
        return ""
    row = rows[algorithm]
    if row["diverged"]:
        return f"{row['diverged']} of {row['runs']} diverged"
    return f"{readable(figure(row, 'quality'))} ± {readable(row['quality']['deviation'], figure(row, 'quality'))}"


def quality_table(study: Study, results: dict[str, Rows]) -> None:
    """Who gets how far: a row for each algorithm, a column for each scenario."""
    everybody = dict.fromkeys(name for rows in results.values() for name in rows)
    head = ["algorithm", *(study.scenarios[name].title for name in results)]
    table(head, [[f"`{name}`", *(cell(rows, name) for rows in results.values())] for name in everybody])


def speed_table(metric: str, rows: Rows) -> None:
    head = ["algorithm", "throughput / `mean`", "waiting", "fresh", metric, "`mean` at that time", "rate"]
    lines = []
    for name, row in rows.items():
        lines.append(
            [
                f"`{name}`",
                f"{figure(row, 'samples_per_s') / figure(rows['mean'], 'samples_per_s'):.2f}",
                f"{figure(row, 'wait_share'):.2f}",
                fresh(row),
                cell(rows, name),
                readable(quality_at(rows, "mean", figure(row, "time_s"))),
                row["searched"]["value"] + (" (edge)" if row["searched"]["edge"] else ""),
            ]
        )
    table(head, lines)


def differences(study: Study, results: dict[str, Rows]) -> list[str]:
    """The questions of the studies in points: who keeps up in equal time, and who bears wrong workers."""

    def points(difference: float) -> str:
        return f"{study.points * difference:+.1f}"

    lines = []
    rows = results.get(study.timed, {})
    for name in ("wagma", "flock"):
        if name in rows and "mean" in rows:
            mine, theirs = figure(rows[name], "quality"), figure(rows["mean"], "quality")
            then = quality_at(rows, "mean", figure(rows[name], "time_s"))
            lines.append(
                f"{name} against mean: {points(mine - then)} points at equal time, {points(mine - theirs)} at equal steps."
            )
    if "wagma" in rows and "flock" in rows:
        ratio = figure(rows["flock"], "samples_per_s") / figure(rows["wagma"], "samples_per_s")
        better = figure(rows["flock"], "quality") - figure(rows["wagma"], "quality")
        lines.append(f"flock against wagma at equal steps: {points(better)} points, {ratio:.2f} times as fast.")
    for name, found in results.items():
        for rule in RULES[1:]:
            if rule in found and "mean" in found:
                better = figure(found[rule], "quality") - figure(found["mean"], "quality")
                lines.append(f"{rule} against mean, {study.scenarios[name].title}: {points(better)} points.")
    return lines


def picture(study: Study, metric: str, rows: Rows) -> None:
    from flockstep.report import style  # what it draws with is not everywhere

    drawing = style.new_figure(height=4.2 if len(rows) < 10 else 5.4, width=7.2)
    axes = drawing.subplots()
    for index, (name, row) in enumerate(rows.items()):
        curve = row["curve"]
        quality = [math.nan if value is None else value for value in curve["quality"]["mean"]]
        shown = slice(1, None)  # the first is the untrained network
        axes.plot(curve["time_s"][shown], quality[shown], **style.look(index), label=name)
    axes.set_xlabel(f"seconds in steps ({study.scenarios[study.timed].title})")
    axes.set_ylabel(metric)
    style.legend(drawing, axes)
    save(drawing, study.task)


def study_task(study: Study, out: Path, chosen: list[str], data: str, jobs: int, only_draw: bool) -> None:
    """Makes the chosen scenarios, or all, and tells what all that are in `out` have come to."""
    folders = {name: out / study.task / name for name in study.scenarios}
    for name in [] if only_draw else chosen or study.scenarios:
        compare(folders[name], *arguments_of(study, name, small(study.task), data, jobs))
    there = {name: folder for name, folder in folders.items() if (folder / "compare.json").exists()}
    if not there:
        sys.exit(f"{out / study.task} holds no comparison: leave --only-draw out, or name the folder with --out")
    results = {name: rows_of(folder) for name, folder in there.items()}
    quality_table(study, results)
    if study.timed in results:
        metric = metric_of(there[study.timed])
        speed_table(metric, results[study.timed])
    print("\n".join(differences(study, results)))
    if study.timed in results:
        try:
            picture(study, metric, results[study.timed])
        except ModuleNotFoundError as error:
            print(f"No picture: {error.name} is not installed here. --only-draw draws it elsewhere.", file=sys.stderr)
