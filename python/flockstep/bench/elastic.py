"""F1 to F4: workers of Flock are killed at random, while they train, join and consolidate, and come back.

Every run is one of the launcher's, on this machine. What workers note of themselves in files is read while it runs.
"""

import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flockstep.bench.harness import Spread, Target

_WORKERS = 4
_AROUND_S = 3.0  # a step that ends so long after a kill is one around it
_PATIENCE_S = 60.0
_LEFT = 2  # workers that train on, at least
_LOOK_S = 0.002
LOST_BAR_S, JOINED_BAR_S = 1.0, 2.0


@dataclass(frozen=True)
class Case:
    """One run."""

    steps: int
    kills: int
    seed: int
    step_ms: int = 10
    every: int = 150  # steps from one consolidation to the next
    data: str = ""


@dataclass
class Kill:
    at: float
    rank: int
    moment: str  # what the worker was at
    survived: bool = False


@dataclass
class Outcome:
    """Of one run."""

    kills: list[Kill] = field(default_factory=list)
    notes: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    status: int | None = None

    def _steps(self) -> list[tuple[int, float, float]]:
        """Rank, end and duration."""
        return [
            (rank, note["at"], note["seconds"])
            for rank, notes in self.notes.items()
            for note in notes
            if note["what"] == "step"
        ]

    def usual_longest_s(self) -> float:
        """Of steps that no kill is near."""
        quiet = [
            seconds
            for _, end, seconds in self._steps()
            if not any(kill.at <= end <= kill.at + _AROUND_S for kill in self.kills)
        ]
        return max(quiet, default=0.0)

    def longest_around_s(self, kill: Kill) -> float:
        """Of the others' steps."""
        around = [
            seconds
            for rank, end, seconds in self._steps()
            if rank != kill.rank and kill.at <= end <= kill.at + _AROUND_S
        ]
        return max(around, default=0.0)

    def joins_s(self) -> list[float]:
        """From where a worker that was started again connects to where it takes part."""
        joins = []
        for notes in self.notes.values():
            for before, after in itertools.pairwise(notes):
                if before["what"] == "connects" and after["what"] == "joined" and after["incarnation"] > 1:
                    joins.append(after["at"] - before["at"])
        return joins

    def quality(self) -> float:
        return max(float(note["quality"]) for notes in self.notes.values() for note in notes if note["what"] == "done")


class Run:
    """A run of the launcher, whose workers it kills."""

    def __init__(self, case: Case, folder: Path) -> None:
        self._case, self._folder = case, folder
        self._random = random.Random(case.seed)
        numbers = [str(case.steps), str(case.step_ms), str(case.every), str(case.seed), case.data]
        launch = [sys.executable, "-m", "flockstep.launch", "--workers", str(_WORKERS), "--restarts", "1000", "--"]
        self._launcher = subprocess.Popen(
            [*launch, sys.executable, "-m", "flockstep.bench.elastic_worker", str(folder), *numbers],
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={"OMP_NUM_THREADS": "1", **os.environ},
        )
        self._outcome = Outcome(notes={rank: [] for rank in range(_WORKERS)})
        self._read = dict.fromkeys(range(_WORKERS), 0)  # bytes of each file

    def _look(self) -> None:
        for rank, notes in self._outcome.notes.items():
            path = self._folder / f"worker-{rank}.jsonl"
            if not path.exists():
                continue
            with open(path, "rb") as file:
                file.seek(self._read[rank])
                new = file.read()
            whole = new[: new.rfind(b"\n") + 1]
            self._read[rank] += len(whole)
            for line in whole.splitlines():
                try:
                    notes.append(json.loads(line))
                except ValueError:  # its writer was killed in the midst of it
                    continue

    def _moment(self, rank: int) -> str:
        notes = self._outcome.notes[rank]
        return str(notes[-1]["what"]) if notes else ""

    def _wait(self, ready: Any, patience_s: float = _PATIENCE_S) -> bool:
        end = time.monotonic() + patience_s
        while time.monotonic() < end:
            self._look()
            if ready():
                return True
            if self._launcher.poll() is not None:
                self._look()
                return bool(ready())
            time.sleep(_LOOK_S)
        return False

    def _processes(self) -> dict[int, int]:
        """Of workers, by rank."""
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if str(self._folder).encode() not in (entry / "cmdline").read_bytes():
                    continue
                rank = re.search(rb"(?:^|\0)FLOCKSTEP_RANK=(\d+)", (entry / "environ").read_bytes())
            except OSError:
                continue
            if rank:
                found[int(rank[1])] = int(entry.name)
        return found

    def _training(self) -> list[int]:
        return [rank for rank in range(_WORKERS) if self._moment(rank) in ("joined", "step", "consolidates")]

    def _kill(self) -> bool:
        """At a moment drawn; false where the run has ended before."""
        wanted = self._random.choice(["any", "any", "connects", "consolidates"])
        if wanted == "any":
            time.sleep(self._random.uniform(0.2, 2.0))
        else:
            seen: dict[int, int] = {rank: len(notes) for rank, notes in self._outcome.notes.items()}

            def is_there() -> bool:
                return any(
                    len(notes) > seen[rank] and self._moment(rank) == wanted
                    for rank, notes in self._outcome.notes.items()
                )

            self._wait(is_there, 4.0)
        self._look()
        processes = self._processes()
        ranks = [rank for rank in processes if wanted == "any" or self._moment(rank) == wanted] or list(processes)
        if not ranks or self._launcher.poll() is not None:
            return False
        rank = self._random.choice(ranks)
        if not self._wait(
            lambda: len(set(self._training()) - {rank}) >= _LEFT
        ):  # where all die there is nothing to join
            return False
        others = [other for other in self._training() if other != rank and self._moment(other) != "done"]
        kill = Kill(time.monotonic(), rank, self._moment(rank))
        try:
            os.kill(processes[rank], signal.SIGKILL)
        except ProcessLookupError:
            return True
        self._outcome.notes[rank].append({"at": kill.at, "what": "killed"})

        def went_on(other: int) -> bool:
            notes = self._outcome.notes[other]
            return any(note["at"] > kill.at and note["what"] in ("step", "done") for note in notes)

        kill.survived = self._wait(lambda: all(went_on(other) for other in others), 20.0)
        self._outcome.kills.append(kill)
        return True

    def result(self) -> Outcome:
        try:
            self._wait(lambda: len(self._training()) == _WORKERS)
            while len(self._outcome.kills) < self._case.kills and self._kill():
                pass
            self._wait(lambda: self._launcher.poll() is not None, 600.0)
            self._look()
        finally:
            self._outcome.status = self._launcher.poll()
            if self._outcome.status is None:
                self._launcher.send_signal(signal.SIGINT)
                self._launcher.wait(20)
        return self._outcome


