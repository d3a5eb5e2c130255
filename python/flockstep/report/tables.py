"""Figures in words and tables; those of a comparison read as the command prints them (src/cli/compare_table.cpp)."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from flockstep.report.values import Case, Comparison, number


def readable(value: float) -> str:
    """Large numbers in full, small ones to four digits."""
    if not math.isfinite(value):
        return "diverged"
    return f"{value:.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}"


def deviation_text(value: float) -> str:
    """Two digits tell how far seeds lie apart."""
    if not math.isfinite(value):
        return "diverged"
    return readable(math.floor(value + 0.5)) if value >= 10 else f"{value:.2g}"


def shown(spread: dict[str, Any], runs: int, statistic: str) -> str:
    mean, median, low, high = (readable(number(spread[name])) for name in ("mean", "median", "min", "max"))
    if statistic == "median":
        return f"{median} ({low}..{high})" if runs > 1 and math.isfinite(number(spread["min"])) else median
    return f"{mean} ± {deviation_text(number(spread['deviation']))}" if runs > 1 else mean


def about_quality(comparison: Comparison, case: Case) -> str:
    """What the column of quality shows."""
    if not comparison.metric:
        return "time alone, without gradients"
    what = {"mean": "mean ± deviation", "median": "median (min..max)"}.get(case.statistic)
    of_seeds = f", {what} of {comparison.how.get('seeds', 1)} seeds" if what else ""
    return comparison.metric + of_seeds + ("; lower is better" if comparison.lower_is_better else "")


def searched_in(comparison: Comparison, case: Case) -> str:
    """The searched option; that of the task needs no more than its own name."""
    name = next((row.figures["searched"]["name"] for row in case.rows if row.figures.get("searched")), "")
    return str(name).removeprefix(f"{comparison.how['task']}.")


def _share(name: str, figures: dict[str, Any]) -> str:
    share = number((figures.get(name) or {}).get("mean"))
    return f"{100 * share:.1f}%" if math.isfinite(share) else "-"


def time_to_target(figures: dict[str, Any]) -> str:
    median = number((figures.get("target_time_s") or {}).get("median"))
    if not math.isfinite(median):
        return "-"
    reached, runs = figures.get("target_reached"), figures["runs"]
    return f"{median:.3g} s" + (f" ({reached} of {runs})" if reached != runs else "")


def _quality(figures: dict[str, Any], statistic: str) -> str:
    runs, diverged = int(figures["runs"]), int(figures["diverged"])
    text = shown(figures["quality"], runs, statistic)
    return f"{text}, {diverged} of {runs} diverged" if diverged and runs > 1 else text


def _searched(figures: dict[str, Any]) -> str:
    chosen = figures.get("searched")
    return str(chosen["value"]) + (" (edge)" if chosen["edge"] else "") if chosen else "-"


def case_table(comparison: Comparison, case: Case) -> tuple[list[str], list[list[str]]]:
    """The table's head and rows."""
    all_figures = [row.figures for row in case.rows]
    columns: dict[str, Callable[[dict[str, Any]], str]] = {"algorithm": lambda figures: figures["algorithm"]}
    if searched := searched_in(comparison, case):
        columns[searched] = _searched
    if comparison.metric:
        columns[comparison.metric] = lambda figures: _quality(figures, case.statistic)
    columns["samples/s"] = lambda figures: shown(figures["samples_per_s"], int(figures["runs"]), "mean")
    columns["waiting"] = lambda figures: f"{100 * number(figures['wait_share']['mean']):.1f}%"
    if any(figures.get("share_of_ideal") for figures in all_figures):
        columns["of ideal"] = partial(_share, "share_of_ideal")
    if any(figures.get("fresh_fraction") for figures in all_figures):
        columns["fresh"] = partial(_share, "fresh_fraction")
    if math.isfinite(case.target):
        columns[f"time to {readable(case.target)}"] = time_to_target
    if len({figures["runs"] for figures in all_figures}) > 1:
        columns["runs"] = lambda figures: str(figures["runs"])
    columns["time in steps"] = lambda figures: f"{number(figures['time_s']['mean']):.3g} s"
    columns["kB sent/step"] = lambda figures: f"{number(figures['bytes_sent_per_step']) / 1000:.4g}"
    return list(columns), [[cell(figures) for cell in columns.values()] for figures in all_figures]


def tried_table(comparison: Comparison, case: Case) -> tuple[list[str], list[list[str]]] | None:
    """What the search has tried: a row for each algorithm, a column for each value."""
    searched = [row for row in case.rows if row.figures.get("searched") and row.figures["tried"]]
    values = list(dict.fromkeys(str(each["value"]) for row in searched for each in row.figures["tried"]))
    if not values:
        return None
    rows = []
    for row in searched:
        found = {str(each["value"]): readable(number(each["quality"]["mean"])) for each in row.figures["tried"]}
        rows.append([row.label, *(found.get(value, "-") for value in values)])
    name = searched_in(comparison, case)
    return [f"{comparison.metric} by {name}", *values], rows


def time_text(seconds: float) -> str:
    """As the command writes the times of steps (src/cli/train.cpp)."""
    if seconds >= 1:
        return f"{seconds:.3g} s"
    return f"{1e3 * seconds:.3g} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.3g} us"


def settings_text(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def pace_text(pace: dict[str, Any]) -> str:
    """How long steps pretended to take and who was late; empty when nobody pretended."""
    parts = []
    if file := pace.get("compute_file"):
        parts.append(f"steps whose times are drawn from {file['path']}, {1000 * pace['compute_s']:g} ms in the mean")
    elif pace.get("compute_s"):
        parts.append(f"steps that compute for {1000 * pace['compute_s']:g} ms")
    if pace.get("random_stragglers"):
        parts.append(
            f"{pace['random_stragglers']} random workers {1000 * pace['random_delay_s']:g} ms late in each step"
        )
    parts += [
        f"worker {late['worker']} always {1000 * late['delay_s']:g} ms late"
        for late in pace.get("fixed_stragglers", [])
    ]
    if pace.get("jitter_sigma"):
        parts.append(f"lognormal jitter of {pace['jitter_sigma']:g}")
    return ", ".join(parts)
