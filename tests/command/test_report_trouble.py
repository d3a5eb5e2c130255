"""`flockstep report` of what is damaged, missing or odd: the page that is left, or one sentence."""

import errno
import os
import re
import shutil
from pathlib import Path

import pytest
from conftest import refused, run
from drawn_report import COMPARISON, compared, edited, report, report_by_command, words_of
from flockstep.report import pages
from flockstep.report.__main__ import main as draw
from sample_run import DAMAGED_COMPARISONS, DAMAGED_RUNS, blown_up, meeting_rows, page_of, write_sample_run


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    """The folder of a small comparison without its page."""
    return compared(tmp_path_factory.mktemp("comparison") / "out")


@pytest.fixture
def out(tmp_path, comparison):
    """A copy of it, to be damaged."""
    return shutil.copytree(comparison, tmp_path / "comparison")


@pytest.fixture
def one(tmp_path):
    """The folder of a run."""
    write_sample_run(tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.thorough
def test_a_killed_run_is_drawn_from_what_it_left(one):
    (one / "summary.json").unlink()
    with (one / "metrics.jsonl").open("a") as metrics:
        metrics.write('{"kind":"step","st')
    page = report(one)
    assert "has not ended" in page.text
    assert "Worker 2 points against the others" in page.text


@pytest.mark.thorough
def test_numbers_that_are_none_are_said_and_survived(one):
    with edited(one / "summary.json") as summary:
        summary.update(quality=None, findings=[])
    metrics = one / "metrics.jsonl"
    metrics.write_text(re.sub(r'"(quality|loss)": [0-9.e-]+', r'"\1": null', metrics.read_text()))
    assert "The run diverged" in report(one).text


def test_names_cannot_break_the_page(one):
    with edited(one / "summary.json") as summary:
        summary["algorithm"] = "<script src=http://elsewhere>"
    assert "<script src=http://elsewhere> on linear" in report(one).text


def test_names_in_pictures_may_be_anything(out):
    odd = ']]>&amp;"$x^$</svg>'
    with edited(out / "compare.json") as saved:
        (case,) = saved["cases"]
        case["rows"][0]["algorithm"] = case["table"]["rows"][0][0] = odd + "\u0001"
    page = report(out)
    assert odd in page.text
    assert any(name.startswith(odd) for name in page.series_of("against steps"))


def is_refused(folder, sentence, capsys):
    """Checks for one sentence and no page; within this process, since there are many ways to be damaged."""
    assert draw([str(folder)]) == 1
    said = capsys.readouterr().err
    assert sentence in said
    assert said.startswith(f"flockstep: {folder}/")
    assert " is damaged: " in said
    assert said.count("\n") == 1
    assert not (folder / "report.html").exists()


@pytest.mark.parametrize(("name", "damage", "sentence"), DAMAGED_RUNS, ids=[case[2] for case in DAMAGED_RUNS])
def test_a_damaged_run_is_told(one, capsys, name, damage, sentence):
    (one / name).write_text(damage((one / name).read_text()))
    is_refused(one, sentence, capsys)


def test_damage_is_one_sentence_from_the_command_too(one):
    (one / "summary.json").write_text("[]")
    refused("report", one, names=f"{one}/summary.json is damaged: expected `object`, got `array`", code=1)


@pytest.mark.parametrize(("damage", "sentence"), DAMAGED_COMPARISONS, ids=[case[1] for case in DAMAGED_COMPARISONS])
def test_a_damaged_comparison_is_told(out, capsys, damage, sentence):
    (out / "compare.json").write_text(damage((out / "compare.json").read_text()))
    is_refused(out, sentence, capsys)


@pytest.mark.thorough
@pytest.mark.parametrize("huge", ["1e308", "-1e308"])
def test_numbers_that_no_axis_can_hold_are_survived_in_silence(tmp_path, out, huge):
    (out / "compare.json").write_text(meeting_rows((out / "compare.json").read_text()))
    one = tmp_path / "run"
    write_sample_run(one, meet=True)
    changed = [out / "compare.json", *out.glob("runs/*/metrics.jsonl"), one / "summary.json", one / "metrics.jsonl"]
    for path in changed:
        path.write_text(blown_up(path.read_text(), huge))
    for folder in (out, one):
        (report_by_command if huge == "1e308" else report)(folder)  # silence is that of a process


@pytest.mark.thorough
def test_a_comparison_that_lost_a_run_keeps_its_row_and_its_curve(out):
    shutil.rmtree(out / "runs" / "mean-seed-1")
    page = report(out)
    assert "runs/mean-seed-1 has no summary.json any more: pictures lack what it told." in page.text
    assert re.search(r"\bmean [0-9.]+ [0-9]+ ", page.text), "its row"
    assert any(re.search(r"ends with \(mean .*, adacons .*against time", picture) for picture in page.pictures)
    assert [picture for picture in page.pictures if "Timeline" in picture and "mean: " in picture] == []


def test_a_comparison_from_before_it_kept_its_tables_says_what_to_do(out):
    with edited(out / "compare.json") as saved:
        del saved["cases"][0]["table"]
    refused("report", out, names=f"call `flockstep compare` again as then, with --out {out}", code=1)
    again = run("compare", *COMPARISON, "--out", out)
    assert "2 of 2 runs were already done" in again.stderr
    assert page_of(out).pictures


def test_a_run_whose_metrics_break_off_says_where(one):
    metrics = one / "metrics.jsonl"
    lines = metrics.read_text().splitlines(keepends=True)
    kept = next(place for place, line in enumerate(lines) if '"step": 60,' in line) + 1
    metrics.write_text("".join(lines[:kept]) + lines[kept][:20])
    assert "metrics.jsonl ends after step 60 of 100: pictures lack the steps after it." in words_of(one)
    (one / "summary.json").unlink()
    breaks = "metrics.jsonl breaks off within a line after step 60: pictures lack what came after it."
    assert breaks in words_of(one)


def refuse_to_write(*_arguments, **_keywords):
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


@pytest.mark.parametrize("in_the_way", ["where the page goes", "where libraries draw"])
def test_a_read_only_file_system_is_one_sentence(one, monkeypatch, capsys, in_the_way):
    if in_the_way == "where the page goes":
        for name in ("write_text", "unlink", "replace"):
            monkeypatch.setattr(Path, name, refuse_to_write)
        sentence = f"cannot write {one / 'report.html'}: Read-only file system"
    else:
        monkeypatch.setattr(pages, "page_of", refuse_to_write)
        sentence = f"cannot draw {one}: [Errno 30] Read-only file system"
    assert draw([str(one)]) == 1
    assert capsys.readouterr().err == f"flockstep: {sentence}\n"


def test_without_python_or_a_package_one_sentence_says_how_to_get_it(tmp_path, one):
    environment = {**os.environ, "FLOCKSTEP_PYTHON": "/nowhere/python"}
    refused("report", one, env=environment, names="cannot start /nowhere/python", code=1)
    without = tmp_path / "python"
    without.write_text('#!/bin/sh\nexec python3 -S "$@"\n')  # -S: without the packages of any environment
    without.chmod(0o755)
    environment["FLOCKSTEP_PYTHON"] = str(without)
    how = "-m pip install matplotlib jinja2 msgspec`"
    assert re.search("the report needs (numpy|matplotlib)", refused("report", one, env=environment, names=how, code=1))
    # A comparison goes on without its pictures.
    done = run("compare", "--steps", 5, "--out", tmp_path / "comparison", env=environment)
    assert done.returncode == 0
    assert "pip install matplotlib" in done.stderr
    assert "Metrics, traces and results are in" in done.stdout
    assert "The report is" not in done.stdout
