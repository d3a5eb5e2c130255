"""Which part of a run the report's timelines show, and how it makes long series short."""

import json

import numpy as np
import pytest
from flockstep.report.errors import ReportError
from flockstep.report.histograms import folded
from flockstep.report.svg import clean_style
from flockstep.report.timelines import (
    TRACKS,
    choose_moment,
    draw,
    duration_text,
    joined,
    read_trace,
    rows_of,
    steps_each,
)
from flockstep.report.worker_lines import MovingMeans, range_without_outliers

STEP_US = 10_000


def write_trace(folder, workers=4, steps=40, late=None, evaluate_every=10):
    """Steps of 10 ms in lockstep, of which gradients are 2 ms. `late`: step to worker, whose gradient then is 8 ms."""
    spans = []
    clock = 0
    for step in range(steps):
        if step and step % evaluate_every == 0:
            spans += [(worker, 1, "meeting of all workers", clock, 5000) for worker in range(workers)]
            clock += 50_000
        for worker in range(workers):
            took = 8000 if (late or {}).get(step) == worker else 2000
            spans.append((worker, 0, "gradient", clock, took))
            spans.append((worker, 1, "all_to_all", clock + took, 9000 - took))
            spans.append((worker, 2, "all_to_all", clock + took, 9000 - took))
            spans.append((worker, 0, "update", clock + 9000, 1000))
        clock += STEP_US
    keys = ("pid", "tid", "name", "ts", "dur")
    events = [{"ph": "X", **dict(zip(keys, span, strict=True))} for span in spans]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "trace.json").write_text(json.dumps({"traceEvents": [{"ph": "M", "name": "process_name"}, *events]}))
    return read_trace(folder)


def test_the_step_shown_is_near_the_middle_with_a_late_worker_and_no_evaluation_soon(tmp_path):
    trace = write_trace(tmp_path, late={step: 1 + step % 3 for step in range(40) if step % 2})
    assert trace.workers == 4
    assert trace.steps == 40
    assert trace.step_s() == pytest.approx(0.01)
    moment = choose_moment([trace])
    assert moment.step == 21, "the first odd one after the evaluation in the middle"
    assert (moment.worker, moment.late) == (1, [1])
    assert moment.seconds == pytest.approx(0.022)
    begin = trace.gradients[1][0][21]
    assert steps_each(trace, begin, begin + 0.0201) == "2 steps each"
    trace.end[(trace.worker == 3) & (trace.name == "update") & (trace.end > begin + 0.015)] += 0.005
    assert steps_each(trace, begin, begin + 0.0201) == "1 to 2 steps each"


def test_a_transfer_among_all_workers_begins_when_the_last_of_them_starts_it(tmp_path):
    trace = write_trace(tmp_path, late={20: 1})
    transfers = trace.track == TRACKS.index("transfer")
    lengths = (trace.end - trace.begin)[transfers].reshape(40, 4)
    assert np.allclose(np.delete(lengths, 20, axis=0), 0.007)
    assert np.allclose(lengths[20], 0.001)
    waits = (trace.end - trace.begin)[(trace.track == TRACKS.index("wait")) & (trace.name == "all_to_all")]
    assert np.allclose(waits.reshape(40, 4)[20], [0.007, 0.001, 0.007, 0.007])


def test_who_is_late_by_chance_in_one_run_is_not_called_late(tmp_path):
    chance = write_trace(tmp_path / "chance", late={20: 3})
    calm = write_trace(tmp_path / "calm")
    assert choose_moment([chance]).late in ([], [3])
    moment = choose_moment([chance, calm])
    assert moment.late == []
    assert "nobody is late" in draw(calm, moment, "mean").alt


def test_durations_are_told_to_two_digits():
    assert [duration_text(value) for value in (0.000348, 0.0153, 0.884, 2, 123)] == [
        *("350 µs", "15 ms", "880 ms", "2 s", "120 s")
    ]


