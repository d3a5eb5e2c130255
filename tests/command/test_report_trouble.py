"""`flockstep report` of what is damaged, missing or odd: the page that is left, or one sentence."""

import errno
import json
import os
import re
import shutil
from pathlib import Path

import pytest
from conftest import run
from drawn_report import COMPARISON, compared, report, report_by_command
from flockstep.report import pages
from flockstep.report.__main__ import main as draw
from sample_run import (
    DAMAGED_COMPARISONS,
    DAMAGED_RUNS,
    blown_up,
    meeting_rows,
    page_of,
    write_sample_run,
)


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    """The folder of a small comparison without its page."""
    return compared(tmp_path_factory.mktemp("comparison") / "out")


@pytest.mark.thorough
def test_a_killed_run_is_drawn_from_what_it_left(tmp_path):
    out = tmp_path / "run"
    write_sample_run(out)
    (out / "summary.json").unlink()
    metrics = out / "metrics.jsonl"
    metrics.write_text(metrics.read_text() + '{"kind":"step","st')
    page = report(out)
    assert "has not ended" in page.text
    assert "Worker 2 points against the others" in page.text


@pytest.mark.thorough
def test_numbers_that_are_none_are_said_and_survived(tmp_path):
    out = tmp_path / "run"
    summary = write_sample_run(out)
    summary.update(quality=None, findings=[])
    (out / "summary.json").write_text(json.dumps(summary))
    metrics = out / "metrics.jsonl"
    metrics.write_text(re.sub(r'"(quality|loss)": [0-9.e-]+', r'"\1": null', metrics.read_text()))
    assert "The run diverged" in report(out).text


def test_names_cannot_break_the_page(tmp_path):
    out = tmp_path / "run"
    summary = write_sample_run(out)
    summary["algorithm"] = "<script src=http://elsewhere>"
    (out / "summary.json").write_text(json.dumps(summary))
    assert "<script src=http://elsewhere> on linear" in report(out).text


def test_names_in_pictures_may_be_anything(tmp_path, comparison):
    out = shutil.copytree(comparison, tmp_path / "comparison")
    odd = ']]>&amp;"$x^$</svg>'
    saved = json.loads((out / "compare.json").read_text())
    (case,) = saved["cases"]
    case["rows"][0]["algorithm"] = case["table"]["rows"][0][0] = odd + "\u0001"
    (out / "compare.json").write_text(json.dumps(saved))
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
def test_a_damaged_run_is_told(tmp_path, capsys, name, damage, sentence):
    out = tmp_path / "run"
    write_sample_run(out)
    (out / name).write_text(damage((out / name).read_text()))
    is_refused(out, sentence, capsys)


def test_damage_is_one_sentence_from_the_command_too(tmp_path):
    out = tmp_path / "run"
    write_sample_run(out)
    (out / "summary.json").write_text("[]")
    done = run("report", out)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"flockstep: {out}/summary.json is damaged: expected `object`, got `array`\n"


@pytest.mark.parametrize(("damage", "sentence"), DAMAGED_COMPARISONS, ids=[case[1] for case in DAMAGED_COMPARISONS])
def test_a_damaged_comparison_is_told(tmp_path, capsys, comparison, damage, sentence):
    out = shutil.copytree(comparison, tmp_path / "comparison")
    (out / "compare.json").write_text(damage((out / "compare.json").read_text()))
    is_refused(out, sentence, capsys)


@pytest.mark.thorough
@pytest.mark.parametrize("huge", ["1e308", "-1e308"])
def test_numbers_that_no_axis_can_hold_are_survived_in_silence(tmp_path, comparison, huge):
    out = shutil.copytree(comparison, tmp_path / "comparison")
    (out / "compare.json").write_text(meeting_rows((out / "compare.json").read_text()))
    for path in (out / "compare.json", *out.glob("runs/*/metrics.jsonl")):
        path.write_text(blown_up(path.read_text(), huge))
    draw_it = report_by_command if huge == "1e308" else report  # silence is that of a process
    draw_it(out)
    out = tmp_path / "run"
    write_sample_run(out, meet=True)
    for path in (out / "summary.json", out / "metrics.jsonl"):
        path.write_text(blown_up(path.read_text(), huge))
    draw_it(out)


