"""`flockstep report` of a comparison: its own page, whose pictures tell what its table does."""

import copy
import json
import re
import shutil

import numpy as np
import pytest
from conftest import run
from drawn_report import compared, edited, report, report_by_command, words_of
from flockstep.report.comparison_pictures import zoom
from flockstep.report.records import Curve, CurveQuality
from flockstep.report.sheet import Sheet
from flockstep.report.style import look
from flockstep.report.words import short
from sample_run import meeting_rows, page_of


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    """The folder of a small comparison without its page."""
    return compared(tmp_path_factory.mktemp("comparison") / "out")


@pytest.fixture
def out(tmp_path, comparison):
    """A copy of it, to be changed."""
    return shutil.copytree(comparison, tmp_path / "comparison")


@pytest.mark.thorough
def test_a_comparison_draws_its_own_page(tmp_path):
    out = tmp_path / "comparison"
    arguments = ["--workers", 2, "--batch", "8,16", "--steps", 20, "--seeds", 3, "--search", "local_sgd.period=2,4,8"]
    arguments += ["--target", 900]
    done = run("compare", *arguments, "--algorithms", "mean,local_sgd,local_sgd:period=5", "--out", out)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"The report is {out / 'report.html'}." in done.stdout
    page = page_of(out)
    # Twice: quality against time and steps, time to target, the search, throughput, waiting, step times, three timelines.
    assert len(page.pictures) == 2 * 10
    text = words_of(out)
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
def test_a_comparison_shows_how_fresh_averages_were(out):
    assert "fresh" not in report(out).text
    compared = out / "compare.json"
    compared.write_text(meeting_rows(compared.read_text()))
    page = report(out)
    assert "50% of those of adacons were in it themselves" in page.text
    assert any(alt.startswith("Bars, one per algorithm (adacons 50%): Fresh") for alt in page.pictures)
    assert any("a panel for each of adacons: how many iterations old" in alt for alt in page.pictures)


def many_rows(out, losses):
    """The comparison as if there were one algorithm for each of the losses, which are medians."""
    with edited(out / "compare.json") as saved:
        (case,) = saved["cases"]
        first = case["rows"][0]
        case["statistic"] = "median"
        case["rows"] = []
        for index, loss in enumerate(losses):
            row = copy.deepcopy(first) | {"algorithm": f"rule{index}", "folders": [], "runs": 3, "diverged": 0}
            row["quality"] |= {"median": loss, "mean": 10 * loss}
            row["curve"]["quality"]["median"] = [loss for _ in row["curve"]["steps"]]
            case["rows"].append(row)
        case["table"] = {"columns": ["algorithm"], "rows": [[row["algorithm"]] for row in case["rows"]]}
    return out


def test_the_curves_of_a_comparison_tell_what_its_table_does(out):
    page = report(many_rows(out, [3.25, 1.125]))
    assert any("ends with (rule0 3.25, rule1 1.125): Loss against steps." in picture for picture in page.pictures)
    assert "Lines are medians over the seeds, as the table's column is" in page.text


@pytest.mark.thorough
@pytest.mark.parametrize("count", [3, 7, 18])
def test_every_algorithm_has_its_name_and_its_values_in_the_curves(out, count):
    losses = [1 + index for index in range(count)]
    page = report(many_rows(out, losses))
    names = [f"rule{index}" for index in range(count)]
    for picture in ("Loss against time", "Loss against steps"):
        series = page.series_of(picture)
        assert sorted(series) == sorted(names)
        for name, loss in zip(names, losses, strict=True):
            assert set(map(float, series[name]["data-y"].split())) == {loss}
        assert page.legend_of(picture) == names[::-1], "as the lines lie, the uppermost first"
    # More than the eye can follow are shown one by one as well.
    alone = [f"rule{index} {1 + index}, against the others: Loss" for index in range(count)] if count > 6 else []
    assert [alt.partition(" against time")[0] for alt in page.panels if "against time" in alt] == alone
    assert len(page.panels) == 2 * len(alone)


def test_no_two_lines_of_a_page_look_alike():
    looks = [look(index) for index in range(18)]
    assert len({(each["linestyle"], each["marker"]) for each in looks}) == 18, "not even in print without colours"


def test_the_target_stands_in_the_legend_and_not_among_the_lines(out):
    page = report(out)
    assert "target 900" in page.text, "texts within pictures are left out of these words"
    assert "target" not in "".join(re.findall(r"<text[^>]*>([^<]*)</text>", (out / "report.html").read_text()))


def test_an_algorithm_far_from_all_others_does_not_rule_the_range():
    steps = np.arange(11.0)

    def curves(count, far):
        ends = [0.8 + 0.01 * index for index in range(count - 1)] + [far]
        quality = [np.where(steps > 0, end, 0.1) for end in ends]
        told = [CurveQuality(mean=each, median=each, min=each, max=each) for each in quality]
        return {f"rule{index}": Curve(steps=steps, time_s=steps, quality=each) for index, each in enumerate(told)}

    def zoomed(count, far):
        axes = Sheet().axes()
        told = zoom(axes, curves(count, far))
        return told, axes.get_ylim()

    assert zoomed(7, 0.86)[0] == (True, [])
    (_, outside), (low, high) = zoomed(7, 0.3)
    assert outside == ["rule6"]
    assert 0.79 < low < 0.8 < 0.85 < high < 0.86
    assert zoomed(6, 0.3)[0] == (False, []), "of few, all are shown"


def test_bars_and_spans_tell_their_values_without_a_script(out):
    report(out)
    titles = re.findall(r"<title>([^<]*)</title>", (out / "report.html").read_text())
    row = json.loads((out / "compare.json").read_text())["cases"][0]["rows"][0]
    assert f"mean: {short(row['samples_per_s']['mean'])}" in titles
    assert any(re.fullmatch(r"worker 3: computing, [0-9.e-]+ (s|ms|µs)", title) for title in titles)


def test_what_is_not_there_is_left_out(out):
    shutil.rmtree(out / "runs")
    with edited(out / "compare.json") as saved:
        saved["cases"][0]["target"] = None
    page = report(out)
    assert "The same moment" not in page.text
    kinds = [re.search(r": (\w+( against \w+)?)", picture)[1] for picture in page.pictures]
    assert kinds == ["Loss against time", "Loss against steps", "Throughput", "Waiting"]


@pytest.mark.thorough
def test_what_the_runs_have_found_is_told_of_the_comparison(out):
    finding = {"finding": "against", "workers": [2], "first_step": 1, "last_step": 5}
    with edited(out / "runs" / "adacons-seed-1" / "summary.json") as summary:
        summary["findings"] = [{**finding, "sentence": "worker 2 points against the others (mean cosine -0.41)"}]
    assert "adacons: worker 2 points against the others." in report(out).text