def test_many_workers_are_shown_in_part_and_the_late_one_always():
    assert rows_of(4, 2) == [0, 1, 2, 3]
    rows = rows_of(64, 13)
    assert len(rows) == 10
    assert {0, 13, 63} <= set(rows)
    assert rows == sorted(rows)


def test_a_trace_that_is_not_there_or_too_short_is_left_out(tmp_path):
    assert read_trace(tmp_path) is None
    assert write_trace(tmp_path, steps=1) is None
    (tmp_path / "trace.json").write_text('{"traceEvents": []}')
    assert read_trace(tmp_path) is None


def span(**changed):
    """A trace with one span."""
    event = {"ph": "X", "name": "a", "pid": 0, "tid": 0, "ts": 0, "dur": 1, **changed}
    return json.dumps({"traceEvents": [event]})


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"traceEvents": [', "is damaged"),
        ('{"events": []}', "missing required field `traceEvents`"),
        ('{"traceEvents": [3]}', "is damaged"),
        (span(pid=-1), "worker or time"),
        (span(pid=1e300), "worker or time"),
        (span(ts=None), "worker or time"),
        (span(ts="late"), "got `str`, at traceEvents"),
    ],
)
def test_a_damaged_trace_is_told(tmp_path, text, sentence):
    (tmp_path / "trace.json").write_text(text)
    with pytest.raises(ReportError, match=sentence) as raised:
        read_trace(tmp_path)
    assert "trace.json" in str(raised.value)


def test_spans_that_no_eye_would_part_are_drawn_as_one():
    spans = np.array([(5.0, 6.0), (0.0, 1.0), (1.01, 2.0), (3.0, 4.5), (3.5, 4.0)])
    assert joined(spans, 0.1).tolist() == [[0, 2], [3, 1.5], [5, 1]]
    assert len(joined(spans, 0.001)) == 4
    assert joined(np.zeros((0, 2)), 0.1).shape == (0, 2)


def test_old_contributions_share_the_last_bar():
    assert folded([6, 2, 1, 1], 4).tolist() == [60, 20, 10, 10]
    assert folded([6, 2, 1, 1], 2).tolist() == [60, 40]
    assert folded([3], 3).tolist() == [100, 0, 0]


def test_many_steps_become_moving_means_that_end_where_a_worker_left():
    assert MovingMeans.over(100).window == 1
    calm = MovingMeans.over(200)
    assert calm.window == 10
    assert "moving means over 10" in calm.axis_label
    noisy = np.where(np.arange(200) % 2, 1.0, 3.0)[:, None] * [1, 10]
    noisy[120:, 1] = np.nan
    means = calm.of(noisy)
    assert np.allclose(means[4:195, 0], 2)
    assert np.isfinite(means[:120, 1]).all()
    assert np.isnan(means[120:, 1]).all()
    assert len(MovingMeans.over(123_456).of(np.ones((123_456, 1)))) <= 300


def test_an_outlier_does_not_rule_a_range_but_an_odd_worker_does():
    table = np.random.default_rng(1).uniform(0.1, 0.2, (200, 64))
    assert range_without_outliers(table, table) is None
    table[:, 7] += 5
    assert range_without_outliers(table, table) is None
    table[17, 3] = 1000
    low, high, beyond = range_without_outliers(table, table)
    assert low == table.min()
    assert 5.2 <= high < 10
    assert beyond == 1
    means = MovingMeans.over(200).of(table)
    assert range_without_outliers(table, means) == (means.min(), high, 10), "a window's length of means"


def test_letters_and_colours_of_pictures_are_those_of_the_page():
    families = "'DejaVu Sans', sans-serif"
    drawn = f"font-size: 9px; font-family: {families}; text-anchor: end; fill: #0072b2"
    assert clean_style(drawn) == "font-size:9px;text-anchor:end;fill:var(--c0)"
    assert clean_style(f"font: 9px {families}; text-anchor: end") == "font-size:9px;text-anchor:end"
    assert clean_style(f"font: 700 9px {families}; fill: #123456") == "font-size:9px;font-weight:700;fill:#123456"
    assert clean_style(f"font: 9px {families}") == "font-size:9px"
