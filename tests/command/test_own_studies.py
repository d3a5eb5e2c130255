"""Our own studies, quickly: their tables and pictures, against what is known of uneven steps, and wrong calls."""

import json

import numpy as np
import pytest
from conftest import run

pytestmark = pytest.mark.thorough

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
