"""How the report makes long series short, what it leaves out of sight, and whose fonts and colours it has."""

import numpy as np
from flockstep.report.histograms import folded
from flockstep.report.svg import clean_style
from flockstep.report.worker_lines import MovingMeans, range_without_outliers


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
