"""The studies that are comparisons: short real runs to their tables and pages, scenario by scenario, and wrong calls."""

import json
import sys

import pytest
from conftest import run
from paths import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
from linear_reference import final_losses

pytestmark = pytest.mark.thorough


def quick(name, out, *more):
    done = run("study", name, "--quick", "--steps", 4, "--algorithms", "mean,flock", "--markdown", "--out", out, *more)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize(
    ("name", "scenario", "title"),
    [
        ("disagreement", "classes", "| algorithm | each worker its own classes |\n| --- | --- |\n| mean | 0."),
        ("waiting", "images-16", "| algorithm | accuracy | of ideal | fresh |\n| --- | --- | --- | --- |\n| mean | 0."),
    ],
)
def test_a_scenario_ends_with_its_table_page_and_picture(needs, tmp_path, name, scenario, title):
    needs("sim")
    assert title in quick(name, tmp_path, "--scenario", scenario).stdout
    (picture,) = tmp_path.glob("*.svg")
    assert "<svg" in picture.read_text()
    assert name in (tmp_path / "report.html").read_text()
    assert (tmp_path / scenario / "compare.json").exists()


def test_scenarios_are_made_one_by_one_and_shown_together(torch, needs, tmp_path):
    needs("sim")
    first = quick("recommendation", tmp_path, "--scenario", "late")
    again = quick("recommendation", tmp_path, "--scenario", "late")
    assert again.stderr == "flockstep: 2 runs were already done\n"
    assert again.stdout == first.stdout
    assert "| algorithm | throughput / mean | waiting | fresh | AUC | mean at that time | rate |" in first.stdout
    assert "flock against mean, all alike, 1 late: " in first.stdout
    both = quick("recommendation", tmp_path, "--scenario", "minus-five")
    assert "| algorithm | all alike, 1 late | 1 worker sends -5 g |" in both.stdout
    study = json.loads((tmp_path / "study.json").read_text())
    assert [table["name"] for table in study["tables"]] == ["scenarios", "late"]
    assert list(study["how"]) == ["late", "minus-five"]


@pytest.mark.parametrize(
    ("algorithm", "reference"),
    [("mean", {"beta": None}), ("adacons:permutation=published", {"beta": 0.99, "published": True})],
)
def test_the_regression_of_the_paper_ends_where_the_reference_does(tmp_path, algorithm, reference):
    """Seeds spread over orders of magnitude, so ranges have to overlap."""
    done = run("study", "linear", "--scenario", "8-128", "--algorithms", algorithm, "--json")
    assert done.returncode == 0, done.stderr
    quality = json.loads(done.stdout)["tables"][0]["figures"][0]["quality"]
    expected = final_losses(workers=8, batch=128, seeds=5, **reference)
    assert quality["min"] <= max(expected)
    assert quality["max"] >= min(expected)
