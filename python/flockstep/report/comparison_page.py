"""The page of a comparison: for every case its table as it was printed, and its pictures."""

from flockstep.report import comparison_pictures, meeting_pictures, page
from flockstep.report.progress import Progress
from flockstep.report.style import colour
from flockstep.report.tables import case_table, has_edge, pace_text, settings_text
from flockstep.report.values import Case, Comparison

MOST_NAMED = 4


def _name(case: Case) -> str:
    return f"{case.workers} workers, batch {case.batch}"


def _lead(comparison: Comparison) -> str:
    how = comparison.how
    seeds, first = how.get("seeds", 1), how.get("first_seed", 1)
    parts = [
        f"On the {how.get('engine')} engine, "
        + (f"seed {first}" if seeds == 1 else f"seeds {first} to {first + seeds - 1}")
    ]
    if settings := settings_text(how.get("task_settings", {})):
        parts.append(f"the task with {settings}")
    if pace := pace_text(how.get("pace", {})):
        parts.append(pace)
    return "; ".join(parts) + "."


def _title(comparison: Comparison) -> str:
    labels = dict.fromkeys(row.label for case in comparison.cases for row in case.rows)
    sizes = f", {_name(comparison.cases[0])}" if len(comparison.cases) == 1 else f", {len(comparison.cases)} cases"
    what = next(iter(labels)) if len(labels) == 1 else f"{len(labels)} algorithms"
    return f"{what} on {comparison.how.get('task')}{sizes}"


def _lost(case: Case) -> str:
    """One line on what the pictures cannot show."""
    lost = [run for row in case.rows for run in row.lost]
    if not lost:
        return ""
    names = ", ".join(lost[:MOST_NAMED]) + (f" and {len(lost) - MOST_NAMED} more" if len(lost) > MOST_NAMED else "")
    return f"The curves are drawn without {names}: {'its' if len(lost) == 1 else 'their'} metrics are gone."


def _case(comparison: Comparison, case: Case, colours: comparison_pictures.Colours, progress: Progress) -> list[str]:
    head, rows = case_table(comparison, case)
    keys = [colour(colours[row.label]) for row in case.rows]
    body = [page.paragraph(case.verdict), page.table(head, rows, keys)]
    if has_edge(case):
        body.append(
            page.paragraph("(edge): the best value is the smallest or largest that was tried; look beyond it.", "note")
        )
    body.append(page.paragraph(_lost(case), "note"))
    progress.say(_name(case))
    drawn = [
        comparison_pictures.against_step(comparison, case, colours),
        comparison_pictures.against_time(comparison, case, colours),
        comparison_pictures.search(comparison, case, colours),
        comparison_pictures.throughput(case, colours),
        meeting_pictures.staleness_of_case(case, colours),
    ]
    if max(int(row.figures["runs"]) for row in case.rows) > 1:
        note = "Lines are medians over the seeds, bands reach from the lowest to the highest seed; so do whiskers."
        body.append(page.paragraph(note, "note"))
    return [*body, page.pictures(drawn)]


def page_of(comparison: Comparison, progress: Progress) -> str:
    title = _title(comparison)
    body = [page.headline(title, _lead(comparison))]
    if comparison.interrupted:
        body.append(page.findings([("This comparison was interrupted: some runs are missing or short.", "")]))
    if not comparison.cases:
        body.append(page.paragraph("No run has ended yet."))
    colours = comparison_pictures.colours_of(comparison)
    for case in comparison.cases:
        if len(comparison.cases) > 1:
            body.append(page.heading(_name(case)))
        body += _case(comparison, case, colours, progress)
    return page.document(f"flockstep: {title}", body)
