"""What the templates are filled with: words, tables and pictures in the order of the page."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from matplotlib.ticker import NullLocator

from flockstep.report import comparison_pictures, histograms, run_pictures, timelines, words
from flockstep.report.panels import Panels
from flockstep.report.reading import Comparison, Run, Study, best_run
from flockstep.report.records import Case, StudyTable
from flockstep.report.sheet import Entry, Picture, Sheet
from flockstep.report.style import HEIGHT, Colours, log_y, look, swatch, y_title
from flockstep.report.words import capitalised

SEEDS_NOTE = (
    "Lines are {lines} over the seeds, as the table's column is, and bars are means unless they say otherwise; shaded bands "
    "and whiskers reach from the lowest to the highest seed."
)
TIMELINE_NOTE = (
    "A step of the run with the first seed and what follows, all on one scale: a worker that is late in it is late under "
    "every algorithm. Thin bars show what goes on beside computing and waiting; a transfer among all workers begins when the "
    "last of them starts it. Where nothing is drawn, a worker did none of these: it may have been evaluating."
)

Say = Callable[[str], None]  # what is being drawn
Drawing = tuple[str, Callable[[], Picture | None]]


@dataclass
class Section:
    name: str
    pictures: list[Picture]
    note: str = ""
    panels: list[Panels] = field(default_factory=list)


def _draw(say: Say, drawings: Iterable[Drawing]) -> list[Picture]:
    drawn = []
    for what, picture in drawings:
        say(what)
        if made := picture():
            drawn.append(made)
    return drawn


def _of_run(run: Run, say: Say) -> tuple[str, dict[str, Any]]:
    title, lead = words.headline_of_run(run)
    learning: list[Drawing] = [
        ("quality", lambda: run_pictures.quality(run)),
        ("loss", lambda: run_pictures.train_loss(run)),
        ("waiting", lambda: run_pictures.shares(run)),
        ("step times", lambda: histograms.step_times_of_run(run)),
        ("freshness", lambda: run_pictures.freshness(run)),
        ("staleness", lambda: histograms.staleness_of_run(run)),
        ("the timeline", lambda: timelines.of_run(run)),
    ]
    workers: list[Drawing] = [
        ("agreement", lambda: run_pictures.agreement(run)),
        ("norms", lambda: run_pictures.norms(run)),
        ("coefficients", lambda: run_pictures.coefficients(run)),
    ]
    drawn = [
        Section("Learning and time", _draw(say, learning)),
        Section("The workers, side by side", [*_draw(say, workers), *run_pictures.heat_maps(run)]),
    ]
    return "run.html", {
        "title": title,
        "lead": lead,
        "found": words.findings_of_run(run),
        "small_print": words.notes_of_run(run),
        "figures": words.figures_of_run(run),
        "drawn": drawn,
    }


def _sections(comparison: Comparison, case: Case, colours: Colours, say: Say) -> list[Section]:
    metric = comparison.saved.metric
    curves = []
    for what, draw in (("time", comparison_pictures.against_time), ("steps", comparison_pictures.against_step)):
        say(f"against {what}")
        if made := draw(comparison, case, colours):
            curves.append(made)
    quality: list[Drawing] = [
        ("time to target", lambda: comparison_pictures.time_to_target(metric, case, colours)),
        ("search", lambda: comparison_pictures.search(comparison, case, colours)),
    ]
    speed: list[Drawing] = [
        ("throughput", lambda: comparison_pictures.throughput(case, colours)),
        ("share of ideal", lambda: comparison_pictures.share_of_ideal(case, colours)),
        ("waiting", lambda: comparison_pictures.waiting(case, colours)),
        ("step times", lambda: histograms.step_times_of_case(comparison, case)),
        ("fresh", lambda: comparison_pictures.fresh(case, colours)),
        ("staleness", lambda: histograms.staleness_of_case(case, colours)),
    ]
    lines = "medians" if case.statistic == "median" else "means"
    note = SEEDS_NOTE.format(lines=lines) if any(row.runs > 1 for row in case.rows) else ""
    pictures = [*(picture for picture, _ in curves), *_draw(say, quality)]
    panels = [each for _, each in curves if each]
    sections = [Section("Quality", pictures, note, panels), Section("Speed and waiting", _draw(say, speed))]
    coefficients = []  # of each rule that weighs its workers, in its best run
    for row in case.rows:
        say(f"coefficients of {row.algorithm}")
        run = best_run(comparison, row)
        if picture := run_pictures.coefficients(run, row.algorithm) if run else None:
            coefficients.append(picture)
    say("timelines")
    return [
        *sections,
        Section("Who counts how much", coefficients),
        Section("The same moment, worker by worker", timelines.of_case(comparison, case), TIMELINE_NOTE),
    ]


def _of_comparison(comparison: Comparison, say: Say) -> tuple[str, dict[str, Any]]:
    title, lead = words.headline_of_comparison(comparison)
    colours = comparison_pictures.colours_of(comparison)
    cases = []
    for case in comparison.saved.cases:
        name = words.case_name(case)
        cases.append(
            {
                "name": name,
                "found": [(sentence, "") for sentence in words.findings_of_case(comparison, case)],
                "about": capitalised(case.about) + ".",
                "table": case.table,
                "marks": [swatch(colours[row.algorithm], line=False) for row in case.rows],
                "tried": case.tried_table,
                "notes": case.notes,
                "drawn": _sections(comparison, case, colours, lambda what, name=name: say(f"{name}: {what}")),  # type: ignore[misc]
            }
        )
    return "comparison.html", {
        "title": title,
        "lead": lead,
        "interrupted": comparison.saved.interrupted,
        "cases": cases,
    }


def _study_sheet(table: StudyTable) -> Sheet | None:
    drawn = [series for series in table.picture.series if series.x.size]
    if not drawn:
        return None
    places = {name: index for index, name in enumerate(dict.fromkeys(series.name for series in drawn))}
    sheet = Sheet(HEIGHT + 0.5)
    axes = sheet.axes()
    # Marks are for points, if there are any.
    line = {"marker": ""} if any(series.mark != "line" for series in drawn) else {}
    for series in drawn:
        place, name = places[series.name], series.name
        like = look(place) | (line if series.mark == "line" else {"linestyle": "none", "markersize": 5})
        (shape,) = axes.plot(series.x, series.y, **like)
        sheet.tell(shape, name, name, series.x, series.y)
    sheet.legend = [Entry(name, name, swatch(place)) for name, place in places.items()]
    if table.picture.log_y:
        log_y(axes)
    if table.picture.log_x:
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
        ticks = np.unique(np.concatenate([series.x for series in drawn]))
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xlabel(table.picture.x_title)
    if names := table.picture.x_names:
        axes.set_xticks(range(len(names)), names, rotation=20, ha="right")
        axes.set_xlim(-0.5, len(names) - 0.5)
        sheet.x_names = names
    y_title(axes, table.picture.y_title)
    return sheet


def _of_study(study: Study, say: Say) -> tuple[str, dict[str, Any]]:
    """Each picture becomes a file of its own as well."""
    saved = study.saved
    drawn = {}
    for table in saved.tables:
        say(table.name)
        if sheet := _study_sheet(table):
            title, names = table.picture.title, ", ".join(entry.label for entry in sheet.legend)
            alt = f"{capitalised(title)}: {table.picture.y_title} of {names}."
            drawn[table.name] = sheet.picture(title, alt)
            (study.folder / f"{table.name}.svg").write_bytes(sheet.as_file())
    return "study.html", {
        "title": saved.study,
        "lead": capitalised(saved.description) + ".",
        "words": saved.words,
        "tables": saved.tables,
        "drawn": drawn,
    }


def page_of(found: Run | Comparison | Study, say: Say) -> str:
    if isinstance(found, Run):
        name, values = _of_run(found, say)
    else:
        name, values = _of_comparison(found, say) if isinstance(found, Comparison) else _of_study(found, say)
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    return templates.get_template(name).render(values)
