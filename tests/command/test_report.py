"""`flockstep report`: one page that needs nothing but itself, and one sentence where there is none to draw."""

import contextlib
import errno
import io
import itertools
import json
import os
import pty
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from conftest import COMMAND, run, run_json
from flockstep.report import histograms, pages
from flockstep.report.__main__ import main as draw
from flockstep.report.comparison_pictures import zoom
from flockstep.report.reading import read_run
from flockstep.report.records import Curve, CurveQuality, StepTimes
from flockstep.report.sheet import Sheet
from flockstep.report.style import look
from flockstep.report.words import short
from sample_run import (
    DAMAGED_COMPARISONS,
    DAMAGED_RUNS,
    STEP_TIMES,
    blown_up,
    meeting_rows,
    page_of,
    write_sample_run,
)

COMPARISON = ("--steps", 5, "--algorithms", "mean,adacons", "--target", 900)


def report_by_command(folder):
    done = run("report", folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{folder / 'report.html'}\n"
    return page_of(folder)


def report(folder):
    """What the command runs, within this process: libraries that draw take longer to load than to draw."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = draw([str(folder)])
    assert (code, errors.getvalue()) == (0, "")
    assert out.getvalue() == f"{folder / 'report.html'}\n"
    return page_of(folder)


def test_a_run_gets_a_page(tmp_path):
    out = tmp_path / "run"
    summary = run_json("train", "--workers", 3, "--steps", 40, "--straggler", "1x1ms", "--out", out)
    page = report_by_command(out)
    assert "mean on linear: loss" in page.text
    assert "3 workers on threads, seed 1, 40 steps" in page.text
    assert "Nothing suspicious was found." in page.text
    assert summary["model_hash"] in page.text
    assert "1 random workers 1 ms late" in page.text
    assert len(page.pictures) >= 3


def test_a_page_says_how_stragglers_were_drawn(tmp_path):
    out = tmp_path / "run"
    run_json("train", "--workers", 3, "--steps", 40, "--straggler", "independent:2x1ms", "--out", out)
    page = report_by_command(out)
    assert "each worker 1 ms late in each step where one of its 2 draws of a worker names it" in page.text


@pytest.mark.thorough
def test_a_comparison_draws_its_own_page(tmp_path):
    out = tmp_path / "comparison"
    arguments = ["--workers", 2, "--batch", "8,16", "--steps", 20, "--seeds", 3, "--search", "local_sgd.period=2,4,8"]
    arguments += ["--target", 900]
    done = run("compare", *arguments, "--algorithms", "mean,local_sgd,local_sgd:period=5", "--out", out)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert f"The report is {out / 'report.html'}." in done.stdout
    page = page_of(out)
    # Twice: quality against time and steps, time to target, the search, throughput, waiting, step times, three timelines.
    assert len(page.pictures) == 2 * 10
    text = run("report", out, "--text").stdout
    # Every cell of the printed tables is on the page and in its text, and so are the verdicts.
    for line in done.stdout.splitlines()[2:]:
        for cell in re.split(r"\s{2,}", line.strip()):
            if cell.strip("-") and not line.startswith(("linear,", "Metrics", "The report")):
                assert cell in page.text, line
                assert cell in text.replace(".\n", ". "), line
    first = (out / "report.html").read_bytes()
    report_by_command(out)
    assert (out / "report.html").read_bytes() == first, "the same numbers give the same bytes"


@pytest.mark.thorough
@pytest.mark.parametrize("workers", [8, 16, 40])
def test_findings_come_first_and_workers_are_drawn(tmp_path, workers):
    out = tmp_path / "run"
    write_sample_run(out, workers)
    page = report(out)
    assert page.text.index("Worker 2 points against the others") < page.text.index("Figures")
    assert "steps 10 to 100" in page.text
    assert "1 step had a gradient that was not finite" in page.text
    assert "3 steps had a gradient so far above the median worker's that it met the guard" in page.text
    assert "Nothing suspicious" not in page.text
    for what in ("gradient counts", "gradient is", "Against the others: worker 2", "Heat map", "guard fired", "waited"):
        assert any(what in picture for picture in page.pictures), what


@pytest.mark.thorough
def test_how_models_met_is_told_and_drawn_where_they_did(tmp_path):
    write_sample_run(tmp_path / "apart")
    assert not any("fresh" in picture or "old" in picture for picture in report(tmp_path / "apart").pictures)
    write_sample_run(tmp_path / "met", meet=True)
    page = report(tmp_path / "met")
    assert "50.3% of the merged steps were in their average" in page.text
    assert "5.0% of the steps found no new average" in page.text
    assert "0.625 iterations, mean over the contributions" in page.text
    assert "4 ms from a contribution to the result" in page.text
    assert any("50% of merged steps fresh, 30% of the time waiting" in picture for picture in page.pictures)
    assert any("How many iterations old contributions were, mean 0.62" in picture for picture in page.pictures)


def test_what_else_an_evaluation_told_is_told(tmp_path):
    write_sample_run(tmp_path / "run")
    words = run("report", tmp_path / "run", "--text").stdout
    assert re.search(r"success +0\.8125\n", words)
    assert re.search(r"actions +diverged\n", words)


@pytest.mark.thorough
def test_step_times_that_were_not_measured_are_left_out_and_questions_keep_their_mark(tmp_path):
    """As in runs of the PyTorch package."""
    out = tmp_path / "run"
    summary = write_sample_run(out)
    summary["step_times"] = {
        **dict.fromkeys(("median_s", "p90_s", "p99_s", "longest_s"), 0),
        "first_bin": 0,
        "counts": [],
    }
    summary["findings"][0]["sentence"] = "workers 4 and 5 sent the same gradient: are they reading the same data?"
    (out / "summary.json").write_text(json.dumps(summary))
    words = run("report", out, "--text").stdout
    assert "step times" not in words
    assert re.search(r"the same data\?[^.]", words)


@pytest.mark.thorough
def test_the_distribution_of_step_times_is_told_and_drawn(tmp_path):
    write_sample_run(tmp_path / "run")
    page = report(tmp_path / "run")
    assert "median 10.3 ms, 90th percentile 10.6 ms, 99th 21.2 ms, longest 100 ms; waiting left out" in page.text
    drawn = "Half of the steps computed for 10.3 ms or less; one in a hundred took 2.1 times that or more"
    assert any(drawn in picture for picture in page.pictures)
    edges, counts = histograms.merged([StepTimes(**STEP_TIMES)])
    assert counts.sum() == 100
    assert len(counts) <= 40
    assert edges[0] == pytest.approx(0.01)
    assert edges[-1] > 0.1
    twice = histograms.merged([StepTimes(**STEP_TIMES), StepTimes(**{**STEP_TIMES, "first_bin": 200})])[1]
    assert twice.sum() == 200
    assert twice.max() == 91, "the longest of one is as long as the shortest of the other"


@pytest.mark.thorough
def test_a_comparison_shows_how_fresh_averages_were(tmp_path, comparison):
    out = shutil.copytree(comparison, tmp_path / "comparison")
    assert "fresh" not in report(out).text
    compared = out / "compare.json"
    compared.write_text(meeting_rows(compared.read_text()))
    page = report(out)
    assert "50% of those of adacons were in it themselves" in page.text
    assert any(alt.startswith("Bars, one per algorithm (adacons 50%): Fresh") for alt in page.pictures)
    assert any("a panel for each of adacons: how many iterations old" in alt for alt in page.pictures)


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


def test_text_needs_nothing_to_draw_with_and_writes_nothing(tmp_path):
    out = tmp_path / "run"
    summary = write_sample_run(out)
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    (blocked / "matplotlib.py").write_text("raise ModuleNotFoundError('No module', name='matplotlib')")
    done = run("report", out, "--text", env={**os.environ, "PYTHONPATH": str(blocked)})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("adacons on linear: loss")
    assert "Worker 2 points against the others" in done.stdout
    assert re.search(rf"^batch +{summary['batch']} samples over all workers$", done.stdout, re.MULTILINE)
    assert not (out / "report.html").exists()


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    """The folder of a small comparison without its page."""
    out = tmp_path_factory.mktemp("comparison") / "out"
    run_json("compare", *COMPARISON, "--out", out)
    (out / "report.html").unlink()
    return out


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


def many_rows(tmp_path, comparison, losses):
    """The comparison as if there were one algorithm for each of the losses, which are medians."""
    out = shutil.copytree(comparison, tmp_path / "comparison")
    saved = json.loads((out / "compare.json").read_text())
    (case,) = saved["cases"]
    first = case["rows"][0]
    case["statistic"] = "median"
    case["rows"] = []
    for index, loss in enumerate(losses):
        row = json.loads(json.dumps(first)) | {"algorithm": f"rule{index}", "folders": [], "runs": 3, "diverged": 0}
        row["quality"] |= {"median": loss, "mean": 10 * loss}
        row["curve"]["quality"]["median"] = [loss for _ in row["curve"]["steps"]]
        case["rows"].append(row)
    case["table"] = {"columns": ["algorithm"], "rows": [[row["algorithm"]] for row in case["rows"]]}
    (out / "compare.json").write_text(json.dumps(saved))
    return out


def test_the_curves_of_a_comparison_tell_what_its_table_does(tmp_path, comparison):
    page = report(many_rows(tmp_path, comparison, [3.25, 1.125]))
    assert any("ends with (rule0 3.25, rule1 1.125): Loss against steps." in picture for picture in page.pictures)
    assert "Lines are medians over the seeds, as the table's column is" in page.text


def numbers(text):
    return [float(each) for each in text.split()]


@pytest.mark.thorough
@pytest.mark.parametrize("count", [3, 7, 18])
def test_every_algorithm_has_its_name_and_its_values_in_the_curves(tmp_path, comparison, count):
    losses = [1 + index for index in range(count)]
    page = report(many_rows(tmp_path, comparison, losses))
    names = [f"rule{index}" for index in range(count)]
    for picture in ("Loss against time", "Loss against steps"):
        series = page.series_of(picture)
        assert sorted(series) == sorted(names)
        for name, loss in zip(names, losses, strict=True):
            assert set(numbers(series[name]["data-y"])) == {loss}
        place = next(place for place, alt in enumerate(page.pictures) if picture in alt)
        assert page.legends[place] == names[::-1], "as the lines lie, the uppermost first"
    # More than the eye can follow are shown one by one as well.
    alone = [f"rule{index} {1 + index}, against the others: Loss" for index in range(count)] if count > 6 else []
    assert [alt.partition(" against time")[0] for alt in page.panels if "against time" in alt] == alone
    assert len(page.panels) == 2 * len(alone)


def test_no_two_lines_of_a_page_look_alike():
    looks = [look(index) for index in range(18)]
    assert len({(each["linestyle"], each["marker"]) for each in looks}) == 18, "not even in print without colours"


def test_tick_labels_never_touch():
    labels = [f"{100 * place} ms" for place in range(40)]
    for count in (3, 8, 40):
        sheet = Sheet()
        axes = sheet.axes()
        axes.set_xlim(-0.5, count - 0.5)
        axes.set_xticks(range(count), labels[:count])
        sheet.picture("", "")
        boxes = [label.get_window_extent() for label in axes.get_xticklabels() if label.get_text()]
        assert 3 <= len(boxes) <= 8
        assert all(before.x1 + 3 < after.x0 for before, after in itertools.pairwise(boxes)), count


def test_the_target_stands_in_the_legend_and_not_among_the_lines(tmp_path, comparison):
    out = shutil.copytree(comparison, tmp_path / "comparison")
    page = report(out)
    assert "target 900" in page.text, "texts within pictures are left out of these words"
    assert "target" not in "".join(re.findall(r"<text[^>]*>([^<]*)</text>", (out / "report.html").read_text()))


@pytest.mark.thorough
@pytest.mark.parametrize("workers", [4, 8])
def test_coefficients_of_more_than_four_workers_name_the_notable_ones(tmp_path, workers):
    write_sample_run(tmp_path / "run", workers)
    page = report(tmp_path / "run")
    place = next(place for place, alt in enumerate(page.pictures) if "gradient counts" in alt)
    named = [name for name in page.legends[place] if name]
    assert "worker 2" in named
    assert len(named) == 4 if workers == 4 else len(named) <= 3


def test_an_algorithm_far_from_all_others_does_not_rule_the_range():
    steps = np.arange(11.0)

    def curves(count, far):
        ends = [0.8 + 0.01 * index for index in range(count - 1)] + [far]
        quality = [np.where(steps > 0, end, 0.1) for end in ends]
        return {
            f"rule{index}": Curve(
                steps=steps, time_s=steps, quality=CurveQuality(mean=each, median=each, min=each, max=each)
            )
            for index, each in enumerate(quality)
        }

    def zoomed(count, far):
        axes = Sheet().axes()
        told = zoom(axes, curves(count, far))
        return told, axes.get_ylim()

    assert zoomed(7, 0.86)[0] == (True, [])
    (_, outside), (low, high) = zoomed(7, 0.3)
    assert outside == ["rule6"]
    assert 0.79 < low < 0.8 < 0.85 < high < 0.86
    assert zoomed(6, 0.3)[0] == (False, []), "of few, all are shown"


@pytest.mark.thorough
def test_each_worker_has_its_values_in_the_pictures_of_a_run(tmp_path):
    out = tmp_path / "run"
    write_sample_run(out, workers=16)
    page = report(out)
    norms = [json.loads(line).get("norms") for line in (out / "metrics.jsonl").read_text().splitlines()]
    norms = np.array([each for each in norms if each])
    series = page.series_of("How long each worker's gradient is")
    assert sorted(series) == sorted(f"worker {worker}" for worker in range(16))
    drawn = series["worker 7"]["data-y"].split()
    assert drawn[30] == "-", "in that step there was none"
    assert np.allclose([float(each) for each in drawn if each != "-"], norms[:, 7], rtol=1e-5)
    place = next(place for place, alt in enumerate(page.pictures) if "gradient is" in alt)
    assert "worker 2" in page.legends[place]


def test_bars_and_spans_tell_their_values_without_a_script(tmp_path, comparison):
    out = shutil.copytree(comparison, tmp_path / "comparison")
    report(out)
    titles = re.findall(r"<title>([^<]*)</title>", (out / "report.html").read_text())
    row = json.loads((out / "compare.json").read_text())["cases"][0]["rows"][0]
    assert f"mean: {short(row['samples_per_s']['mean'])}" in titles
    assert any(re.fullmatch(r"worker 3: computing, [0-9.e-]+ (s|ms|µs)", title) for title in titles)


def test_what_is_not_there_is_left_out(tmp_path, comparison):
    out = shutil.copytree(comparison, tmp_path / "comparison")
    shutil.rmtree(out / "runs")
    saved = json.loads((out / "compare.json").read_text())
    saved["cases"][0]["target"] = None
    (out / "compare.json").write_text(json.dumps(saved))
    page = report(out)
    assert "The same moment" not in page.text
    kinds = [re.search(r": (\w+( against \w+)?)", picture)[1] for picture in page.pictures]
    assert kinds == ["Loss against time", "Loss against steps", "Throughput", "Waiting"]


@pytest.mark.thorough
def test_what_the_runs_have_found_is_told_of_the_comparison(tmp_path, comparison):
    out = shutil.copytree(comparison, tmp_path / "comparison")
    path = out / "runs" / "adacons-seed-1" / "summary.json"
    finding = {"finding": "against", "workers": [2], "first_step": 1, "last_step": 5}
    summary = json.loads(path.read_text())
    summary["findings"] = [{**finding, "sentence": "worker 2 points against the others (mean cosine -0.41)"}]
    path.write_text(json.dumps(summary))
    assert "adacons: worker 2 points against the others." in report(out).text


def test_a_run_resumed_with_fewer_workers_is_drawn(tmp_path):
    out = tmp_path / "run"
    arguments = ["train", "--algorithm", "adacons", "--batch", 48, "--checkpoint-every", 10, "--out", out]
    run_json(*arguments, "--workers", 4, "--steps", 20)
    run_json(*arguments, "--workers", 2, "--steps", 40, "--resume")
    page = report(out)
    assert "Resumed after step 20 with 2 workers where there had been 4" in page.text
    assert any("between 2 workers' gradients" in alt and "mean over steps 21 to 40" in alt for alt in page.pictures)
    norms = read_run(out).steps.per_worker["norms"]
    assert np.isfinite(norms).tolist() == [[True] * 4] * 20 + [[True, True, False, False]] * 20


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


def test_findings_of_the_metrics_and_of_the_summary_are_merged(tmp_path):
    out = tmp_path / "run"
    summary = write_sample_run(out)
    [known] = summary["findings"]
    same = {**known, "finding": "same_gradient", "workers": [4, 5], "sentence": "workers 4 and 5 send the same"}
    grown = {**same, "workers": [4, 5, 6], "sentence": "workers 4, 5 and 6 send the same"}
    with (out / "metrics.jsonl").open("a") as metrics:
        metrics.writelines(json.dumps({**line, "kind": "finding", "step": 100}) + "\n" for line in (same,))
    summary["findings"] = [{**known, "last_step": 50, "sentence": "an earlier word on worker 2"}, grown]
    (out / "summary.json").write_text(json.dumps(summary))
    sentences = [finding.sentence for finding in read_run(out).findings]
    assert sentences == [known["sentence"], grown["sentence"]]


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


@pytest.mark.thorough
def test_a_terminal_sees_what_is_drawn(tmp_path):
    out = tmp_path / "run"
    write_sample_run(out)
    terminal, inside = pty.openpty()
    process = subprocess.Popen([COMMAND, "report", out], stderr=inside, stdout=subprocess.DEVNULL)
    os.close(inside)
    shown = b""
    while True:
        try:
            shown += os.read(terminal, 4096)
        except OSError:
            break
    assert process.wait() == 0
    assert b"drawing quality" in shown
    assert shown.endswith(b"\r\x1b[K")
