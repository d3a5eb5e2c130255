"""Run folders and comparison folders as values. Whatever is missing or damaged becomes a ReportError that names it."""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flockstep.report.errors import ReportError

Array = NDArray[np.float64]
# What a step line may hold for every worker.
PER_WORKER = ("coefficients", "norms", "agreement")


@dataclass
class Evaluation:
    step: int
    time_s: float
    quality: float
    metric: str
    guards: dict[str, int]


@dataclass
class Cosines:
    """Mean cosines between the workers' gradients over the last `steps` steps, up to `step`."""

    step: int
    steps: int
    matrix: Array


@dataclass
class Finding:
    kind: str
    workers: list[int]
    first_step: int
    last_step: int
    evidence: float
    sentence: str


@dataclass
class Steps:
    """One entry per step; the arrays per worker have one column each, and are absent where nothing was recorded."""

    step: Array
    loss: Array
    seconds: Array
    wait_s: Array
    transfer_s: Array
    per_worker: dict[str, Array] = field(default_factory=dict)
    events: list[tuple[int, str]] = field(default_factory=list)


@dataclass
class Run:
    folder: Path
    summary: dict[str, Any]  # empty when the run has not ended
    steps: Steps
    evaluations: list[Evaluation]
    cosines: list[Cosines]
    findings: list[Finding]


@dataclass
class Row:
    """One algorithm of a case; `figures` is its object in compare.json."""

    label: str
    figures: dict[str, Any]
    curves: list[list[Evaluation]]  # of its runs, one per seed


@dataclass
class Case:
    workers: int
    batch: int
    statistic: str  # what its table shows of quality: single, mean or median
    verdict: str
    rows: list[Row]


@dataclass
class Comparison:
    folder: Path
    metric: str
    lower_is_better: bool
    interrupted: bool
    how: dict[str, Any]
    cases: list[Case]


def number(value: Any) -> float:
    """JSON has no NaN: numbers of a diverged run are null."""
    return math.nan if value is None else float(value)


def read(folder: Path) -> Run | Comparison:
    if not folder.is_dir():
        raise ReportError(f"{folder} is not a folder: name that of a run or a comparison", exit_code=2)
    if (folder / "compare.json").exists():
        return read_comparison(folder)
    if (folder / "metrics.jsonl").exists():
        return read_run(folder)
    raise ReportError(
        f"{folder} holds neither a comparison (compare.json) nor a run (metrics.jsonl): name what --out named",
        exit_code=2,
    )


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ReportError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ReportError(f"{path} is damaged: it is not text") from error


