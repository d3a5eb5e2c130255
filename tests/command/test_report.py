"""`flockstep report` of a run: one page that needs nothing but itself."""

import itertools
import json
import os
import re

import numpy as np
import pytest
from conftest import run, run_json
from drawn_report import edited, report, report_by_command, words_of
from flockstep.report import histograms
from flockstep.report.reading import read_run
from flockstep.report.records import StepTimes
from flockstep.report.sheet import Sheet
from sample_run import STEP_TIMES, write_sample_run


@pytest.fixture
def out(tmp_path):
    write_sample_run(tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("stragglers", "told"),
    [
        ("1x1ms", "1 random workers 1 ms late"),
        ("independent:2x1ms", "each worker 1 ms late in each step where one of its 2 draws of a worker names it"),
    ],
)
def test_a_run_gets_a_page(tmp_path, stragglers, told):
    summary = run_json("train", "--workers", 3, "--steps", 40, "--straggler", stragglers, "--out", tmp_path)
    page = report_by_command(tmp_path)
    assert "mean on linear: loss" in page.text
    assert "3 workers on threads, seed 1, 40 steps" in page.text
    assert "Nothing suspicious was found." in page.text
    assert summary["model_hash"] in page.text
    assert told in page.text
    assert len(page.pictures) >= 3


@pytest.mark.thorough
@pytest.mark.parametrize("workers", [8, 16, 40])
def test_findings_come_first_and_workers_are_drawn(tmp_path, workers):
    write_sample_run(tmp_path / "run", workers)
    page = report(tmp_path / "run")
    assert page.text.index("Worker 2 points against the others") < page.text.index("Figures")
    assert "steps 10 to 100" in page.text
    assert "1 step had a gradient that was not finite" in page.text
    assert "3 steps had a gradient so far above the median worker's that it met the guard" in page.text
    assert "Nothing suspicious" not in page.text
    for what in ("gradient counts", "gradient is", "Against the others: worker 2", "Heat map", "guard fired", "waited"):
        assert any(what in picture for picture in page.pictures), what


@pytest.mark.thorough
def test_how_models_met_is_told_and_drawn_where_they_did(tmp_path, out):
    assert not any("fresh" in picture or "old" in picture for picture in report(out).pictures)
    write_sample_run(tmp_path / "met", meet=True)
    page = report(tmp_path / "met")
    assert "50.3% of the merged steps were in their average" in page.text
    assert "5.0% of the steps found no new average" in page.text
    assert "0.625 iterations, mean over the contributions" in page.text
    assert "4 ms from a contribution to the result" in page.text
    assert any("50% of merged steps fresh, 30% of the time waiting" in picture for picture in page.pictures)
    assert any("How many iterations old contributions were, mean 0.62" in picture for picture in page.pictures)


@pytest.mark.thorough
def test_step_times_that_were_not_measured_are_left_out_and_questions_keep_their_mark(out):
    """As in runs of the PyTorch package."""
    with edited(out / "summary.json") as summary:
        none = dict.fromkeys(("median_s", "p90_s", "p99_s", "longest_s"), 0)
        summary["step_times"] = {**none, "first_bin": 0, "counts": []}
        summary["findings"][0]["sentence"] = "workers 4 and 5 sent the same gradient: are they reading the same data?"
    words = words_of(out)
    assert "step times" not in words
    assert re.search(r"the same data\?[^.]", words)


@pytest.mark.thorough
def test_the_distribution_of_step_times_is_told_and_drawn(out):
    page = report(out)
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


def test_text_needs_nothing_to_draw_with_and_writes_nothing(tmp_path, out):
    (tmp_path / "matplotlib.py").write_text("raise ModuleNotFoundError('No module', name='matplotlib')")
    done = run("report", out, "--text", env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("adacons on linear: loss")
    assert "Worker 2 points against the others" in done.stdout
    for line in ("batch +128 samples over all workers", "success +0.8125", "actions +diverged"):
        assert re.search(rf"^ *{line}$", done.stdout, re.MULTILINE), line
    assert not (out / "report.html").exists()


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


@pytest.mark.thorough
@pytest.mark.parametrize("workers", [4, 8])
def test_coefficients_of_more_than_four_workers_name_the_notable_ones(tmp_path, workers):
    write_sample_run(tmp_path / "run", workers)
    named = [name for name in report(tmp_path / "run").legend_of("gradient counts") if name]
    assert "worker 2" in named
    assert len(named) == 4 if workers == 4 else len(named) <= 3


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
    assert "worker 2" in page.legend_of("gradient is")


def test_a_run_resumed_with_fewer_workers_is_drawn(tmp_path):
    call = ["train", "--algorithm", "adacons", "--batch", 48, "--checkpoint-every", 10, "--out", tmp_path]
    run_json(*call, "--workers", 4, "--steps", 20)
    run_json(*call, "--workers", 2, "--steps", 40, "--resume")
    page = report(tmp_path)
    assert "Resumed after step 20 with 2 workers where there had been 4" in page.text
    assert any("between 2 workers' gradients" in alt and "mean over steps 21 to 40" in alt for alt in page.pictures)
    norms = read_run(tmp_path).steps.per_worker["norms"]
    assert np.isfinite(norms).tolist() == [[True] * 4] * 20 + [[True, True, False, False]] * 20


def test_findings_of_the_metrics_and_of_the_summary_are_merged(out):
    with edited(out / "summary.json") as summary:
        [known] = summary["findings"]
        same = {**known, "finding": "same_gradient", "workers": [4, 5], "sentence": "workers 4 and 5 send the same"}
        grown = {**same, "workers": [4, 5, 6], "sentence": "workers 4, 5 and 6 send the same"}
        summary["findings"] = [{**known, "last_step": 50, "sentence": "an earlier word on worker 2"}, grown]
    with (out / "metrics.jsonl").open("a") as metrics:
        metrics.write(json.dumps({**same, "kind": "finding", "step": 100}) + "\n")
    sentences = [finding.sentence for finding in read_run(out).findings]
    assert sentences == [known["sentence"], grown["sentence"]]
