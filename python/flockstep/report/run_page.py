"""The page of one run: what was found first, then figures, then pictures."""

from collections.abc import Callable

from flockstep.report import meeting_pictures, page, run_pictures, step_time_pictures, timeline_pictures
from flockstep.report.progress import Progress
from flockstep.report.run_words import figures_of, findings_of, headline_of, notes_of
from flockstep.report.style import Picture
from flockstep.report.values import Run


def page_of(run: Run, progress: Progress) -> str:
    title, lead = headline_of(run)
    body = [page.headline(title, lead)]
    if found := findings_of(run):
        body.append(page.findings(found))
    else:
        body.append(page.paragraph("Nothing suspicious was found.", "calm"))
    body += [page.paragraph(note, "note") for note in notes_of(run)]
    if figures := figures_of(run):
        body += [page.heading("Figures"), page.table((), figures, kind="pairs")]

    def draw(what: str, picture: Callable[[Run], Picture | None]) -> Picture | None:
        progress.say(what)
        return picture(run)

    learning = [
        draw("quality", run_pictures.quality),
        draw("loss", run_pictures.train_loss),
        draw("waiting", run_pictures.shares),
        draw("step times", step_time_pictures.of_run),
        draw("freshness", meeting_pictures.freshness),
        draw("staleness", meeting_pictures.staleness_of_run),
        draw("the timeline", timeline_pictures.of_run),
    ]
    body += page.section("Learning and time", learning)
    workers = [
        draw("agreement", run_pictures.agreement),
        draw("norms", run_pictures.norms),
        draw("coefficients", run_pictures.coefficients),
    ]
    progress.say("cosines")
    workers += run_pictures.heat_maps(run)
    body += page.section("The workers, side by side", workers)
    return page.document(f"flockstep: {title}", body)
