"""Shows that the tests catch faults: puts each of sabotages.toml into a copy of the tree, and looks for a test that fails.

A fault meets the test that sabotages.toml names for it, then the suites of suites.py, until one fails. Every suite first
runs in the copy as it is: a test that fails there does not count, and one that takes ten times as long hangs. A test
that fails has to fail twice. Results go to DIR/sabotages.jsonl. Another call goes on after them: a fault has its result
until its file or the tests that caught it change. Needs Python 3.11.
"""

import argparse
import collections
import contextlib
import hashlib
import json
import os
import re
import resource
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import tomllib
from copied import ROOT, Copy
from suites import Entry, Suite, suites_for

# What any test may take, and what it may take times what it takes without a fault.
LEAST_S, TIMES = 60, 10
AT_ONCE = 2
MOST_MEMORY = 8 << 30  # of a process: a loop that does not end may fill a list


class Sabotage(NamedTuple):
    id: str
    layer: str
    fault: str
    file: str
    old: str
    new: str
    target: str = ""
    test: str = ""
    escapes: str = ""  # why no test fails


class Results:
    """The file of results: what ran without a fault, and what caught each fault."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def add(self, **result: Any) -> None:
        self._lines.append(result)
        with self._file.open("a") as file:
            file.write(json.dumps(result) + "\n")

    def of(self, sabotage: Sabotage) -> dict[str, Any] | None:
        last = next((line for line in reversed(self._lines) if line.get("id") == sabotage.id), None)
        return last if last and last["state"] == state_of(sabotage, last["tests"]) else None

    def honest(self, suite: str) -> dict[str, float] | None:
        """Seconds of each test of a suite that passes without a fault."""
        return next((line["seconds"] for line in reversed(self._lines) if line.get("honest") == suite), None)


def state_of(sabotage: Sabotage, tests: list[str]) -> str:
    """Changes with the fault, its file and the tests that caught it."""
    digest = hashlib.sha256("\0".join([sabotage.old, sabotage.new, (ROOT / sabotage.file).read_text()]).encode())
    for name in tests:
        for path in sorted((ROOT / name).rglob("*")) if (ROOT / name).is_dir() else [ROOT / name]:
            if path.is_file() and path.suffix in (".h", ".cpp", ".py", ".txt") and "sabotage/" not in str(path):
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def outcome_of(entry: Entry, copy: Copy, deadline_s: float) -> tuple[str, float]:
    """The first test that failed, or nothing; and the seconds that it took."""
    begin = time.monotonic()
    with subprocess.Popen(
        entry.command,
        cwd=copy.root,
        env={**copy.environment, **entry.environment},
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        try:
            output, _ = process.communicate(timeout=deadline_s)
        except subprocess.TimeoutExpired:
            return f"no end within {deadline_s:.0f} s", time.monotonic() - begin
        finally:  # with the workers that it may have started
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode == 0:
        return "", time.monotonic() - begin
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    failed = re.findall(r"^(?:\[  FAILED  \]|FAILED|ERROR) (\S+?)(?:,|\s|$)", plain, re.MULTILINE)
    return failed[0] if failed else f"exit code {process.returncode}", time.monotonic() - begin


class Runner:
    def __init__(self, copy: Copy, results: Results) -> None:
        self._copy = copy
        self._results = results

    def catch(self, sabotage: Sabotage) -> dict[str, Any]:
        """Which test catches it: `by` is empty if none does."""
        tried = []
        for suite in suites_for(sabotage.file, sabotage.layer, sabotage.target, sabotage.test):
            honest = self._honest_seconds(suite)
            with self._copy.changed(sabotage.file, sabotage.old, sabotage.new):
                if not self._copy.build(suite.targets):
                    return {"by": "", "test": "NOT BUILT", "tests": ["tests"]}
                entries = [entry for entry in suite.entries(self._copy) if entry.name in honest]
                if caught := self._first_failure(entries, honest):
                    name = suite.name if suite.name != sabotage.test else sabotage.test.split("-q ")[-1]
                    return {"by": name, "test": caught[0], "command": caught[1], "tests": suite.tests}
            tried.append(suite.name)
        return {"by": "", "test": "ESCAPED", "tried": tried, "tests": ["tests"]}

    def _honest_seconds(self, suite: Suite) -> dict[str, float]:
        known = self._results.honest(suite.name)
        if known is not None:
            return known
        if not self._copy.build(suite.targets, shown=True):
            raise SystemExit(f"{suite.name} is not built, though the tree has no fault")
        entries = suite.entries(self._copy)
        seconds = {}
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for entry, (failure, took) in zip(
                entries, pool.map(lambda each: outcome_of(each, self._copy, 1800), entries), strict=True
            ):
                if failure:
                    print(f"without a fault, too, {entry.name} fails, so that it does not count: {failure}", flush=True)
                else:
                    seconds[entry.name] = round(took, 2)
        self._results.add(honest=suite.name, seconds=seconds, commit=self._copy.commit)
        return seconds

    def _first_failure(self, entries: list[Entry], honest: dict[str, float]) -> tuple[str, str] | None:
        caught: list[tuple[str, str]] = []

        def look(entry: Entry) -> None:
            deadline_s = LEAST_S + TIMES * honest[entry.name]
            failure = "" if caught else outcome_of(entry, self._copy, deadline_s)[0]
            again = (
                failure if failure.startswith("no end") else failure and outcome_of(entry, self._copy, deadline_s)[0]
            )
            if again:
                caught.append((f"{entry.name}: {again}", shlex.join(entry.command)))

        with ThreadPoolExecutor(AT_ONCE) as pool:
            collections.deque(pool.map(look, entries), maxlen=0)
        return caught[0] if caught else None


def sabotages() -> list[Sabotage]:
    listed = tomllib.loads(Path(__file__).with_name("sabotages.toml").read_text())
    return [Sabotage(**each) for each in listed["sabotage"]]


def unfinished(chosen: list[Sabotage], results: Results, again: bool) -> Iterator[Sabotage]:
    return (each for each in chosen if not each.escapes and (again or not results.of(each)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--list", action="store_true", help="tell the faults, with what is known to catch them, and end"
    )
    parser.add_argument("--only", metavar="ID", action="append", help="one fault; may be given several times")
    parser.add_argument("--again", action="store_true", help="also those that have a result")
    parser.add_argument("--build", metavar="DIR", type=Path, default=ROOT / "build", help="has the copy, DIR/sabotaged")
    given = parser.parse_args()
    chosen = [each for each in sabotages() if not given.only or each.id in given.only]
    if len(chosen) < len(given.only or []):
        parser.error("--only names a fault that is not in the list: see --list")
    results = Results(given.build.resolve() / "sabotages.jsonl")
    if given.list:
        for each in chosen:
            found = results.of(each) or {}
            print(f"{each.id:28} {each.layer:11} {each.fault}  [{each.escapes or found.get('by') or each.test or '?'}]")
        return 0

    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    copy = Copy(given.build.resolve() / "sabotaged")
    copy.refresh()
    copy.configure()
    runner = Runner(copy, results)
    print(f"{'id':28} {'layer':11} {'seconds':>7}  caught by", flush=True)
    for each in unfinished(chosen, results, given.again):
        begin = time.monotonic()
        result = runner.catch(each)
        seconds = round(time.monotonic() - begin)
        results.add(id=each.id, seconds=seconds, commit=copy.commit, state=state_of(each, result["tests"]), **result)
        print(f"{each.id:28} {each.layer:11} {seconds:7}  {result['by']} {result['test']}", flush=True)
    found = {each.id: results.of(each) for each in chosen if not each.escapes}
    suites = collections.Counter((result or {}).get("by") or "nothing" for result in found.values())
    print("; ".join(f"{number} by {suite}" for suite, number in suites.most_common()))
    return 1 if suites["nothing"] else 0


if __name__ == "__main__":
    sys.exit(main())
