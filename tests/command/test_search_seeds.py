"""Searches in which only the first seeds try all values."""

import json

import pytest
from conftest import run, run_json

pytestmark = pytest.mark.usefixtures("without_pictures")
RATES = ["--lr", "0.01,0.1,0.3", "--seeds", "3", "--search-seeds", "1"]
CALL = ["compare", "--task", "images", "--algorithms", "mean,local_sgd", "--workers", "2", "--steps", "20", *RATES]


def test_the_best_value_gets_the_other_seeds(tmp_path, monkeypatch):
    result = run_json(*CALL, "--out", tmp_path)
    expected = set()
    for row in result["cases"][0]["rows"]:
        best = max(row["tried"], key=lambda tried: tried["validation"]["mean"])["value"]
        assert row["searched"]["value"] == best
        assert (row["searched"]["name"], row["searched"]["by"]) == ("images.learning_rate", "validation")
        assert row["searched"]["seeds"] == 1
        assert row["runs"] == 3
        name = row["algorithm"]
        expected |= {f"{name}-seed-1-{rate}" for rate in ("0.01", "0.1", "0.3")}
        expected |= {f"{name}-seed-{seed}-{best}" for seed in (2, 3)}
    assert {path.parent.name for path in tmp_path.glob("runs/*/summary.json")} == expected
    again = run(*CALL, "--out", tmp_path)
    assert again.stderr == "flockstep: 10 of 10 runs were already done\n"
    sentence = "validation split, which the table does not use; it was chosen with the first of 3 seeds."
    assert sentence in again.stdout
    monkeypatch.delenv("FLOCKSTEP_PYTHON")
    assert sentence in run("report", tmp_path, "--text").stdout


def test_one_learning_rate_is_no_search():
    result = run_json("compare", "--task", "images", "--algorithms", "mean", "--steps", 2, "--lr", "0.1")
    assert result["how"]["task_settings"]["learning_rate"] == "0.1"
    assert "searched" not in result["cases"][0]["rows"][0]


@pytest.mark.thorough
def test_processes_choose_the_same_value(tmp_path):
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
