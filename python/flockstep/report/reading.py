"""Run folders, comparison folders and study folders as values.

What is missing or damaged becomes a ReportError that names the file, and the line.
"""

from __future__ import annotations

import math
import os
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec
import numpy as np

from flockstep._schema import SCHEMA
from flockstep.report import records
from flockstep.report.errors import MissingFileError, ReportError
from flockstep.report.records import PER_WORKER, Array, Cosines, Evaluation, Finding, Row, Step, Summary

MEASURED = ("loss", "seconds", "wait_s", "transfer_s")
Kind = TypeVar("Kind")


@dataclass
class Steps:
    """One entry per step; the arrays per worker have one column each, and are absent where nothing was recorded.

    A run may be resumed with another number of workers: a column is NaN where its worker was not there.
    """

    step: Array
    loss: Array
    seconds: Array
    wait_s: Array
    transfer_s: Array
    per_worker: dict[str, Array]
    events: list[tuple[int, str]]


@dataclass
class Run:
    folder: Path
    summary: Summary | None  # of a run that has ended
    steps: Steps
    evaluations: list[Evaluation]
    cosines: list[Cosines]
    findings: list[Finding]
    missing: str = ""  # a sentence on what the metrics file has lost


@dataclass
class Comparison:
    folder: Path
    saved: records.ComparisonFile
    summaries: dict[str, Summary]  # of its runs, but for those that somebody has deleted

    def summaries_of(self, row: Row) -> list[Summary]:
        return [self.summaries[run] for run in row.folders if run in self.summaries]


@dataclass
class Study:
    folder: Path
    saved: records.StudyFile


def read(folder: Path) -> Run | Comparison | Study:
    # os.path, since a Path raises at names that are too long or in folders that may not be looked into.
    if not os.path.isdir(folder):
        raise ReportError(f"{folder} is not a folder: name that of a run, a comparison or a study", exit_code=2)
    if os.path.exists(folder / "compare.json"):
        return read_comparison(folder)
    if os.path.exists(folder / "study.json"):
        return Study(folder, read_record(folder / "study.json", records.StudyFile))
    if os.path.exists(folder / "metrics.jsonl"):
        return read_run(folder)
    raise ReportError(
        f"{folder} holds neither a comparison (compare.json) nor a study (study.json) nor a run (metrics.jsonl): name what --out named",
        exit_code=2,
    )


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise MissingFileError(f"cannot read {path}: {error.strerror}") from error
    except OSError as error:
        raise ReportError(f"cannot read {path}: {error.strerror}") from error


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind, dec_hook=records.decode_numbers)


def _decode(path: Path, text: bytes, kind: type[Kind], where: str = "") -> Kind:
    try:
        record: Kind = _decoder(cast(Any, kind)).decode(text)
        return record
    except RecursionError as error:
        raise ReportError(f"{path}{where} is damaged: it is nested too deeply") from error
    except (ValueError, OverflowError) as error:
        what, _, place = str(error).partition(" - at `$")
        place = place.strip(".`")
        sentence = what.replace("Expected", "expected").replace("Object", "object") + (f", at {place}" if place else "")
        raise ReportError(f"{path}{where} is damaged: {sentence}") from error


def _kind_of(path: Path, text: bytes, where: str = "") -> str:
    """That of a line. What was written by a later version is refused before it is looked at."""
    head = _decode(path, text, records.Versioned, where)
    if head.schema > SCHEMA:
        raise ReportError(
            f"{path} has schema {head.schema}, and this version of flockstep reads up to {SCHEMA}: use the version that wrote it, or a later one"
        )
    return head.kind


def read_record(path: Path, kind: type[Kind]) -> Kind:
    text = _read_bytes(path)
    _kind_of(path, text)
    return _decode(path, text, kind)


def _lines(path: Path) -> Iterator[Step | Evaluation | Cosines | Finding]:
    """Of a metrics file, those of the kinds that are known. A run that was killed may leave half a line at the end."""
    lines = _read_bytes(path).split(b"\n")
    for index, line in enumerate(lines):
        where = f" line {index + 1}"
        try:
            kind = _kind_of(path, line, where) if line else ""
        except ReportError:
            if index + 1 == len(lines):
                return
            raise
        if kind in records.LINES:
            yield _decode(path, line, records.LINES[kind], where)
        elif not kind and line:
            raise ReportError(f"{path}{where} is damaged: it should have a kind")


def _summary(folder: Path) -> Summary | None:
    try:
        return read_record(folder / "summary.json", Summary)
    except MissingFileError:
        return None


