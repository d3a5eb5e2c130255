"""What waiting costs and what not waiting costs: the study of docs/wagma.md, in virtual time with real gradients."""

import json
import subprocess
from pathlib import Path
from typing import Any

from flockstep.report import style
from study_tools import COMMAND, Rows, compare, fresh, rows_of, save, table

COMPUTE_MS, SIGMA = 100, 0.53
# Workers and steps. Groups have their default size, 4 and 8.
SIZES = {16: 320, 64: 200}
SETTINGS = {
    "mean": ("lockstep", "-", "all", "1"),
    "wagma:period=8": ("barrier", "published", "first", "8"),
    "wagma:period=8:activation=majority": ("barrier", "published", "majority", "8"),
    "wagma:period=8:merge=additive": ("barrier", "additive", "first", "8"),
    "wagma:period=8:sync=rolling": ("rolling", "published", "first", "8"),
    "wagma:period=8:sync=rolling:activation=majority": ("rolling", "published", "majority", "8"),
    "flock:period=8:activation=first": ("rolling", "additive", "first", "8"),
    "flock:period=8": ("rolling", "additive", "majority", "8"),
    "flock:period=8:activation=deadline": ("rolling", "additive", "deadline", "8"),
    "flock:period=8:activation=quorum": ("rolling", "additive", "quorum (all but one)", "8"),
    "flock:period=16:activation=first": ("rolling", "additive", "first", "16"),
    "flock:period=16": ("rolling", "additive", "majority", "16"),
}
ROLLING = (("published", "rolling"), ("additive", "rolling"))
FAMILY = ("mean", "wagma", "flock", "local_sgd", "dpsgd", "sgp", "adpsgd", "swarm", "eager_solo", "eager_majority")
PACE = ["--engine", "sim", "--compute-ms", str(COMPUTE_MS), "--jitter", f"lognormal:{SIGMA}"]
NO_NETWORK = ["--bandwidth-gbps", "100000", "--latency-us", "0.1"]


def rows_with(folder: Path, steps: int) -> Rows:
    return {name: {**row, "steps": steps} for name, row in rows_of(folder).items()}


def share_of_ideal(row: dict[str, Any]) -> float:
    return row["steps"] * COMPUTE_MS / 1000 / row["time_s"]["mean"]


def quality(row: dict[str, Any], digits: int) -> str:
    return f"{row['quality']['mean']:.{digits}g} ± {row['quality']['deviation']:.1g}"


def settings_table(results: dict[int, Rows]) -> None:
    head = ["sync", "merge", "activation", "tau"]
    for workers in SIZES:
        head += [f"accuracy, P = {workers}", "of ideal", "fresh"]
    lines = []
    for variant, names in SETTINGS.items():
        cells = list(names)
        for rows in results.values():
            row = rows[variant]
            cells += [quality(row, 3), f"{share_of_ideal(row):.2f}", fresh(row)]
        lines.append(cells)
    table(head, lines)


def settings_picture(results: dict[int, Rows]) -> None:
    figure = style.new_figure(height=4.4, width=9.2)
    panels = figure.subplots(1, len(results), sharey=True)
    marks = {"lockstep": "s", "barrier": "o", "rolling": "^"}
    colours = {"-": 6, "published": 1, "additive": 0}
    for (workers, rows), axes in zip(results.items(), panels, strict=True):
        for variant, (sync, merge, activation, tau) in SETTINGS.items():
            if (activation, tau) == ("majority", "16"):
                continue  # lies on that of tau = 8
            row = rows[variant]
            place = share_of_ideal(row), row["quality"]["mean"]
            low, high = row["quality"]["min"], row["quality"]["max"]
            look = {"color": style.colour(colours[merge]), "marker": marks[sync]}
            bars = [[place[1] - low], [high - place[1]]]
            axes.errorbar(
                *place, yerr=bars, ms=7, lw=1, mew=1.2, mfc="white" if activation == "first" else None, **look
            )
            text = "mean" if sync == "lockstep" else f"{activation.split()[0]}, {tau}"
            side = {"xytext": (-7, -3), "ha": "right"} if merge == "published" else {"xytext": (7, 4)}
            axes.annotate(text, place, textcoords="offset points", fontsize=7.5, color=style.GREY, **side)
        axes.set_title(f"{workers} workers")
        axes.set_xlabel("share of the ideal throughput")
        axes.set_xlim(0.25, 1.08)
    panels[0].set_ylabel("test accuracy after the same steps")
    for merge, sync in (("-", "lockstep"), ("published", "barrier"), ("additive", "barrier"), *ROLLING):
        name = "mean, in lockstep" if sync == "lockstep" else f"{sync}, {merge}"
        panels[0].plot([], [], marks[sync], color=style.colour(colours[merge]), label=name)
    style.legend(figure, panels[0])
    save(figure, "waiting")


