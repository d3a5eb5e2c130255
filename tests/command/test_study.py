"""`flockstep study`: the listing, a quick study that is called again, its page and pictures, and wrong calls."""

import json

import pytest
from conftest import refused, run, run_json

pytestmark = pytest.mark.thorough

QUICK = ["study", "wagma-scale", "--quick", "--steps", 4]


@pytest.fixture(scope="module")
def made(needs, tmp_path_factory):
    needs("sim")
    out = tmp_path_factory.mktemp("study")
    done = run(*QUICK, "--out", out)
    assert done.returncode == 0, done.stderr
    return out, done


def test_without_a_name_the_studies_are_listed():
    assert "wagma-scale" in run("study").stdout
    assert "wagma-scale" in [study["name"] for study in run_json("study")]


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