def _read_object(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(_read_text(path))
    except ValueError as error:
        raise ReportError(f"{path} is damaged: {error}") from error
    if not isinstance(value, dict):
        raise ReportError(f"{path} is damaged: it should hold a JSON object")
    return value


def _understood(path: Path, where: str, read_it: Callable[[], None]) -> None:
    try:
        read_it()
    except KeyError as error:
        raise ReportError(f"{path}{where} is damaged: it lacks {error}") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise ReportError(f"{path}{where} is damaged: {error}") from error


def _lines(path: Path, only: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a metrics file with their places. A run that was killed may leave half a line at the end."""
    text = _read_text(path)
    whole = text.endswith("\n")
    lines = text.splitlines()
    for index, line in enumerate(lines):
        if only not in line:
            continue
        try:
            value = json.loads(line)
        except ValueError as error:
            if index + 1 == len(lines) and not whole:
                return
            raise ReportError(f"{path} line {index + 1} is damaged: {error}") from error
        if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
            raise ReportError(f"{path} line {index + 1} is damaged: it should be an object with a kind")
        yield f" line {index + 1}", value


def _evaluation(line: dict[str, Any]) -> Evaluation:
    guards = {str(name): int(count) for name, count in line.get("guards", {}).items()}
    return Evaluation(int(line["step"]), number(line["time_s"]), number(line["quality"]), str(line["metric"]), guards)


def _cosines(line: dict[str, Any]) -> Cosines:
    matrix = np.array([[number(value) for value in row] for row in line["matrix"]], dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError("its matrix is not square")
    return Cosines(int(line["step"]), int(line["steps"]), matrix)


def _finding(line: dict[str, Any]) -> Finding:
    workers = [int(worker) for worker in line["workers"]]
    first, last = int(line["first_step"]), int(line["last_step"])
    return Finding(str(line["finding"]), workers, first, last, number(line.get("evidence")), str(line["sentence"]))


def _steps(path: Path, lines: list[dict[str, Any]]) -> Steps:
    def column(name: str) -> Array:
        return np.array([number(line[name]) for line in lines], dtype=np.float64)

    steps = Steps(*(column(name) for name in ("step", "loss", "seconds", "wait_s", "transfer_s")))
    steps.events = [(int(line["step"]), str(line["event"])) for line in lines if line.get("event")]
    for name in PER_WORKER:
        workers = {len(line[name]) for line in lines if line.get(name) is not None}
        if len(workers) > 1:
            raise ReportError(f"{path} is damaged: its {name} are of {min(workers)} and of {max(workers)} workers")
        if workers and max(workers) > 0:
            nothing = np.full(workers.pop(), math.nan)
            rows = [nothing if line.get(name) is None else line[name] for line in lines]
            steps.per_worker[name] = np.stack(rows)
    return steps


def read_run(folder: Path) -> Run:
    path = folder / "metrics.jsonl"
    summary_path = folder / "summary.json"
    summary = _read_object(summary_path) if summary_path.exists() else {}
    step_lines: list[dict[str, Any]] = []
    run = Run(folder, summary, Steps(*(np.empty(0) for _ in range(5))), [], [], [])
    last_word: dict[tuple[str, tuple[int, ...], int], Finding] = {}

    def take(line: dict[str, Any]) -> None:
        if line["kind"] == "step":
            for name in PER_WORKER:  # at once, since lists of many workers and steps would take ten times the memory
                if line.get(name) is not None:
                    line[name] = np.array([number(value) for value in line[name]], dtype=np.float64)
            step_lines.append(line)
        elif line["kind"] == "evaluation":
            run.evaluations.append(_evaluation(line))
        elif line["kind"] == "cosines":
            run.cosines.append(_cosines(line))
        elif line["kind"] == "finding":
            finding = _finding(line)
            last_word[finding.kind, tuple(finding.workers), finding.first_step] = finding

    for where, line in _lines(path):
        _understood(path, where, lambda line=line: take(line))

    def take_steps() -> None:
        run.steps = _steps(path, step_lines)

    def take_findings() -> None:
        run.findings = [_finding(line) for line in summary["findings"]]

    _understood(path, "", take_steps)
    run.findings = list(last_word.values())
    if "findings" in summary:
        _understood(summary_path, "", take_findings)
    return run


def read_comparison(folder: Path) -> Comparison:
    path = folder / "compare.json"
    saved = _read_object(path)
    read_cases: list[Case] = []
    comparison = Comparison(folder, "", True, False, {}, read_cases)

    def take() -> None:
        comparison.metric = str(saved["metric"])
        comparison.lower_is_better = bool(saved["lower_is_better"])
        comparison.interrupted = bool(saved["interrupted"])
        comparison.how = dict(saved["how"])
        for case in saved["cases"]:
            rows = [Row(str(row["algorithm"]), row, _curves(folder, row["folders"])) for row in case["rows"]]
            read_cases.append(
                Case(int(case["workers"]), int(case["batch"]), str(case["statistic"]), str(case["verdict"]), rows)
            )

    _understood(path, "", take)
    return comparison


def _curves(folder: Path, runs: list[str]) -> list[list[Evaluation]]:
    curves = []
    for run in runs:
        path = folder / run / "metrics.jsonl"
        curve: list[Evaluation] = []
        # Only a few lines of a long file are evaluations: the others need not be taken apart.
        for where, line in _lines(path, only='"evaluation"'):
            _understood(path, where, lambda line=line, curve=curve: curve.append(_evaluation(line)))
        curves.append(curve)
    return curves
