"""Figures in words and tables; those of a comparison read as the command prints them (src/cli/compare.cpp)."""

import math
from typing import Any

from flockstep.report.values import Case, Comparison, number


def readable(value: float) -> str:
    """Large numbers in full, small ones to four digits."""
    if not math.isfinite(value):
        return "diverged"
    return f"{value:.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}"


def shown(spread: dict[str, Any], runs: int, statistic: str) -> str:
    mean, deviation, median, low, high = (
        readable(number(spread[name])) for name in ("mean", "deviation", "median", "min", "max")
    )
    if statistic == "median":
        return f"{median} ({low}..{high})" if runs > 1 and math.isfinite(number(spread["min"])) else median
    return f"{mean} ± {deviation}" if runs > 1 else mean


def quality_head(comparison: Comparison, case: Case) -> str:
    what = {"mean": ", mean ± deviation", "median": ", median (min..max)"}.get(case.statistic, "")
    return comparison.metric + what + ("; lower is better" if comparison.lower_is_better else "")


def fresh(figures: dict[str, Any]) -> str:
    """Of the steps that were merged with an average, those whose own model was in it."""
    share = number((figures.get("fresh_fraction") or {}).get("mean"))
    return f"{100 * share:.1f}%" if math.isfinite(share) else "-"


def case_table(comparison: Comparison, case: Case) -> tuple[list[str], list[list[str]]]:
    """The table's head and rows."""
    searched = next((row.figures["searched"]["name"] for row in case.rows if row.figures.get("searched")), "")
    meet = any(row.figures.get("fresh_fraction") for row in case.rows)
    head = ["algorithm", *([searched] if searched else []), quality_head(comparison, case)]
    head += ["samples/s", "waiting", *(["fresh"] if meet else []), "time in steps", "kB sent/step", "runs"]
    rows = []
    for row in case.rows:
        figures, runs = row.figures, int(row.figures["runs"])
        cells = [row.label]
        if searched:
            chosen = figures.get("searched")
            cells.append(str(chosen["value"]) + (" (edge)" if chosen["edge"] else "") if chosen else "-")
        quality = shown(figures["quality"], runs, case.statistic)
        diverged = int(figures["diverged"])
        cells.append(f"{quality}, {diverged} of {runs} diverged" if diverged and runs > 1 else quality)
        cells.append(shown(figures["samples_per_s"], runs, "mean"))
        cells.append(f"{100 * number(figures['wait_share']['mean']):.1f}%")
        if meet:
            cells.append(fresh(figures))
        cells.append(f"{number(figures['time_s']['mean']):.3g} s")
        cells.append(f"{number(figures['bytes_sent_per_step']) / 1000:.4g}")
        cells.append(str(runs))
        rows.append(cells)
    return head, rows


def tried_table(case: Case) -> tuple[list[str], list[list[str]]] | None:
    """What the search has tried: a row for each algorithm, a column for each value."""
    searched = [row for row in case.rows if row.figures.get("searched") and row.figures["tried"]]
    values = list(dict.fromkeys(str(each["value"]) for row in searched for each in row.figures["tried"]))
    if not values:
        return None
    rows = []
    for row in searched:
        found = {str(each["value"]): readable(number(each["quality"]["mean"])) for each in row.figures["tried"]}
        rows.append([row.label, *(found.get(value, "-") for value in values)])
    return [searched[0].figures["searched"]["name"], *values], rows


def settings_text(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def pace_text(pace: dict[str, Any]) -> str:
    """How long steps pretended to take and who was late; empty when nobody pretended."""
    parts = []
    if pace.get("compute_s"):
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
