"""`flockstep study`: quick studies that are called again, their tables, pages and pictures, and what is known of their figures."""

import json
import sys

import numpy as np
import pytest
from conftest import refused, run
from paths import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
from linear_reference import final_losses

pytestmark = pytest.mark.thorough

QUICK = ["study", "wagma-scale", "--quick", "--steps", 4]


@pytest.fixture(scope="module")
def made(needs, tmp_path_factory):
    needs("sim")
    out = tmp_path_factory.mktemp("study")
    done = run(*QUICK, "--out", out)
    assert done.returncode == 0, done.stderr
    return out, done


def test_a_study_prints_a_table_for_each_that_was_published_and_their_median_error(made):
    out, done = made
    for title in ("ResNet-50", "Transformer", "Reinforcement learning"):
        assert title in done.stdout
    assert "Median error of the 21 cells that nothing was fitted to" in done.stdout
    assert done.stderr == ""
    study = json.loads((out / "study.json").read_text())
    errors = sorted(
        abs(cell["simulated"] / cell["published"] - 1)
        for table in study["tables"]
        for cell in table["figures"]
        if not cell["fitted"]
        and not any(other in cell["row"] for other in ("models whole", "our all-reduce", "1 neighbour"))
    )
    assert len(errors) == 21
    assert study["words"][0].endswith(f"{100 * errors[10]:.1f}%.")


def test_the_same_call_again_makes_no_run_twice(made):
    out, first = made
    stamps = {path: path.stat().st_mtime_ns for path in out.glob("cells/*.json")}
    again = run(*QUICK, "--out", out)
    assert again.stdout == first.stdout
    assert "runs were already done" in again.stderr
    assert {path: path.stat().st_mtime_ns for path in out.glob("cells/*.json")} == stamps


def test_a_study_is_not_written_over_by_another(made):
    out, _ = made
    before = (out / "study.json").read_text()
    call = ["study", "groups", "--quick", "--steps", 2, "--out", out]
    refused(*call, names=f"{out} holds the study wagma-scale: choose another --out")
    assert (out / "study.json").read_text() == before


def test_a_file_that_is_no_study_is_not_written_over(tmp_path):
    (tmp_path / "study.json").write_text("[]")
    names = f"{tmp_path} holds a study.json that cannot be read: choose another --out"
    refused(*QUICK, "--out", tmp_path, names=names)


def test_a_table_has_a_picture_in_the_page_and_as_a_file(made):
    out, _ = made
    page = (out / "report.html").read_text()
    assert page.count('<svg class="plot"') == 3
    for name in ("resnet", "transformer", "rl"):
        assert "<svg" in (out / f"{name}.svg").read_text()
    assert "ResNet-50" in run("report", out, "--text").stdout


def test_without_python_a_study_says_so_in_one_sentence(made, monkeypatch):
    out, first = made
    monkeypatch.setenv("FLOCKSTEP_PYTHON", "/nowhere/python")
    done = run(*QUICK, "--out", out)
    assert done.returncode == 0
    assert "flockstep: no pictures: the report needs Python with matplotlib" in done.stderr
    assert done.stdout.splitlines() == first.stdout.splitlines()[:-1]


def test_a_damaged_study_is_told_in_one_sentence(made, tmp_path):
    text = (made[0] / "study.json").read_text()
    for broken, what in (
        (text[:-5], "study.json is damaged"),
        (text.replace('"words"', '"works"'), "missing required field `words`"),
    ):
        (tmp_path / "study.json").write_text(broken)
        refused("report", tmp_path, names=what, code=1)


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


TABLES = {
    "flock-scale": ["share"],
    "flock-quality": ["quality-8"],
    "activation": ["policies", "quality"],
    "groups": ["group_size", "period", "group_size-quality", "period-quality"],
    "overlap": ["ethernet-10g"],
    "adacons-cost": ["aries", "ethernet-10g"],
}


@pytest.fixture(scope="module")
def studies(needs, tmp_path_factory):
    """A folder for each."""
    needs("sim")
    folders = {}
    for name in TABLES:
        folders[name] = tmp_path_factory.mktemp(name)
        done = run("study", name, "--quick", "--out", folders[name])
        assert (done.returncode, done.stderr) == (0, "")
    return folders


def figures_of(folder, table=0):
    return json.loads((folder / "study.json").read_text())["tables"][table]["figures"]


@pytest.mark.parametrize("name", TABLES)
def test_a_study_has_a_picture_for_each_of_its_tables(studies, name):
    study = json.loads((studies[name] / "study.json").read_text())
    assert [table["name"] for table in study["tables"]] == TABLES[name]
    for table in TABLES[name]:
        assert "<svg" in (studies[name] / f"{table}.svg").read_text()
    assert name in (studies[name] / "report.html").read_text()


def test_in_lockstep_everybody_waits_for_the_slowest(studies):
    sigma = 0.53
    steps = np.random.default_rng(1).lognormal(-sigma * sigma / 2, sigma, (20000, 16))
    for cell in figures_of(studies["flock-scale"]):
        if cell["name"] != "mean":
            continue
        expected = 1 / steps[:, : cell["workers"]].max(axis=1).mean()
        assert cell["share_of_ideal"] == pytest.approx(expected, rel=0.15)


def test_who_does_not_wait_computes_more_of_the_time_and_is_less_fresh(studies):
    shares = {cell["name"]: cell for cell in figures_of(studies["flock-scale"]) if cell["workers"] == 16}
    flock = shares["flock, first, tau 8"]
    assert shares["mean"]["share_of_ideal"] < shares["wagma, tau 8"]["share_of_ideal"] < flock["share_of_ideal"] < 1
    assert flock["fresh_fraction"] < shares["flock, majority, tau 8"]["fresh_fraction"]
    assert flock["staleness"] < 8


def test_equal_time_is_equal_time(studies):
    mean, *others = figures_of(studies["flock-quality"])
    for cell in others:
        assert cell["steps"] > mean["steps"]
        assert cell["time_s"] == pytest.approx(mean["time_s"], rel=0.15)
        assert cell["quality"] > 0.3


def test_who_overlaps_takes_shorter_steps_and_more_of_them_in_equal_time(studies):
    cells = {(cell["name"], cell["shard"], cell["equal"]): cell for cell in figures_of(studies["overlap"])}
    flock = cells["flock", "iid", "time"]
    for name in ["flock", "local_sgd, H = 2", "local_sgd, H = 8"]:
        for shard in ["iid", "skewed"]:
            waits, overlaps = (cells[each, shard, "time"] for each in [name, f"{name}, overlap"])
            assert 1 <= overlaps["step_over_compute"] < waits["step_over_compute"]
            assert overlaps["steps"] > waits["steps"]
            assert overlaps["time_s"] == pytest.approx(flock["time_s"], rel=0.15)


def test_adacons_costs_about_as_much_as_mean_and_never_less(studies):
    for cell in figures_of(studies["adacons-cost"]):
        assert 0.999 <= cell["over_mean"] < 1.5
