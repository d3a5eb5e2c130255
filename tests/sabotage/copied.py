"""A copy of the tree, in which a fault can stand for a while. The tree itself is never written to, but for the copy."""

import contextlib
import filecmp
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Copy:
    """The tree as it is now, with what git ignores left out. It stays, with what was built there, for the next call."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.commit = subprocess.run(
            ["git", "describe", "--always", "--dirty"], cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout.strip()
        self.release = root / "build" / "release"
        programs = [str(self.release / "bin"), str(root / "build" / "venv" / "bin"), os.environ["PATH"]]
        self.environment = {
            **os.environ,
            "PATH": os.pathsep.join(programs),
            "FLOCKSTEP_BUILD": str(self.release),
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

    def configure(self) -> None:
        command = ["cmake", "--preset", "release"]
        subprocess.run(command, cwd=self.root, env=self.environment, stdout=subprocess.DEVNULL, check=True)

    def build(self, targets: list[str], shown: bool = False) -> bool:
        command = ["cmake", "--build", "--preset", "release", "--parallel", str(os.cpu_count()), "--target", *targets]
        out = None if shown else subprocess.DEVNULL
        return subprocess.run(command, cwd=self.root, env=self.environment, stdout=out).returncode == 0

    @contextlib.contextmanager
    def changed(self, name: str, old: str, new: str) -> Iterator[None]:
        file = self.root / name
        honest = file.read_text()
        if honest.count(old) != 1:
            raise SystemExit(f"{name}: what a fault replaces occurs {honest.count(old)} times in it, not once: {old!r}")
        file.write_text(honest.replace(old, new))
        try:
            yield
        finally:
            file.write_text(honest)