def merged(found: list[Finding]) -> list[Finding]:
    """Of findings of the same kind about the same workers the one that saw most; among equals, that which comes later.

    Part of a run may only stand in the metrics: when it is resumed with another number of workers, its evidence, and
    with it what the summary tells, begins anew.
    """
    last_word: dict[tuple[str, tuple[int, ...]], Finding] = {}
    for finding in found:
        key = (finding.finding, tuple(sorted(finding.workers)))
        if key not in last_word or finding.last_step >= last_word[key].last_step:
            last_word[key] = finding
    kept = list(last_word.values())

    def grew(part: Finding) -> bool:
        """A group of equal workers takes in the smaller ones."""
        return part.finding == "same_gradient" and any(
            whole.finding == part.finding and set(whole.workers) > set(part.workers) for whole in kept
        )

    return [finding for finding in kept if not grew(finding)]


def _per_worker(rows: list[Array | None]) -> Array:
    """One column per worker, as many as there ever were."""
    workers = max((row.size for row in rows if row is not None), default=0)
    table = np.full((len(rows), workers), np.nan)
    for index, row in enumerate(rows):
        if row is not None:
            table[index, : row.size] = row
    return table


def parts_of(path: Path) -> list[Path]:
    """What other workers have written one by one, because nobody asked them all: metrics-3.jsonl beside metrics.jsonl."""
    pattern = re.compile(rf"{re.escape(path.stem)}-([0-9]+){re.escape(path.suffix)}")
    found = [(int(name[1]), part) for part in path.parent.iterdir() if (name := pattern.fullmatch(part.name))]
    return [part for _, part in sorted(found)]


def _take_means(path: Path, steps: list[Step]) -> None:
    """Makes what worker 0 has measured in its steps the mean over all workers whose files are there."""
    known: dict[int, list[Step]] = defaultdict(list)
    for part in parts_of(path):
        for line in _lines(part):
            if isinstance(line, Step):
                known[line.step].append(line)
    for step in steps if known else ():
        for name in MEASURED:
            values = [getattr(line, name) for line in (step, *known[step.step])]
            finite = [value for value in values if math.isfinite(value)]
            setattr(step, name, float(np.mean(finite)) if finite else math.nan)


def _steps(lines: list[Step]) -> Steps:
    def column(name: str) -> Array:
        return np.array([getattr(line, name) for line in lines], dtype=np.float64)

    tables = {name: _per_worker([getattr(line, name) for line in lines]) for name in PER_WORKER}
    return Steps(
        *(column("step"), column("loss"), column("seconds"), column("wait_s"), column("transfer_s")),
        per_worker={name: table for name, table in tables.items() if table.size},
        events=[(line.step, line.event) for line in lines if line.event],
    )


def _missing_from(path: Path, steps: list[Step], summary: Summary | None) -> str:
    """Says where a metrics file ends before its run does, or within a line."""
    last = steps[-1].step if steps else 0
    if summary and last < summary.steps:
        return f"{path.name} ends after step {last} of {summary.steps}: pictures lack the steps after it."
    if _read_bytes(path)[-1:] not in (b"", b"\n"):
        return f"{path.name} breaks off within a line after step {last}: pictures lack what came after it."
    return ""


def read_run(folder: Path) -> Run:
    path = folder / "metrics.jsonl"
    summary = _summary(folder)
    lines = list(_lines(path))
    steps = [line for line in lines if isinstance(line, Step)]
    _take_means(path, steps)
    return Run(
        *(folder, summary, _steps(steps)),
        evaluations=[line for line in lines if isinstance(line, Evaluation)],
        cosines=[line for line in lines if isinstance(line, Cosines)],
        findings=merged(
            [*(line for line in lines if isinstance(line, Finding)), *(summary.findings if summary else [])]
        ),
        missing=_missing_from(path, steps, summary),
    )


def read_comparison(folder: Path) -> Comparison:
    path = folder / "compare.json"
    saved = read_record(path, records.ComparisonFile)
    if any(case.table is None for case in saved.cases):
        raise ReportError(
            f"{path} is of a version that kept no tables in it: call `flockstep compare` again as then, with --out {folder}; runs that are done are not made again"
        )
    runs = [run for case in saved.cases for row in case.rows for run in row.folders]
    found = {run: _summary(folder / run) for run in runs}
    return Comparison(folder, saved, {run: summary for run, summary in found.items() if summary})


def best_run(comparison: Comparison, row: Row) -> Run | None:
    """Of those whose files are there, the one that ended best."""
    kept = {run: comparison.summaries[run].quality for run in row.folders if run in comparison.summaries}
    known = {run: quality for run, quality in kept.items() if math.isfinite(quality)} or kept
    if not known:
        return None
    best = (min if comparison.saved.lower_is_better else max)(known, key=lambda run: known[run])
    try:
        return read_run(comparison.folder / best)
    except MissingFileError:
        return None
