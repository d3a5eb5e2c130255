"""The pictures of one run."""

import math
from itertools import takewhile

import matplotlib
import numpy as np

from flockstep.report.reading import Run
from flockstep.report.records import Cosines
from flockstep.report.sheet import Entry, Picture, Sheet
from flockstep.report.style import HEIGHT, INK, PALETTE, box_swatch, colour, fit_y, log_y, y_title
from flockstep.report.words import capitalised, counted, listed, name_workers, short
from flockstep.report.worker_lines import FEW, Bins, worker_figure

EVENT_WORDS = {"non_finite": "non-finite gradient", "all_zero": "all gradients zero", "unsafe": "unsafe weights"}
MOST_STEPS = 12  # that are named
PRINTED_UP_TO = 8  # workers whose cosines are printed inside the cells
NUMBERED_UP_TO = 32
ON_DARK, ON_LIGHT = "#FEFEFE", "#1B1B1B"  # letters in cells, whose colours are the same on a dark page
LEAST_COSINE = 0.05  # a scale that ends below would make something of nothing
EQUAL = 1e-5  # coefficients that differ by no more are the same, as they were written


def flagged_workers(run: Run) -> list[int]:
    return sorted({worker for finding in run.findings for worker in finding.workers})


def quality(run: Run) -> Picture | None:
    if not run.evaluations:
        return None
    metric = run.evaluations[0].metric
    values = np.array([evaluation.quality for evaluation in run.evaluations])
    sheet = Sheet()
    axes = sheet.axes()
    steps = np.array([evaluation.step for evaluation in run.evaluations], dtype=np.float64)
    (line,) = axes.plot(steps, values, color=PALETTE[0], marker="o", markersize=3)
    sheet.tell(line, metric, metric, steps, values)
    fit_y(axes, values)
    sentence = f"{capitalised(metric)}: {short(values[0])} at first, {short(values[-1])} at last"
    axes.set_xlabel("step")
    y_title(axes, metric)
    return sheet.picture(sentence, f"Line: {sentence}, over {run.evaluations[-1].step} steps.")


def train_loss(run: Run) -> Picture | None:
    steps = run.steps
    if not steps.step.size or not (np.isfinite(steps.loss).any() or steps.events):
        return None
    bins = Bins.over(steps.step.size)
    loss = bins.means(steps.loss)
    sheet = Sheet()
    axes = sheet.axes()
    x = bins.means(steps.step)
    (line,) = axes.plot(x, loss, color=PALETTE[0], linewidth=1.2)
    sheet.tell(line, "training loss", "training loss", x, loss)
    fit_y(axes, loss)
    title = "Training loss, mean over the workers"
    for index, kind in enumerate(sorted({kind for _, kind in steps.events})):
        at = [step for step, each in steps.events if each == kind]
        shade, name = PALETTE[1 + index], f"{EVENT_WORDS.get(kind, kind)} ({counted(len(at), 'step')})"
        (ticks,) = axes.plot(
            *(at, [0.02 + 0.04 * index] * len(at)),
            transform=axes.get_xaxis_transform(),
            linestyle="none",
            marker="|",
            markersize=9,
            markeredgewidth=1.5,
            color=shade,
        )
        sheet.tell(ticks, name, f"{name}: {listed([str(step) for step in at], MOST_STEPS)}")
        sheet.legend.append(Entry(name, name, box_swatch(shade, shade)))
        title = "Training loss, and the steps in which a guard fired"
    axes.set_xlabel(bins.axis_label)
    y_title(axes, "loss")
    return sheet.picture(title, f"Line: {title}, over {int(steps.step[-1])} steps.")


