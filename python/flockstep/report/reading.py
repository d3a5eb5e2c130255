"""Run folders and comparison folders as values. Whatever is missing or damaged becomes a ReportError that names it."""

import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from flockstep.report import shapes
from flockstep.report.errors import MissingFileError, ReportError
from flockstep.report.files import read_lines, read_object, understood
from flockstep.report.parts import take_means
from flockstep.report.study_reading import Study, read_study
from flockstep.report.values import (
    PER_WORKER,
    Array,
    Case,
    Comparison,
    Cosines,
    Curve,
    Evaluation,
    Finding,
    Row,
    Run,
    Steps,
    drawn_number,
    number,
)


def read(folder: Path) -> Run | Comparison | Study:
    # os.path, since a Path raises at names that are too long or in folders that may not be looked into.
    if not os.path.isdir(folder):
        raise ReportError(f"{folder} is not a folder: name that of a run, a comparison or a study", exit_code=2)
    if os.path.exists(folder / "compare.json"):
        return read_comparison(folder)
    if os.path.exists(folder / "study.json"):
        return read_study(folder)
    if os.path.exists(folder / "metrics.jsonl"):
        return read_run(folder)
    raise ReportError(
        f"{folder} holds neither a comparison (compare.json) nor a study (study.json) nor a run (metrics.jsonl): name what --out named",
        exit_code=2,
    )


def _evaluation(line: dict[str, Any]) -> Evaluation:
    shapes.LINES["evaluation"](line, "")
    time_s, quality = drawn_number(line["time_s"]), drawn_number(line["quality"])
    return Evaluation(
        *(line["step"], time_s, quality, line["metric"], line.get("guards", {})),
        wait_share=drawn_number(line.get("wait_share")),
        fresh_fraction=drawn_number(line.get("fresh_fraction")),
    )


def _array(values: list[Any]) -> Array:
    return np.array([drawn_number(value) for value in values], dtype=np.float64)


def _cosines(line: dict[str, Any]) -> Cosines:
    shapes.LINES["cosines"](line, "")
    rows = line["matrix"]
    if not rows or any(len(row) != len(rows) for row in rows):
        raise ValueError("its matrix is not square")
    return Cosines(line["step"], line["steps"], np.stack([_array(row) for row in rows]))


def _finding(line: dict[str, Any]) -> Finding:
    shapes.FINDING(line, "")
    return Finding(
        *(line["finding"], sorted(line["workers"]), line["first_step"], line["last_step"]),
        evidence=number(line.get("evidence")),
        sentence=line["sentence"],
    )


def merged(found: list[Finding]) -> list[Finding]:
    """Of findings of the same kind about the same workers the one that saw most; among equals, that which comes later.

    Part of a run may only stand in the metrics: when it is resumed with another number of workers, its evidence, and
    with it what the summary tells, begins anew.
    """
    last_word: dict[tuple[str, tuple[int, ...]], Finding] = {}
    for finding in found:
        key = (finding.kind, tuple(finding.workers))
        if key not in last_word or finding.last_step >= last_word[key].last_step:
            last_word[key] = finding
    kept = list(last_word.values())

    def grew(part: Finding) -> bool:
        """A group of equal workers takes in the smaller ones."""
        return part.kind == "same_gradient" and any(
            whole.kind == part.kind and set(whole.workers) > set(part.workers) for whole in kept
        )

    return [finding for finding in kept if not grew(finding)]


def _step(line: dict[str, Any]) -> dict[str, Any]:
    shapes.LINES["step"](line, "")
    sizes = {}
    for name in PER_WORKER:  # at once, since lists of many workers and steps would take ten times the memory
        if line.get(name) is not None:
            line[name] = _array(line[name])
            sizes[name] = len(line[name])
    if len(set(sizes.values())) > 1:
        raise ValueError(f"its {', '.join(sizes)} are of {', '.join(map(str, sizes.values()))} workers")
    return line


def _per_worker(rows: list[Array | None]) -> Array | None:
    """One column per worker, as many as there ever were; nothing if nothing was recorded."""
    workers = max((row.size for row in rows if row is not None), default=0)
    if workers == 0:
        return None
    table = np.full((len(rows), workers), np.nan)
    for index, row in enumerate(rows):
        if row is not None:
            table[index, : row.size] = row
    return table