def spans_of(folder: Path) -> list[dict[str, Any]]:
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    steps = [event for event in events if event["ph"] == "X"]
    last = max(event["ts"] + event["dur"] for event in steps if event["name"] == "update")
    return [event for event in steps if event["ts"] < last]


def timeline(out: Path, given: list[str]) -> None:
    """What each worker does when, from the traces of three short runs."""
    workers, steps, tau = 8, 14, 7
    figure = style.new_figure(height=6.2, width=9.2)
    panels = figure.subplots(3, 1, sharex=True)
    for name, axes in zip(("mean", "wagma", "flock"), panels, strict=True):
        folder = out / f"trace-{name}"
        size = ["--workers", str(workers), "--steps", str(steps), "--evaluate-every", str(steps), "--seed", "3"]
        options = [] if name == "mean" else [f"--{name}.period", str(tau)]
        if not (folder / "trace.json").exists():
            call = ["train", "--task", "images", *given, *PACE, *size, "--algorithm", name, *options, "--out", folder]
            subprocess.run([COMMAND, *call], check=True, stdout=subprocess.DEVNULL)
        for event in spans_of(folder):
            begin, length, worker = event["ts"] / 1e6, event["dur"] / 1e6, event["pid"]
            if event["name"] == "gradient":
                axes.barh(worker, length, left=begin, height=0.62, color=style.colour(5), edgecolor="white", lw=0.6)
            elif event["name"] == "synchronisation":
                axes.plot(begin + length, worker, "|", color=style.colour(1), ms=11, mew=2)
            elif event["name"] == "round, passive":
                axes.plot(begin, worker, "o", color="white", mec=style.colour(1), ms=4)
            elif event["name"] in ("round, fresh", "round, activated here"):
                mark = "*" if event["name"] == "round, activated here" else "o"
                axes.plot(begin, worker, mark, color=style.colour(0), ms=9 if mark == "*" else 4.5)
        axes.set_title({"mean": "mean: everybody waits in every step"}.get(name, f"{name}, tau = {tau}"))
        axes.set_ylabel("worker")
        axes.set_yticks(range(workers))
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
    for mark, hue, fill, text in (
        ("s", 5, True, "computes (white: waits)"),
        ("*", 0, True, "starts the round"),
        ("o", 0, True, "its model is in"),
        ("o", 1, False, "an older model of it is in"),
        ("|", 1, True, "synchronisation"),
    ):
        look = {"color": style.colour(hue) if fill else "white", "mec": style.colour(hue), "ls": "none"}
        panels[1].plot([], [], marker=mark, label=text, **look)
    panels[-1].set_xlabel("seconds")
    style.legend(figure, panels[1])
    save(figure, "timeline")


def waiting(out: Path, data: str) -> None:
    folder = out / "waiting"
    given = ["--data", data] if data else []
    seeds = ["--seeds", "3"]
    results = {}
    for workers, steps in SIZES.items():
        size = ["--workers", str(workers), "--steps", str(steps), "--evaluate-every", str(steps)]
        common = ["--task", "images", *given, *PACE, *NO_NETWORK, *size, *seeds]
        done = compare(folder / f"images-{workers}", *common, "--algorithms", ",".join(SETTINGS))
        results[workers] = rows_with(done, steps)
    settings_table(results)
    settings_picture(results)
    timeline(folder, given)

    lines = []
    for task, extra, digits in (("images", given, 3), ("linear", [], 2)):
        common = ["--task", task, *extra, *PACE, "--workers", "16", "--steps", "320", "--evaluate-every", "320", *seeds]
        rows = rows_with(compare(folder / f"family-{task}", *common, "--algorithms", ",".join(FAMILY)), 320)
        for name, row in rows.items():
            lines.append([task, f"`{name}`", quality(row, digits), f"{share_of_ideal(row):.2f}", fresh(row)])
    table(["task", "algorithm", "accuracy, loss", "of ideal", "fresh"], lines)
