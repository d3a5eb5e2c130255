"""What `train` prints of a run."""

import pytest
from conftest import run, run_json


def test_the_table_tells_how_long_steps_computed():
    call = ["train", "--workers", 4, "--steps", 20, "--deterministic", "--compute-ms", 10, "--straggler", "1x40ms"]
    times = run_json(*call)["step_times"]
    assert sum(times["counts"]) == 80
    assert times["median_s"] == pytest.approx(0.01, rel=0.06)
    assert times["p90_s"] == pytest.approx(0.05, rel=0.06)
    line = next(line for line in run(*call).stdout.splitlines() if line.startswith("step times"))
    median, p90 = (f"{1000 * times[name]:.3g}" for name in ("median_s", "p90_s"))
    assert f"median {median} ms, 90th percentile {p90} ms, 99th 50 ms, longest 50 ms; waiting left out" in line


def test_further_figures_are_in_the_table(torch):
    call = ["train", "--task", "recommendation", "--workers", 2, "--steps", 2]
    figures = run_json(*call)["figures"]
    assert figures
    lines = run(*call).stdout.splitlines()
    for name, value in figures.items():
        (line,) = [line for line in lines if line.startswith(name)]
        assert line.split()[-1] == f"{value:.6g}"