def _run(case: Case) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="flockstep-bench-") as folder:
        outcome = Run(case, Path(folder)).result()
    moments = [kill.moment for kill in outcome.kills]
    print(
        f"seed {case.seed}: {len(moments)} kills ({moments.count('connects')} while joining, "
        f"{moments.count('consolidates')} while consolidating), {sum(kill.survived for kill in outcome.kills)} survived, "
        f"launcher ended with {outcome.status}",
        file=sys.stderr,
        flush=True,
    )
    return outcome


def run(kills: int, kills_a_run: int, first_seed: int, seeds: int, steps: int, data: str, as_json: bool) -> int:
    """The exit code."""
    outcomes: list[Outcome] = []
    seed = first_seed - 1
    while (left := kills - sum(len(outcome.kills) for outcome in outcomes)) > 0:
        seed += 1
        outcomes.append(_run(Case(steps=200 * kills_a_run, kills=min(left, kills_a_run), seed=seed)))
    killed = [kill for outcome in outcomes for kill in outcome.kills]
    beyond = [
        outcome.longest_around_s(kill) - outcome.usual_longest_s() for outcome in outcomes for kill in outcome.kills
    ]
    joins = [seconds for outcome in outcomes for seconds in outcome.joins_s()]
    survived = sum(kill.survived for kill in killed)
    ended = sum(outcome.status == 0 for outcome in outcomes)
    targets = [
        _target("F1", f"kills of {len(killed)} after which all others went on", survived, len(killed), at_most=False),
        _target("F1", f"runs of {len(outcomes)} that came to their end", ended, len(outcomes), at_most=False),
        _target(
            "F2",
            "seconds of the others' longest step around a kill, beyond their usual longest",
            max(beyond),
            LOST_BAR_S,
        ),
        _target("F3", f"seconds from connecting to taking part, longest of {len(joins)}", max(joins), JOINED_BAR_S),
    ]
    notes = []
    if seeds:
        plain = [_run(Case(steps, 0, each, data=data)).quality() for each in range(1, seeds + 1)]
        hurt = [_run(Case(steps, 20, each, data=data)).quality() for each in range(1, seeds + 1)]
        notes = [
            f"quality of {steps} steps with seeds 1 to {seeds}: {_list(plain)} without a kill, {_list(hurt)} with 20 each"
        ]
        spread = max(max(plain) - min(plain), 2 * _deviation(plain))
        gap = sum(plain) / len(plain) - sum(hurt) / len(hurt)
        targets.append(_target("F4", "quality lost by 20 kills in a run / the spread of seeds", gap / spread, 1.0))
    if as_json:
        print(json.dumps([target.json() for target in targets], indent=2))
    else:
        print("\n".join([*notes, *(target.line() for target in targets)]))
    return 0 if all(target.holds for target in targets) else 1


def _target(id: str, measure: str, figure: float, bar: float, at_most: bool = True) -> Target:
    return Target(id, measure, Spread(figure, figure, figure), bar, at_most=at_most)


def _deviation(values: list[float]) -> float:
    mean = sum(values) / len(values)
    return float((sum((value - mean) ** 2 for value in values) / max(1, len(values) - 1)) ** 0.5)


def _list(values: list[float]) -> str:
    return ", ".join(f"{value:.4f}" for value in values)
