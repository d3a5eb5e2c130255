"""Shows that the tests catch faults: puts each of sabotages.toml into a copy of the tree, and looks for a test that fails.

A fault meets the test that sabotages.toml names for it, then the suites of suites.py, until one fails. Every suite first
runs in the copy as it is: a test that fails there does not count, and one that takes ten times as long hangs. A test
that fails has to fail twice. Results go to DIR/sabotages.jsonl, a line for each suite that a fault has met. Another call
goes on after them; a result holds until the fault, its file or the tests of the suite change. Needs Python 3.11.
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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import tomllib
from copied import ROOT, Copy
from suites import Entry, Suite, suites_for

# What any test may take, and what it may take times what it takes without a fault.
LEAST_S, TIMES = 60, 10
AT_ONCE = 2
MOST_MEMORY = 16 << 30  # of a process: a loop that does not end may fill a list; 1,024 stacks of sim take half of it


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
    """The file of results: what each suite takes without a fault, what missed each fault, and what caught it."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def add(self, suite: Suite, sabotage: Sabotage | None, **result: Any) -> None:
        line = {"suite": suite.name, "state": state_of(sabotage, suite.tests), **result}
        self._lines.append(line)
        with self._file.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def of(self, suite: Suite, sabotage: Sabotage | None) -> dict[str, Any] | None:
        """The last result, if neither the fault nor its file nor the tests have changed since then."""
        name = sabotage.id if sabotage else None
        found = (line for line in reversed(self._lines) if line["suite"] == suite.name and line.get("id") == name)
        last = next(found, None)
        return last if last and last["state"] == state_of(sabotage, suite.tests) else None


def state_of(sabotage: Sabotage | None, tests: list[str]) -> str:
    """Changes with the fault, its file and the tests."""
    digest = hashlib.sha256()
    if sabotage:
        digest.update("\0".join([sabotage.old, sabotage.new, (ROOT / sabotage.file).read_text()]).encode())
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
    begun = re.findall(r"^\[ RUN      \] (\S+)", plain, re.MULTILINE)
    ended = f"exit code {process.returncode}{' in ' + begun[-1] if begun else ''}"
    return failed[0] if failed else ended, time.monotonic() - begin


class Runner:
    def __init__(self, copy: Copy, results: Results) -> None:
        self._copy = copy
        self._results = results

    def ask(self, sabotage: Sabotage, suite: Suite) -> dict[str, Any]:
        """Which test of the suite catches it: `test` is empty if none does."""
        begin = time.monotonic()
        honest = self._honest_seconds(suite)
        with self._copy.changed(sabotage.file, sabotage.old, sabotage.new):
            if not self._copy.build(suite.targets):
                raise SystemExit(f"{sabotage.id} does not compile: what it puts in its place has to")
            entries = [entry for entry in suite.entries(self._copy) if entry.name in honest]
            caught = self._first_failure(entries, honest) or ("", "")
        seconds = round(time.monotonic() - begin)
        result = {"id": sabotage.id, "test": caught[0], "command": caught[1], "seconds": seconds}
        self._results.add(suite, sabotage, **result, commit=self._copy.commit)
        return result

    def _honest_seconds(self, suite: Suite) -> dict[str, float]:
        known = self._results.of(suite, None)
        if known:
            return dict(known["honest"])
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
        self._results.add(suite, None, honest=seconds, commit=self._copy.commit)
        return seconds

    def _first_failure(self, entries: list[Entry], honest: dict[str, float]) -> tuple[str, str] | None:
        caught: list[tuple[str, str]] = []

        def look(entry: Entry) -> None:
            deadline_s = LEAST_S + TIMES * honest[entry.name]
            failure = "" if caught else outcome_of(entry, self._copy, deadline_s)[0]
            if failure and not failure.startswith("no end"):
                tells = [word for word in entry.command if word != "--gtest_brief=1"]  # in which test it crashed
                failure = outcome_of(entry._replace(command=tells), self._copy, deadline_s)[0]
            if failure:
                caught.append((f"{entry.name}: {failure}", shlex.join(entry.command)))

        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(look, entries))
        return caught[0] if caught else None


def sabotages() -> list[Sabotage]:
    listed = tomllib.loads(Path(__file__).with_name("sabotages.toml").read_text())
    return [Sabotage(**each) for each in listed["sabotage"]]


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
    asked = {each.id: suites_for(each.file, each.layer, each.target, each.test) for each in chosen}
    if given.list:
        for each in chosen:
            found = [suite.name for suite in asked[each.id] if (results.of(suite, each) or {}).get("test")]
            print(f"{each.id:28} {each.layer:11} {each.fault}  [{each.escapes or found or each.test or '?'}]")
        return 0

    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    copy = Copy(given.build.resolve() / "sabotaged")
    copy.refresh()
    copy.configure()
    runner = Runner(copy, results)
    print(f"{'id':28} {'layer':11} {'seconds':>7}  caught by", flush=True)
    # The nearest suite of each fault first: few faults get further.
    left = [each for each in chosen if not each.escapes]
    suites: collections.Counter[str] = collections.Counter()
    for depth in range(max((len(listed) for listed in asked.values()), default=0)):
        for each in [each for each in left if depth < len(asked[each.id])]:
            suite = asked[each.id][depth]
            known = None if given.again else results.of(suite, each)
            result = known or runner.ask(each, suite)
            if result["test"]:
                left.remove(each)
                suites[suite.targets[-1] if suite.name == each.test else suite.name] += 1
            if not known:
                by = f"{suite.name} {result['test']}" if result["test"] else f"not by {suite.name}"
                print(f"{each.id:28} {each.layer:11} {result['seconds']:7}  {by}", flush=True)
    print("; ".join(f"{number} by {suite}" for suite, number in suites.most_common()))
    print(*(f"ESCAPED: {each.id}, {each.fault}" for each in left), sep="\n")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
