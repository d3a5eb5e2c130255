"""The page of a study: its tables as they are printed, and a picture for each, which is a file of its own as well."""

import base64
from pathlib import Path

import numpy as np
from matplotlib.ticker import NullLocator

from flockstep.report import page
from flockstep.report.progress import Progress
from flockstep.report.study_reading import Series, Study, Table
from flockstep.report.style import HEIGHT, Picture, colour, legend, log_y, look, new_figure, picture_of, plain, y_title
from flockstep.report.wording import capitalised


def _draw(table: Table) -> Picture | None:
    drawn = [series for series in table.series if series.x.size]
    if not drawn:
        return None
    places = {name: index for index, name in enumerate(dict.fromkeys(series.name for series in drawn))}
    lines = {series.name for series in drawn if series.mark == "line"}
    figure = new_figure(height=HEIGHT + 0.9)
    axes = figure.subplots()

    def label(series: Series) -> str:
        return "" if series.mark == "points" and series.name in lines else plain(series.name)

    for series in drawn:
        place = places[series.name]
        if series.mark == "line":
            axes.plot(series.x, series.y, **{**look(place), "marker": ""}, label=label(series))
        else:
            mark = look(place)["marker"]
            axes.plot(series.x, series.y, mark, color=colour(place), markersize=5, label=label(series))
    if table.picture["log_y"]:
        log_y(axes)
    if table.picture["log_x"]:
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
        ticks = np.unique(np.concatenate([series.x for series in drawn]))
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    if names := table.picture.get("x_names"):
        axes.set_xticks(range(len(names)), [plain(name) for name in names], rotation=20, ha="right")
        axes.set_xlim(-0.5, len(names) - 0.5)
    axes.set_xlabel(plain(table.picture["x_title"]))
    y_title(axes, table.picture["y_title"])
    legend(figure, axes)
    title = table.picture["title"]
    return picture_of(figure, title, f"{capitalised(title)}: {table.picture['y_title']} of {', '.join(places)}.")


def write_pictures(study: Study, drawn: dict[str, Picture | None]) -> None:
    for name, picture in drawn.items():
        if picture:
            _, encoded = picture.source.split(",", 1)
            Path(study.folder / f"{name}.svg").write_bytes(base64.b64decode(encoded))


def page_of(study: Study, progress: Progress) -> str:
    body = [page.headline(study.name, capitalised(study.description) + ".")]
    body += [page.paragraph(sentence) for sentence in study.words]
    drawn: dict[str, Picture | None] = {}
    for table in study.tables:
        progress.say(table.name)
        drawn[table.name] = _draw(table)
        body += [page.heading(table.title), page.table(table.columns, table.rows), page.pictures([drawn[table.name]])]
    write_pictures(study, drawn)
    return page.document(f"flockstep: {study.name}", body)
