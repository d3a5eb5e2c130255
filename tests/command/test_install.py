"""`cmake --install`, and a project outside the tree that finds the package and uses the library."""

import os
import subprocess
import sys

from conftest import BUILD, ROOT


def test_the_installed_package_builds_and_runs_the_consumer(tmp_path):
    prefix, build = tmp_path / "prefix", tmp_path / "consumer"

    def check(*command, **keywords):
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300, **keywords)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    check("cmake", "--install", BUILD, "--prefix", prefix)
    assert check(prefix / "bin" / "flockstep", "--version").startswith("flockstep ")
    source = ROOT / "examples" / "cmake_consumer"
    check("cmake", "-S", source, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}")
    check("cmake", "--build", build)
    assert "4 workers agree" in check(build / "consumer")
    # The report comes along, with a Python that the user names.
    out = tmp_path / "run"
    check(prefix / "bin" / "flockstep", "train", "--steps", "5", "--out", out)
    named = {**os.environ, "FLOCKSTEP_PYTHON": sys.executable}
    assert check(prefix / "bin" / "flockstep", "report", out, env=named) == f"{out / 'report.html'}\n"
