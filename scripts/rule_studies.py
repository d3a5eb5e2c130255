"""The studies of docs/adacons.md: rules for combining gradients on the regression of the paper and on images."""

import textwrap
from pathlib import Path

import numpy as np
from flockstep.report import style
from flockstep.report.reading import read_comparison, read_run
from linear_reference import final_losses
from study_tools import Rows, compare, rows_of, save, table

WORKERS, BATCHES, SEEDS = (8, 32), (128, 2048), 5
LINEAR = {
    "mean": "mean",
    "normalized_mean": "normalized_mean",
    "adacons:beta=0": "adacons without momentum",
    "adacons": "adacons",
    "adacons:beta=0:permutation=published": "published permutation, no momentum",
    "adacons:permutation=published": "published permutation",
}
RULES = ("mean", "normalized_mean", "adacons", "direction_consensus", "geometric_median", "adasum")
SCENARIOS: dict[str, tuple[str, list[str]]] = {
    "iid": ("all alike", []),
    "random-labels": ("2 workers with random labels", ["--images.noisy_workers", "2"]),
    "minus-five": ("1 worker sends -5 g", ["--faulty", "3:scale:-5"]),
    "noise": ("1 worker sends 10x noise", ["--faulty", "3:noise:10"]),
    "classes": ("each worker its own classes", ["--images.shard", "skewed"]),
}
LEAST_SHOWN = 0.7  # accuracy; what lies below is written at the edge of the picture
RATES = "0.025,0.05,0.1,0.2,0.4,0.8"


def spread(values: list[float]) -> str:
    return f"{np.median(values):.2g} ({min(values):.1g} to {max(values):.1g})"


def linear(out: Path) -> None:
    lists = [",".join(map(str, numbers)) for numbers in (WORKERS, BATCHES)]
    sizes = ["--workers", lists[0], "--batch", lists[1], "--seeds", str(SEEDS)]
    folder = compare(out / "linear", "--task", "linear", *sizes, "--algorithms", ",".join(LINEAR))
    comparison = read_comparison(folder)
    figure = style.new_figure(height=6.4, width=9.2)
    panels = figure.subplots(2, 2, sharex=True, sharey="col")
    rows: dict[str, list[str]] = {label: [name] for label, name in LINEAR.items()}
    head = ["rule"]
    for case, axes in zip(comparison.saved.cases, panels.flat, strict=True):
        head.append(f"P = {case.workers}, B = {case.batch}")
        axes.set_title(f"{case.workers} workers, batch {case.batch}")
        axes.set_yscale("log")
        for index, row in enumerate(case.rows):
            curves = [read_run(folder / run).evaluations for run in row.folders]
            losses = np.array([[evaluation.quality for evaluation in curve] for curve in curves])
            iterations = 2 * np.array([evaluation.step for evaluation in curves[0]])
            dashes = "--" if "published" in row.algorithm else "-"
            axes.plot(
                iterations, np.median(losses, axis=0), dashes, color=style.colour(index), label=LINEAR[row.algorithm]
            )
            axes.fill_between(iterations, losses.min(0), losses.max(0), color=style.colour(index), alpha=0.12, lw=0)
            rows[row.algorithm].append(spread(list(losses[:, -1])))
    for axes in panels[:, 0]:
        axes.set_ylabel("expected loss")
    for axes in panels[1]:
        axes.set_xlabel("iteration (two per update)")
    style.legend(figure, panels[0, 0])
    save(figure, "linear")
    reference = {
        "mean (reference)": {"beta": None},
        "adacons as published (reference)": {"beta": 0.99, "published": True},
    }
    for name, options in reference.items():
        cells = [
            spread(final_losses(case.workers, case.batch, seeds=SEEDS, **options)) for case in comparison.saved.cases
        ]
        rows[name] = [name, *cells]
    table(head, list(rows.values()))


def disagreement(out: Path, data: str) -> None:
    folder = out / "disagreement"
    given = ["--data", data] if data else []
    common = ["--task", "images", "--workers", "8", "--batch", "128", "--steps", "300", "--seeds", "3"]
    chosen = ["--images.hidden", "128", "--search", f"images.learning_rate={RATES}", "--evaluate-every", "50"]
    results: dict[str, Rows] = {}
    for name, (_, flags) in SCENARIOS.items():
        done = compare(folder / name, *common, *chosen, *given, "--algorithms", ",".join(RULES), *flags)
        results[name] = rows_of(done)
    table(
        ["rule", *(title for title, _ in SCENARIOS.values())],
        [[f"`{rule}`", *(f"{results[name][rule]['quality']['mean']:.3f}" for name in SCENARIOS)] for rule in RULES],
    )
    deviations = [row["quality"]["deviation"] for rows in results.values() for row in rows.values()]
    rates = {rule: {results[name][rule]["searched"]["value"] for name in SCENARIOS} for rule in RULES}
    print(f"Standard deviation over seeds: median {np.median(deviations):.4f}, largest {max(deviations):.4f}.")
    print("Rates chosen: " + "; ".join(f"{rule} {', '.join(sorted(rates[rule]))}" for rule in RULES) + ".\n")

    figure = style.new_figure(height=4.2, width=9.2)
    axes = figure.subplots()
    for index, rule in enumerate(RULES):
        places = np.arange(len(SCENARIOS)) + 0.12 * (index - (len(RULES) - 1) / 2)
        quality = [results[name][rule]["quality"] for name in SCENARIOS]
        mean = np.array([each["mean"] for each in quality])
        bars = [mean - [each["min"] for each in quality], [each["max"] for each in quality] - mean]
        axes.errorbar(places, mean, yerr=bars, fmt="o", ms=5, lw=1.2, color=style.colour(index), label=rule)
        for place, value in zip(places, mean, strict=True):
            if value < LEAST_SHOWN:
                axes.annotate(f"{value:.2f}", (place, LEAST_SHOWN + 0.002), ha="center", color=style.colour(index))
    axes.set_ylim(LEAST_SHOWN, 0.88)
    axes.set_xticks(range(len(SCENARIOS)), [textwrap.fill(title, 16) for title, _ in SCENARIOS.values()])
    axes.set_ylabel("test accuracy")
    axes.grid(visible=False, axis="x")
    axes.set_title("Accuracy of each rule at its best learning rate: mean, least and most of three seeds")
    style.legend(figure, axes)
    save(figure, "disagreement")