def coefficients(run: Run, name: str = "") -> Picture | None:
    """`name`: of the algorithm, where others stand beside it. Then, of one that weighs all alike there is none."""
    values = run.steps.per_worker.get("coefficients")
    if values is None or (name and np.nanmax(np.ptp(values, axis=1), initial=0.0) <= EQUAL):
        return None
    title = f"{name}: how much each worker's gradient counts" if name else "How much each worker's gradient counts"
    sheet, axes = worker_figure("coefficient", run.steps.step, values, flagged_workers(run), without_outliers=True)
    if (values < 0).any():
        axes.axhline(0, color=INK, linewidth=0.8)
    return sheet.picture(title, f"Lines, one per worker: {title}.")


def norms(run: Run) -> Picture | None:
    values = run.steps.per_worker.get("norms")
    if values is None:
        return None
    title = "How long each worker's gradient is"
    # A norm of zero has no place on a logarithmic axis: the line has a gap there, and findings speak of it.
    sheet, axes = worker_figure(
        "norm (logarithmic)", run.steps.step, np.where(values > 0, values, math.nan), flagged_workers(run)
    )
    log_y(axes)
    return sheet.picture(title, f"Lines, one per worker: {title}.")


def agreement(run: Run) -> Picture | None:
    values = run.steps.per_worker.get("agreement")
    if values is None:
        return None
    against = sorted({worker for finding in run.findings if finding.finding == "against" for worker in finding.workers})
    title = (
        f"Against the others: worker{'s' if len(against) > 1 else ''} {name_workers(against)}"
        if against
        else "How far each worker agrees with the others"
    )
    sheet, axes = worker_figure("mean cosine with the others", run.steps.step, values, flagged_workers(run))
    axes.axhline(0, color=INK, linewidth=0.8)
    return sheet.picture(title, f"Lines, one per worker: {title}.")


def shares(run: Run) -> Picture | None:
    steps = run.steps
    if not steps.step.size or np.nansum(steps.seconds) <= 0:
        return None
    bins = Bins.over(steps.step.size)
    seconds = np.maximum(bins.sums(steps.seconds), 1e-300)
    waited = float(np.nansum(steps.wait_s) / np.nansum(steps.seconds))
    sheet = Sheet()
    axes = sheet.axes()
    highest = 1.0
    for index, (name, part) in enumerate(
        (("waiting for others", steps.wait_s), ("transfers under way, waiting included", steps.transfer_s))
    ):
        share = 100 * bins.sums(part) / seconds
        highest = max(highest, float(np.nanmax(share, initial=0.0)))
        sheet.line(axes, name, bins.means(steps.step), share, index, linewidth=1.2)
    title = f"Workers waited for {100 * waited:.0f}% of their time"
    axes.set_xlabel(bins.axis_label)
    y_title(axes, "share of a step's time (%)")
    axes.set_ylim(0, 1.08 * highest)
    return sheet.picture(title, f"Lines: share of time spent waiting and in transfers. {title}.")


def freshness(run: Run) -> Picture | None:
    """What waiting buys: as both go on, the share of fresh steps and of the time spent waiting."""
    known = [evaluation for evaluation in run.evaluations if math.isfinite(evaluation.fresh_fraction)]
    if not known:
        return None
    sheet = Sheet()
    axes = sheet.axes()
    steps = np.array([evaluation.step for evaluation in known], dtype=np.float64)
    lines = (
        ("fresh, of the merged steps", [evaluation.fresh_fraction for evaluation in known]),
        ("waiting, of the time in steps", [evaluation.wait_share for evaluation in known]),
    )
    for index, (name, shares) in enumerate(lines):
        sheet.line(axes, name, steps, 100 * np.array(shares), index)
    title = f"{100 * known[-1].fresh_fraction:.0f}% of merged steps fresh"
    if math.isfinite(known[-1].wait_share):
        title += f", {100 * known[-1].wait_share:.0f}% of the time waiting"
    axes.set_xlabel("step")
    y_title(axes, "share so far (%)")
    axes.set_ylim(bottom=0)
    return sheet.picture(title, f"Lines: share of fresh steps and of time spent waiting. {title}.")


