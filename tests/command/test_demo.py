"""The call of `make demo`, shortened: what people see first."""

import shlex
import subprocess

from conftest import run
from paths import HANG_S, ROOT


def demo_call():
    """The arguments of the command in the recipe, without --out."""
    recipe = subprocess.run(
        ["make", "-n", "demo"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=HANG_S
    )
    (line,) = (line for line in recipe.stdout.splitlines() if "flockstep compare" in line)
    words = shlex.split(line.partition("$(")[0])  # what the shell would have to fill in ends the value of --out
    assert words[-2] == "--out"
    return words[1:-2]


def test_the_demo_ends_with_a_table_a_verdict_and_a_report(torch, tmp_path):
    call, out = demo_call(), tmp_path / "demo"
    done = run(*call, "--steps", 20, "--evaluate-every", 10, "--seeds", 1, "--out", out)
    assert done.returncode == 0, done.stderr
    algorithms = call[call.index("--algorithms") + 1].split(",")
    lines = done.stdout.splitlines()
    rows = [line.split()[0] for line in lines if line.split()[:1] and line.split()[0] in algorithms]
    assert rows[: len(algorithms)] == algorithms
    assert sum("ended with the best accuracy" in line for line in lines) == 1
    assert lines[-1] == f"The report is {out / 'report.html'}."
    assert (out / "report.html").stat().st_size > 10_000
