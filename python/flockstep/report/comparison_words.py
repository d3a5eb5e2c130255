"""What a comparison has to say in words."""

import math
import re
from collections import Counter

from flockstep.report.tables import pace_text, readable, searched_in, settings_text
from flockstep.report.values import Case, Comparison, Row, number
from flockstep.report.wording import counted, listed

MOST_NAMED = 4


def case_name(case: Case) -> str:
    return f"{counted(case.workers, 'worker')}, batch {case.batch}"


def headline_of(comparison: Comparison) -> tuple[str, str]:
    how = comparison.how
    labels = dict.fromkeys(row.label for case in comparison.cases for row in case.rows)
    sizes = case_name(comparison.cases[0]) if len(comparison.cases) == 1 else counted(len(comparison.cases), "case")
    what = next(iter(labels)) if len(labels) == 1 else f"{len(labels)} algorithms"
    seeds, first = how.get("seeds", 1), how.get("first_seed", 1)
    parts = [
        f"On the {how.get('engine')} engine, "
        + (f"whose network is {how['platform']}, " if "platform" in how else "")
        + (f"seed {first}" if seeds == 1 else f"seeds {first} to {first + seeds - 1}")
    ]
    if settings := settings_text(how.get("task_settings", {})):
        parts.append(f"the task with {settings}")
    if pace := pace_text(how.get("pace", {})):
        parts.append(pace)
    return f"{what} on {how.get('task')}, {sizes}", "; ".join(parts) + "."


def _known(case: Case, name: str) -> list[tuple[float, Row]]:
    """The rows with this figure, the smallest first."""
    found = [(number((row.figures.get(name) or {}).get("mean")), row) for row in case.rows]
    return sorted((pair for pair in found if math.isfinite(pair[0])), key=lambda pair: pair[0])


def _waited(case: Case) -> str:
    known = _known(case, "wait_share")
    if not known or known[-1][0] - known[0][0] < 0.01:
        return ""
    (least, first), (most, last) = known[0], known[-1]
    return f"{last.label} waited most ({100 * most:.0f}% of its time), {first.label} least ({100 * least:.0f}%)."


def _fresh(case: Case) -> str:
    known = [f"{100 * share:.0f}% of those of {row.label}" for share, row in reversed(_known(case, "fresh_fraction"))]
    return f"Of the steps that were merged with an average, {listed(known)} were in it themselves." if known else ""


def _missed(case: Case) -> str:
    """Who did not reach the target."""
    if not math.isfinite(case.target):
        return ""
    none = [row.label for row in case.rows if row.figures.get("target_reached") == 0]
    if not none or len(none) == len(case.rows):
        return ""
    return f"{listed(none)} did not reach {readable(case.target)}."


def _diverged(case: Case) -> str:
    rows = [row for row in case.rows if row.figures.get("diverged")]
    names = [f"{row.label} ({row.figures['diverged']} of {counted(int(row.figures['runs']), 'run')})" for row in rows]
    return f"Diverged: {listed(names)}." if names else ""


def _seen_in_runs(case: Case) -> list[str]:
    """What the runs themselves have found, each once with how many saw it."""
    found = []
    for row in case.rows:
        # The figures in brackets differ from seed to seed.
        seen = Counter(re.sub(r"\s*\([^)]*\)$", "", sentence) for sentence in row.findings)
        for sentence, times in seen.most_common(MOST_NAMED):
            runs = int(row.figures["runs"])
            where = f" in {times} of {runs} runs" if runs > 1 else ""
            found.append(f"{row.label}{where}: {sentence.rstrip('.')}.")
    return found


def findings_of(case: Case) -> list[str]:
    """The most telling first."""
    verdict = re.split(r"(?<=\.) ", case.verdict)
    found = [*verdict, _diverged(case), _missed(case), _waited(case), _fresh(case), *_seen_in_runs(case)]
    return [sentence for sentence in found if sentence]


def _chosen_with(seeds: int | None, of: int | None) -> str:
    """Where only some of the seeds took part in the search."""
    if seeds is None or of is None or seeds == of:
        return ""
    return f"; it was chosen with the first{f' {seeds}' if seeds > 1 else ''} of {of} seeds"


def notes_of(comparison: Comparison, case: Case) -> list[str]:
    """Small print on the table and the curves."""
    notes = []
    searched = [row.figures["searched"] for row in case.rows if row.figures.get("searched")]
    if searched:
        aside = any(each.get("by") == "validation" for each in searched)
        notes.append(
            f"Each algorithm's {searched_in(comparison, case)} is the one with the best {comparison.metric}"
            + (" on data kept aside, which the table does not use" if aside else "")
            + _chosen_with(searched[0].get("seeds"), comparison.how.get("seeds"))
            + "."
        )
    if any(each["edge"] for each in searched):
        notes.append("(edge): the best value is the smallest or largest that was tried; look beyond it.")
    lost = [run for row in case.rows for run in row.lost if row.curve is None]
    if lost:
        names = ", ".join(lost[:MOST_NAMED]) + (f" and {len(lost) - MOST_NAMED} more" if len(lost) > MOST_NAMED else "")
        notes.append(f"The curves are drawn without {names}: {'its' if len(lost) == 1 else 'their'} metrics are gone.")
    return notes