def _steps(lines: list[dict[str, Any]]) -> Steps:
    def column(name: str) -> Array:
        return _array([line[name] for line in lines])

    steps = Steps(column("step"), column("loss"), column("seconds"), column("wait_s"), column("transfer_s"))
    steps.events = [(line["step"], line["event"]) for line in lines if line.get("event")]
    for name in PER_WORKER:
        table = _per_worker([line.get(name) for line in lines])
        if table is not None:
            steps.per_worker[name] = table
    return steps


def _summary(path: Path) -> dict[str, Any]:
    if not os.path.exists(path):
        return {}
    summary = read_object(path)
    understood(path, "", lambda: shapes.SUMMARY(summary, ""))
    return summary


def read_run(folder: Path) -> Run:
    path = folder / "metrics.jsonl"
    summary = _summary(folder / "summary.json")
    step_lines: list[dict[str, Any]] = []
    evaluations: list[Evaluation] = []
    cosines: list[Cosines] = []
    found: list[Finding] = []

    def take(line: dict[str, Any]) -> None:
        if line["kind"] == "step":
            step_lines.append(_step(line))
        elif line["kind"] == "evaluation":
            evaluations.append(_evaluation(line))
        elif line["kind"] == "cosines":
            cosines.append(_cosines(line))
        elif line["kind"] == "finding":
            found.append(_finding(line))

    for where, line in read_lines(path):
        understood(path, where, partial(take, line))
    take_means(path, step_lines)
    found += [_finding(line) for line in summary.get("findings", [])]
    steps = understood(path, "", lambda: _steps(step_lines))
    return Run(folder, summary, steps, evaluations, cosines, merged(found))


def _curve(path: Path) -> list[Evaluation]:
    curve: list[Evaluation] = []
    # Only a few lines of a long file are evaluations: the others need not be taken apart.
    for where, line in read_lines(path, only='"evaluation"'):
        if line["kind"] == "evaluation":
            curve.append(understood(path, where, partial(_evaluation, line)))
    return curve


def _curve_over_seeds(figures: dict[str, Any]) -> Curve | None:
    curve = figures.get("curve")
    if curve is None:
        return None
    quality = [curve["quality"][name] for name in ("mean", "min", "max")]
    quality.append(curve["quality"].get("median", quality[0]))  # which older comparisons do not have
    columns = [_array(column) for column in (curve["steps"], curve["time_s"], *quality)]
    if len({column.size for column in columns}) > 1:
        raise ValueError(f"the curve of {figures['algorithm']} has columns of different lengths")
    return Curve(*columns)


def _row(folder: Path, figures: dict[str, Any]) -> Row:
    row = Row(figures["algorithm"], figures, [], [], [], _curve_over_seeds(figures))
    for run in figures["folders"]:
        try:
            row.curves.append(_curve(folder / run / "metrics.jsonl"))
            summary = _summary(folder / run / "summary.json")
            row.findings += [finding["sentence"] for finding in summary.get("findings", [])]
            if summary.get("step_times"):
                row.step_times.append(summary["step_times"])
        except MissingFileError:  # its figures are in compare.json, and runs are large: people delete them
            row.lost.append(run)
    return row


def _comparison(folder: Path, saved: dict[str, Any]) -> Comparison:
    if has_metric := "metric" in saved:
        shapes.METRIC(saved, "")
    shapes.COMPARISON(saved, "")
    if has_metric:
        shapes.QUALITY(saved, "")
    cases = [
        Case(
            *(case["workers"], case["batch"], case["statistic"], case["verdict"], drawn_number(case.get("target"))),
            rows=[_row(folder, figures) for figures in case["rows"]],
        )
        for case in saved["cases"]
    ]
    return Comparison(
        *(folder, saved.get("metric", ""), saved.get("lower_is_better", True), saved["interrupted"], saved["how"]),
        cases=cases,
    )


def read_comparison(folder: Path) -> Comparison:
    path = folder / "compare.json"
    saved = read_object(path)
    return understood(path, "", lambda: _comparison(folder, saved))


def best_run(comparison: Comparison, row: Row) -> Run | None:
    """Of those whose metrics are there, the one that ended best."""
    kept = [run for run in row.figures["folders"] if run not in row.lost]
    ended = [(curve[-1].quality, run) for curve, run in zip(row.curves, kept, strict=True) if curve]
    known = [pair for pair in ended if np.isfinite(pair[0])] or ended
    if not known:
        return None
    _, best = (min if comparison.lower_is_better else max)(known, key=lambda pair: pair[0])
    return read_run(comparison.folder / best)
