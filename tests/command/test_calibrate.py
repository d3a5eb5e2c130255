"""`flockstep calibrate`: a machine in figures, as a platform file, and how far its simulation is from it."""

import json

import pytest
from conftest import run, run_json

QUICK = ["--megabytes", 4, "--rounds", 3]


def test_a_simulated_star_is_measured_as_what_it_is(needs):
    needs("sim")
    measured = run_json("calibrate", "--engine", "sim", "--workers", 3, *QUICK)
    assert measured["workers"] == 3
    assert measured["latency_s"] == pytest.approx(20e-6, rel=0.02)  # two links of 10 us
    for rate in ["one_way", "both_ways", "all_at_once", "asleep"]:
        assert measured[rate] == pytest.approx(1.25e9, rel=0.05)  # 10 Gbit/s each way
    for rate in ["sums", "sum_alone", "copies"]:
        assert measured[rate] == pytest.approx(10e9, rel=0.01)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A calibration of this machine's threads: the figures, and the folder with its two files."""
    folder = tmp_path_factory.mktemp("calibration")
    cases = ["--algorithms", "mean,wagma", "--floats", "1000,50000", "--compute-ms", "2,4"]
    files = ["--out", folder / "machine.xml", "--steps", folder / "steps.json"]
    return run_json("calibrate", "--engine", "threads", "--workers", 3, *QUICK, *cases, *files), folder


def test_the_file_gives_back_what_was_measured(needs, written):
    needs("sim")
    measured, folder = written
    back = run_json("calibrate", "--engine", "sim", "--workers", 3, "--platform", folder / "machine.xml", *QUICK)
    assert back["latency_s"] == pytest.approx(measured["latency_s"], rel=0.05, abs=1e-7)
    assert back["both_ways"] == pytest.approx(measured["both_ways"], rel=0.1)
    assert back["all_at_once"] < 1.1 * measured["all_at_once"] / 0.97
    assert back["sums"] == pytest.approx(min(measured["sums"], measured["copies"]), rel=0.1)


def test_step_times_are_compared_with_those_of_a_simulation(needs, written):
    needs("sim")
    _, folder = written
    steps = json.loads((folder / "steps.json").read_text())["step_times"]
    call = ["calibrate", "--against", folder / "steps.json", "--platform", folder / "machine.xml"]
    compared = run_json(*call)
    assert compared["workers"] == 3
    assert [cell["algorithm"] for cell in compared["step_times"]] == ["mean"] * 4 + ["wagma"] * 4
    for cell, step in zip(compared["step_times"], steps, strict=True):
        assert cell["measured_s"] == step["step_s"]
        assert cell["error"] == pytest.approx(cell["simulated_s"] / cell["measured_s"] - 1)
        assert cell["compute_ms"] <= 1e3 * cell["simulated_s"] < cell["compute_ms"] + 1
    assert compared["largest_error"] == max(abs(cell["error"]) for cell in compared["step_times"])
    table = run(*call).stdout.splitlines()
    assert table[0].startswith("3 workers, measured on threads")
    assert len(table) == 3 + 8 + 1
    assert table[-1] == f"largest error {100 * compared['largest_error']:.1f}%"


def test_it_measures_under_mpirun(needs, tmp_path):
    needs("mpi")
    done = run("calibrate", "--engine", "mpi", *QUICK, "--out", tmp_path / "machine.xml", workers=2)
    assert done.returncode == 0, done.stderr
    assert "2 workers on mpi" in done.stdout
    assert done.stdout.count("written to") == 1
    assert "worker1" in (tmp_path / "machine.xml").read_text()


def test_wrong_calls_get_one_sentence(needs, tmp_path):
    (tmp_path / "steps.json").write_text("{}")
    for call, sentence in [
        (["--engine", "threads", "--workers", 1], "at least two workers"),
        (["--against", tmp_path / "steps.json"], "with --platform"),
        (["--against", tmp_path / "none.json", "--platform", "star"], "none.json"),
        (["--against", tmp_path / "steps.json", "--platform", "star"], "holds no step times"),
        (["--steps", tmp_path / "new.json", "--algorithms", "meen"], "mean"),
        (["--steps", tmp_path / "new.json", "--floats", "many"], "--floats"),
    ]:
        done = run("calibrate", *call)
        assert done.returncode in (1, 2)
        assert sentence in done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert not (tmp_path / "new.json").exists()
