"""Searches in which only the first seeds try all values."""

import json
import signal
import subprocess
import time

import pytest
from conftest import COMMAND, run, run_json
from paths import HANG_S

pytestmark = pytest.mark.usefixtures("without_pictures")
RATES = ["--lr", "0.01,0.1,0.3", "--seeds", "3", "--search-seeds", "1"]
CALL = ["compare", "--task", "images", "--algorithms", "mean,local_sgd", "--workers", "2", "--steps", "20", *RATES]
VIRTUAL = [*CALL, "--deterministic", "--compute-ms", "10"]  # a clock that gives the same each time


def runs_of(out):
    return {path.parent.name for path in out.glob("runs/*/summary.json")}


def test_the_best_value_gets_the_other_seeds(tmp_path, monkeypatch):
    result = run_json(*CALL, "--out", tmp_path)
    expected = set()
    for row in result["cases"][0]["rows"]:
        best = max(row["tried"], key=lambda tried: tried["validation"]["mean"])["value"]
        assert row["searched"]["value"] == best
        assert row["searched"]["seeds"] == 1
        assert row["runs"] == 3
        name = row["algorithm"]
        expected |= {f"{name}-seed-1-{rate}" for rate in ("0.01", "0.1", "0.3")}
        expected |= {f"{name}-seed-{seed}-{best}" for seed in (2, 3)}
    assert runs_of(tmp_path) == expected
    again = run(*CALL, "--out", tmp_path)
    assert again.stderr == "flockstep: 10 of 10 runs were already done\n"
    sentence = "validation split, which the table does not use; it was chosen with the first of 3 seeds."
    assert sentence in again.stdout
    monkeypatch.delenv("FLOCKSTEP_PYTHON")
    assert sentence in run("report", tmp_path, "--text").stdout


@pytest.mark.thorough
def test_several_at_a_time_interrupted_and_called_again_give_the_same_file(tmp_path):
    run_json(*VIRTUAL, "--out", tmp_path / "whole")
    whole = (tmp_path / "whole" / "compare.json").read_bytes()
    for attempt in range(20):  # on a busy machine all runs may have ended before the signal comes
        out = tmp_path / f"interrupted-{attempt}"
        process = subprocess.Popen([COMMAND, *VIRTUAL, "--jobs", "2", "--out", str(out)], stderr=subprocess.PIPE)
        deadline = time.monotonic() + HANG_S
        while len(runs_of(out)) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=HANG_S)
        if len(runs_of(out)) < 10:
            break
    assert len(runs_of(out)) < 10
    again = run(*VIRTUAL, "--jobs", 2, "--out", out)
    assert again.returncode == 0, again.stderr
    assert "of 10 runs were already done" in again.stderr
    assert (out / "compare.json").read_bytes() == whole


@pytest.mark.thorough
def test_runs_of_a_search_with_all_seeds_do_not_count(tmp_path):
    run_json(*VIRTUAL, "--search-seeds", 3, "--out", tmp_path / "all")
    run_json(*VIRTUAL, "--out", tmp_path / "two_stages")
    again = run(*VIRTUAL, "--out", tmp_path / "all")
    assert again.stderr == "flockstep: 10 of 10 runs were already done\n"
    first, second = ((tmp_path / name / "compare.json").read_bytes() for name in ("all", "two_stages"))
    assert first == second


@pytest.mark.thorough
def test_processes_choose_the_same_value(needs, tmp_path):
    needs("mpi")
    call = [*CALL, "--out", tmp_path]
    first = run_json(*call, workers=2)
    chosen = {row["algorithm"]: row["searched"]["value"] for row in first["cases"][0]["rows"]}
    for name, value in chosen.items():
        (tmp_path / "runs" / f"{name}-seed-3-{value}" / "summary.json").unlink()
    again = run(*call, "--json", workers=2)
    assert again.returncode == 0, again.stderr
    assert again.stderr.count("8 of 10 runs were already done") == 1
    rows = json.loads(again.stdout)["cases"][0]["rows"]
    assert {row["algorithm"]: (row["searched"]["value"], row["runs"]) for row in rows} == {
        name: (value, 3) for name, value in chosen.items()
    }
