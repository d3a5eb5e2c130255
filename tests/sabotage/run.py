"""Shows that the tests catch faults: puts each of sabotages.toml into a copy of the tree, and expects its test to fail.

Every test first runs in the copy as it is, so that none counts as failing that always does. The tree itself is never
written to, but for the copy, which stays, with what was built there, so that another call builds less. Needs Python 3.11.
"""

import argparse
import contextlib
import filecmp
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import tomllib

ROOT = Path(__file__).resolve().parents[2]
HANG_S = 600


class Sabotage(NamedTuple):
    id: str
    layer: str
    fault: str
    file: str
    old: str
    new: str
    target: str
    test: str


class Copy:
    """The tree as it is now, with what git ignores left out."""

    def __init__(self, root: Path) -> None:
        self.root = root
        build = root / "build" / "release"
        programs = [str(build / "bin"), str(root / "build" / "venv" / "bin"), os.environ["PATH"]]
        self._environment = {
            **os.environ,
            "PATH": os.pathsep.join(programs),
            "FLOCKSTEP_BUILD": str(build),
            "CCACHE_BASEDIR": str(root),
            "CCACHE_NOHASHDIR": "1",
            "CCACHE_SLOPPINESS": "pch_defines,time_macros,include_file_mtime,include_file_ctime",
        }

    # A file that changes gets the time of now, which is how ninja notices.
    def refresh(self) -> None:
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        output = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        names = {name for name in output.split("\0") if (ROOT / name).is_file()}
        for name in names:
            source, target = ROOT / name, self.root / name
            if not target.exists() or not filecmp.cmp(source, target, shallow=False):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)
        venv = self.root / "build" / "venv"
        venv.parent.mkdir(exist_ok=True)
        if not venv.exists():
            venv.symlink_to((ROOT / "build" / "venv").resolve())

    def build(self, targets: set[str], shown: bool = False) -> bool:
        command = ["cmake", "--build", "--preset", "release", "--target", *sorted(targets)]
        out = None if shown else subprocess.DEVNULL
        return subprocess.run(command, cwd=self.root, env=self._environment, stdout=out).returncode == 0

    def configure(self) -> None:
        command = ["cmake", "--preset", "release"]
        subprocess.run(command, cwd=self.root, env=self._environment, stdout=subprocess.DEVNULL, check=True)

    def failure_of(self, test: str) -> str:
        """The first test that failed; nothing if all passed."""
        with subprocess.Popen(
            shlex.split(test),
            cwd=self.root,
            env=self._environment,
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process:
            try:
                output, _ = process.communicate(timeout=HANG_S)
            except subprocess.TimeoutExpired:
                return f"no end within {HANG_S} s"
            finally:  # with the workers that it may have started
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        if process.returncode == 0:
            return ""
        plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
        failed = re.findall(r"^(?:\[  FAILED  \]|FAILED|ERROR) ([^\s,]+)", plain, re.MULTILINE)
        begun = re.findall(r"^\[ RUN      \] (\S+)", plain, re.MULTILINE)
        return failed[0] if failed else f"exit code {process.returncode}{' in ' + begun[-1] if begun else ''}"


def sabotages() -> list[Sabotage]:
    listed = tomllib.loads(Path(__file__).with_name("sabotages.toml").read_text())
    return [Sabotage(**each) for each in listed["sabotage"]]


def result_of(sabotage: Sabotage, copy: Copy) -> tuple[bool, str]:
    """Whether it was caught, and by what."""
    file = copy.root / sabotage.file
    honest = file.read_text()
    if honest.count(sabotage.old) != 1:
        return False, f"NOT APPLIED: its text occurs {honest.count(sabotage.old)} times"
    file.write_text(honest.replace(sabotage.old, sabotage.new))
    try:
        if not copy.build({sabotage.target}):
            return False, "NOT BUILT"
        failure = copy.failure_of(sabotage.test)
        return bool(failure), failure or "ESCAPED"
    finally:
        file.write_text(honest)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="tell the faults and end")
    parser.add_argument("--only", metavar="ID", action="append", help="one fault; may be given several times")
    parser.add_argument("--build", metavar="DIR", type=Path, default=ROOT / "build", help="has the copy, DIR/sabotaged")
    given = parser.parse_args()
    chosen = [each for each in sabotages() if not given.only or each.id in given.only]
    if len(chosen) < len(given.only or []):
        parser.error("--only names a fault that is not in the list: see --list")
    if given.list:
        for each in chosen:
            print(f"{each.id:24} {each.layer:11} {each.fault}")
        return 0

    copy = Copy(given.build.resolve() / "sabotaged")
    copy.refresh()
    copy.configure()
    if not copy.build({each.target for each in chosen}, shown=True):
        return 1
    for test in dict.fromkeys(each.test for each in chosen):
        if failure := copy.failure_of(test):
            print(f"without a fault, too, {failure} fails: {test}")
            return 1
        print(f"passes without a fault: {test}", flush=True)
    escaped = 0
    print(f"{'id':24} {'layer':11} {'seconds':>7}  caught by", flush=True)
    for each in chosen:
        begin = time.monotonic()
        caught, by = result_of(each, copy)
        escaped += not caught
        print(f"{each.id:24} {each.layer:11} {time.monotonic() - begin:7.0f}  {by}", flush=True)
    print(f"{len(chosen) - escaped} of {len(chosen)} caught")
    return 1 if escaped else 0


if __name__ == "__main__":
    sys.exit(main())