@pytest.mark.thorough
def test_a_comparison_that_lost_a_run_keeps_its_row_and_its_curve(tmp_path, comparison):
    out = shutil.copytree(comparison, tmp_path / "comparison")
    shutil.rmtree(out / "runs" / "mean-seed-1")
    page = report(out)
    assert "runs/mean-seed-1 has no summary.json any more: pictures lack what it told." in page.text
    assert re.search(r"\bmean [0-9.]+ [0-9]+ ", page.text), "its row"
    assert any(re.search(r"ends with \(mean .*, adacons .*against time", picture) for picture in page.pictures)
    assert [picture for picture in page.pictures if "Timeline" in picture and "mean: " in picture] == []


def test_a_comparison_from_before_it_kept_its_tables_says_what_to_do(tmp_path, comparison):
    out = shutil.copytree(comparison, tmp_path / "comparison")
    saved = json.loads((out / "compare.json").read_text())
    del saved["cases"][0]["table"]
    (out / "compare.json").write_text(json.dumps(saved))
    done = run("report", out)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert f"call `flockstep compare` again as then, with --out {out}" in done.stderr
    again = run("compare", *COMPARISON, "--out", out)
    assert "2 of 2 runs were already done" in again.stderr
    assert page_of(out).pictures


def test_a_run_whose_metrics_break_off_says_where(tmp_path):
    out = tmp_path / "run"
    write_sample_run(out)
    metrics = out / "metrics.jsonl"
    lines = metrics.read_text().splitlines(keepends=True)
    kept = next(place for place, line in enumerate(lines) if '"step": 60,' in line) + 1
    metrics.write_text("".join(lines[:kept]) + lines[kept][:20])
    ends = "metrics.jsonl ends after step 60 of 100: pictures lack the steps after it."
    assert ends in run("report", "--text", out).stdout
    (out / "summary.json").unlink()
    breaks = "metrics.jsonl breaks off within a line after step 60: pictures lack what came after it."
    assert breaks in run("report", "--text", out).stdout


def test_a_wrong_folder_is_a_wrong_call(tmp_path):
    for folder, sentence in ((tmp_path / "nowhere", "is not a folder"), (tmp_path, "holds neither a comparison")):
        done = run("report", folder)
        assert done.returncode == 2
        assert sentence in done.stderr
        assert done.stderr.count("\n") == 1


def refuse_to_write(*_arguments, **_keywords):
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


@pytest.mark.parametrize("in_the_way", ["where the page goes", "where libraries draw"])
def test_a_read_only_file_system_is_one_sentence(tmp_path, monkeypatch, capsys, in_the_way):
    folder = tmp_path / "run"
    write_sample_run(folder)
    if in_the_way == "where the page goes":
        for name in ("write_text", "unlink", "replace"):
            monkeypatch.setattr(Path, name, refuse_to_write)
        sentence = f"cannot write {folder / 'report.html'}: Read-only file system"
    else:
        monkeypatch.setattr(pages, "page_of", refuse_to_write)
        sentence = f"cannot draw {folder}: [Errno 30] Read-only file system"
    assert draw([str(folder)]) == 1
    assert capsys.readouterr().err == f"flockstep: {sentence}\n"


def test_without_python_or_a_package_one_sentence_says_how_to_get_it(tmp_path):
    out = tmp_path / "run"
    write_sample_run(out)
    done = run("report", out, env={**os.environ, "FLOCKSTEP_PYTHON": "/nowhere/python"})
    assert done.returncode == 1
    assert "cannot start /nowhere/python" in done.stderr
    assert done.stderr.count("\n") == 1
    without = tmp_path / "python"
    without.write_text('#!/bin/sh\nexec python3 -S "$@"\n')  # -S: without the packages of any environment
    without.chmod(0o755)
    environment = {**os.environ, "FLOCKSTEP_PYTHON": str(without)}
    done = run("report", out, env=environment)
    assert done.returncode == 1
    assert "the report needs numpy" in done.stderr or "the report needs matplotlib" in done.stderr
    assert "-m pip install matplotlib jinja2 msgspec`" in done.stderr
    assert done.stderr.count("\n") == 1
    # A comparison goes on without its pictures.
    done = run("compare", "--steps", 5, "--out", tmp_path / "comparison", env=environment)
    assert done.returncode == 0
    assert "pip install matplotlib" in done.stderr
    assert "Metrics, traces and results are in" in done.stdout
    assert "The report is" not in done.stdout
