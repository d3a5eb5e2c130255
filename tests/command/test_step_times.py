"""How long steps pretend to take: three forms of --compute, files of step times, and what the table says of them."""

import pytest
from conftest import refused, run, run_json

SIM = ["train", "--engine", "sim", "--workers", 4, "--steps", 12]


def test_steps_draw_from_a_file(tmp_path, without_pictures):
    times = tmp_path / "times.txt"
    times.write_text("# seconds\n0.1\n0.3\n")
    drawn = ["--compute", f"file:{times}"]
    result = run_json(*SIM, *drawn)
    # In lockstep a step takes as long as the longest of four draws: mostly 0.3 s, and nearly never all 0.1 s.
    assert 12 * 0.25 < result["time_s"] < 12 * 0.3 + 0.05
    assert sum(result["step_times"]["counts"]) == 48
    assert result["pace"]["compute_s"] == pytest.approx(0.2)
    assert result["pace"]["compute_file"]["durations"] == 2
    assert run_json(*SIM, *drawn)["time_s"] == result["time_s"]
    assert run_json(*SIM, *drawn, "--seed", 2)["time_s"] != result["time_s"]
    # A comparison hands the file on to its children, and knows one that was changed.
    compare = ["compare", *SIM[1:], "--algorithms", "mean,sgp", *drawn, "--out", tmp_path / "out"]
    assert run(*compare).returncode == 0
    times.write_text("0.1\n0.4\n")
    refused(*compare, names="compute_file")


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
