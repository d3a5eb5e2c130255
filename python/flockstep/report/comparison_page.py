"""The page of a comparison: for every case what was found, its tables as they are printed, and its pictures."""

from collections.abc import Callable

from flockstep.report import (
    bar_pictures,
    comparison_pictures,
    meeting_pictures,
    page,
    run_pictures,
    step_time_pictures,
    timeline_pictures,
)
from flockstep.report.comparison_words import case_name, findings_of, headline_of, notes_of
from flockstep.report.progress import Progress
from flockstep.report.reading import best_run
from flockstep.report.style import Picture, key
from flockstep.report.tables import about_quality, case_table, tried_table
from flockstep.report.values import Case, Colours, Comparison
from flockstep.report.wording import capitalised

SEEDS_NOTE = (
    "Lines are {lines} over the seeds, as the table's column is, and bars are means unless they say otherwise; shaded bands "
    "and whiskers reach from the lowest to the highest seed."
)
TIMELINE_NOTE = (
    "The same step of the run with the first seed, all on one scale: who is late is late everywhere. Thin bars show what "
    "goes on beside computing and waiting; where nothing is drawn, a worker did none of these: it may have been evaluating."
)


def _coefficients(comparison: Comparison, case: Case, progress: Progress) -> list[Picture]:
    """Of each rule that weighs its workers, in its best run."""
    drawn = []
    for row in case.rows:
        progress.say(f"{case_name(case)}: coefficients of {row.label}")
        run = best_run(comparison, row)
        picture = run_pictures.coefficients(run, row.label) if run else None
        if picture:
            drawn.append(picture)
    return drawn


def _pictures(comparison: Comparison, case: Case, colours: Colours, progress: Progress) -> list[str]:
    def draw(what: str, picture: Callable[[], Picture | None]) -> Picture | None:
        progress.say(f"{case_name(case)}: {what}")
        return picture()

    metric = comparison.metric
    quality = [
        draw("against time", lambda: comparison_pictures.against_time(comparison, case, colours)),
        draw("against steps", lambda: comparison_pictures.against_step(comparison, case, colours)),
        draw("time to target", lambda: bar_pictures.time_to_target(metric, case, colours)),
        draw("search", lambda: comparison_pictures.search(comparison, case, colours)),
    ]
    speed = [
        draw("throughput", lambda: bar_pictures.throughput(case, colours)),
        draw("share of ideal", lambda: bar_pictures.share_of_ideal(case, colours)),
        draw("waiting", lambda: bar_pictures.waiting(case, colours)),
        draw("step times", lambda: step_time_pictures.of_case(case)),
        draw("fresh", lambda: bar_pictures.fresh(case, colours)),
        draw("staleness", lambda: meeting_pictures.staleness_of_case(case, colours)),
    ]
    several = any(row.figures["runs"] > 1 for row in case.rows)
    coefficients = _coefficients(comparison, case, progress)
    progress.say(f"{case_name(case)}: timelines")
    return [
        *page.section(
            "Quality",
            quality,
            SEEDS_NOTE.format(lines="medians" if case.statistic == "median" else "means") if several else "",
        ),
        *page.section("Speed and waiting", speed),
        *page.section("Who counts how much", coefficients),
        *page.section("One step, worker by worker", timeline_pictures.of_case(comparison, case), TIMELINE_NOTE),
    ]


def _case(comparison: Comparison, case: Case, colours: Colours, progress: Progress) -> list[str]:
    keys = [key(colours[row.label]) for row in case.rows]
    body = [page.findings([(sentence, "") for sentence in findings_of(case)], "said")]
    body.append(page.paragraph(capitalised(about_quality(comparison, case)) + ".", "note"))
    body.append(page.table(*case_table(comparison, case), keys))
    if tried := tried_table(comparison, case):
        body.append(page.table(*tried))
    body += [page.paragraph(note, "note") for note in notes_of(comparison, case)]
    return body + _pictures(comparison, case, colours, progress)


def page_of(comparison: Comparison, progress: Progress) -> str:
    title, lead = headline_of(comparison)
    body = [page.headline(title, lead)]
    if comparison.interrupted:
        body.append(page.findings([("This comparison was interrupted: some runs are missing or short.", "")]))
    if not comparison.cases:
        body.append(page.paragraph("No run has ended yet."))
    colours = comparison_pictures.colours_of(comparison)
    for case in comparison.cases:
        if len(comparison.cases) > 1:
            body.append(page.heading(case_name(case)))
        body += _case(comparison, case, colours, progress)
    return page.document(f"flockstep: {title}", body)