def _cell(value: float) -> str:
    """.12 or -.05: without the zero that every cell would begin with."""
    if not math.isfinite(value):
        return ""
    text = f"{abs(value):.2f}"
    text = "1" if text == "1.00" else text.lstrip("0") if text != "0.00" else "0"
    return ("\u2212" if value < 0 and text != "0" else "") + text


def cosines(run: Run, part: Cosines, title: str) -> Picture:
    workers = part.matrix.shape[0]
    sheet = Sheet(HEIGHT + 1.4)
    axes = sheet.axes()
    shown = np.where(np.eye(workers, dtype=bool), math.nan, part.matrix)  # everybody agrees with themselves
    limit = max(float(np.nanmax(np.abs(shown), initial=0.0)), LEAST_COSINE)
    # Its lightness falls all the way, so that print without colour tells the same.
    colours = matplotlib.colormaps["cividis_r"].with_extremes(bad=(0, 0, 0, 0))
    mesh = axes.pcolormesh(
        np.ma.masked_invalid(shown), vmin=-limit, vmax=limit, cmap=colours, rasterized=workers > NUMBERED_UP_TO
    )
    sheet.tell_cells(mesh, shown)
    axes.set_aspect("equal")
    axes.invert_yaxis()
    axes.grid(False)
    if workers <= NUMBERED_UP_TO:
        flagged = flagged_workers(run)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_ticks(np.arange(workers) + 0.5, [str(worker) for worker in range(workers)])
            for worker, tick in enumerate(axis.get_ticklabels()):
                if worker in flagged:
                    tick.set(fontweight="bold", color=colour(worker) if workers <= FEW else PALETTE[1])
        axes.tick_params(length=0, labelsize=9.5 if workers <= 12 else 8 if workers <= 16 else 5.5)
    if workers <= PRINTED_UP_TO:
        for (row, column), value in np.ndenumerate(shown):
            axes.text(
                *(column + 0.5, row + 0.5, _cell(float(value))),
                ha="center",
                va="center",
                fontsize=9,
                color=ON_DARK if value > 0.1 * limit else ON_LIGHT,
            )
    axes.set(xlabel="worker", ylabel="worker")
    bar = sheet.figure.colorbar(mesh, ax=axes, location="bottom", shrink=0.9, aspect=30)
    bar.set_ticks([-limit, 0, limit], labels=[f"\u2212{limit:.2g}", "0: neither", f"{limit:.2g}"])
    bar.set_label("cosine (\u22121: opposite, 1: the same direction)")
    bar.outline.set_visible(False)
    alt = f"Heat map of the cosines between {workers} workers' gradients: {title}."
    return sheet.picture(title, alt)


def mean_cosines(parts: list[Cosines]) -> Cosines:
    weights = np.array([part.steps for part in parts], dtype=np.float64)[:, None, None]
    stacked = np.stack([part.matrix for part in parts])
    known = np.isfinite(stacked) * weights
    with np.errstate(invalid="ignore"):
        mean = np.nansum(stacked * weights, axis=0) / known.sum(axis=0)
    last = parts[-1]
    return Cosines(step=last.step, steps=last.step - parts[0].first_step + 1, matrix=mean)


def heat_maps(run: Run) -> list[Picture]:
    """The last stretch of the run and, if there was more than one with these workers, the mean over those."""
    if not run.cosines:
        return []
    last = run.cosines[-1]

    def titled(part: Cosines, what: str = "") -> Picture:
        return cosines(run, part, f"Who agrees with whom, {what}steps {part.first_step} to {part.step}")

    # Of a run that was resumed with another number of workers, those who are there now.
    same = list(takewhile(lambda part: part.matrix.shape == last.matrix.shape, reversed(run.cosines)))[::-1]
    return [*([titled(mean_cosines(same), "mean over ")] if len(same) > 1 else []), titled(last)]
