"""What a run or a comparison has to say in words and figures, the most telling first."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from flockstep.report.reading import Comparison, Run
from flockstep.report.records import PER_WORKER, Case, Finding, Pace, Row, Scalar, Spread, StepTimes

MOST_NAMED = 4
# Guards by their names in the metrics, and what each says when it has fired.
GUARDS = {
    "skipped_steps": ("updates skipped", "{} were skipped because a gradient was not finite"),
    "non_finite": ("steps with a non-finite gradient", "{} had a gradient that was not finite"),
    "all_zero": ("steps with all gradients zero", "{} had gradients that were all zero"),
    "unsafe": (
        "steps without safe weights",
        "{} fell back to normalized_mean or the plain mean because their weights were unsafe",
    ),
    "clipped": (
        "steps with a gradient far above the median",
        "{} had a gradient so far above the median worker's that it met the guard",
    ),
}


def short(value: float) -> str:
    if not math.isfinite(value):
        return "no number"
    return f"{value:.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"


def readable(value: float) -> str:
    """As the command writes figures (lab/compare/readable.h): large numbers in full, small ones to four digits."""
    if not math.isfinite(value):
        return "diverged"
    return f"{value:.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}"


def time_text(seconds: float) -> str:
    """As the command writes the times of steps (lab/command/train.cpp)."""
    if seconds >= 1:
        return f"{seconds:.3g} s"
    return f"{1e3 * seconds:.3g} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.3g} us"


def capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]


def counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def listed(names: Sequence[str], most: int = 6) -> str:
    """a, b and c; of many only the first."""
    shown = list(names[:most])
    if len(names) > most:
        shown.append(f"{len(names) - most} more")
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def name_workers(workers: Sequence[int], most: int = 6) -> str:
    names = ", ".join(str(worker) for worker in workers[:most])
    return names + (f" and {len(workers) - most} more" if len(workers) > most else "")


def settings_text(settings: Mapping[str, Scalar]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def pace_text(pace: Pace) -> str:
    """How long steps pretended to take and who was late; empty when nobody pretended."""
    parts = []
    if pace.compute_file:
        path, mean_ms = pace.compute_file.path, 1000 * pace.compute_s
        parts.append(f"steps whose times are drawn from {path}, {mean_ms:g} ms in the mean")
    elif pace.compute_s:
        parts.append(f"steps that compute for {1000 * pace.compute_s:g} ms")
    if pace.random_stragglers and pace.independent_stragglers:
        chance = f"each worker {1000 * pace.random_delay_s:g} ms late in each step where one of"
        parts.append(f"{chance} its {pace.random_stragglers} draws of a worker names it")
    elif pace.random_stragglers:
        parts.append(f"{pace.random_stragglers} random workers {1000 * pace.random_delay_s:g} ms late in each step")
    parts += [f"worker {late.worker} always {1000 * late.delay_s:g} ms late" for late in pace.fixed_stragglers]
    if pace.jitter_sigma:
        parts.append(f"lognormal jitter of {pace.jitter_sigma:g}")
    return ", ".join(parts)


# A run.


def guards_of(run: Run) -> dict[str, int]:
    if run.summary and run.summary.guards:
        return run.summary.guards
    return run.evaluations[-1].guards if run.evaluations else {}


def headline_of_run(run: Run) -> tuple[str, str]:
    summary = run.summary
    if summary is None:
        return f"Run in {run.folder.name}", "This run has not ended, or was killed: there is no summary.json."
    title = f"{summary.algorithm} on {summary.task}"
    if summary.metric is not None:
        title += f": {summary.metric} {readable(summary.quality)}"
    lead = [f"{counted(summary.workers, 'worker')} on {summary.engine}"]
    if summary.seed is not None:
        lead.append(f"seed {summary.seed}")
    lead.append(counted(summary.steps, "step") + (" (interrupted)" if summary.interrupted else ""))
    return title, ", ".join(lead)


def _detail(finding: Finding) -> str:
    steps = f"steps {finding.first_step} to {finding.last_step}"
    several = "s" if len(finding.workers) > 1 else ""
    workers = f"worker{several} {name_workers(sorted(finding.workers))}" if finding.workers else ""
    evidence = f"evidence {finding.evidence:.3g}" if math.isfinite(finding.evidence) else ""
    return ", ".join(part for part in (finding.finding, workers, steps, evidence) if part)


def _quality_told(run: Run) -> list[float]:
    """That at the end, where one was told."""
    if run.summary and run.summary.metric is not None:
        return [run.summary.quality]
    return [evaluation.quality for evaluation in run.evaluations[-1:]]


def findings_of_run(run: Run) -> list[tuple[str, str]]:
    """Sentences with their details."""
    found = [(capitalised(finding.sentence), _detail(finding)) for finding in run.findings]
    if run.missing:
        found.append((run.missing, ""))
    if not all(map(math.isfinite, _quality_told(run))):
        found.append(("The run diverged: its quality is not a number.", ""))
    for name, count in guards_of(run).items():
        if count > 0:
            words = GUARDS.get(name, (name, "{} fired the guard " + name))[1]
            what = "update" if name == "skipped_steps" else "step"
            text = words.format(counted(count, what))
            found.append((text if count > 1 else text.replace(" were ", " was ", 1), ""))
    if run.summary and run.summary.replicas_equal is False:
        found.append(("The workers did not end with the same model.", ""))
    return [(text if text.endswith((".", "?")) else text + ".", detail) for text, detail in found]


def _looked_at(run: Run) -> str:
    """What stands behind 'nothing was found': no more is claimed than was recorded."""
    looked = ["the guards"]
    if _quality_told(run):
        looked.insert(0, "whether the quality is a number")
    if run.summary and run.summary.replicas_equal is not None:
        looked.append("whether all workers ended with the same model")
    recorded = [name for name in PER_WORKER if name in run.steps.per_worker] + (["cosines"] if run.cosines else [])
    if recorded:
        looked.append(f"the workers' {', '.join(recorded)}")
    blind = (
        " This run recorded nothing that compares its workers with each other, so a worker that is wrong would not "
        "show here."
    )
    return f"Looked at: {'; '.join(looked)}.{'' if recorded else blind}"


def notes_of_run(run: Run) -> list[str]:
    return [_looked_at(run), *(capitalised(note) + "." for note in (run.summary.notes if run.summary else []))]


def _step_times(times: StepTimes | None) -> str:
    """Nothing where compute was not measured, as in runs of the PyTorch package."""
    if times is None or not sum(times.counts):
        return ""
    median, p90, p99, longest = map(time_text, (times.median_s, times.p90_s, times.p99_s, times.longest_s))
    return f"median {median}, 90th percentile {p90}, 99th {p99}, longest {longest}; waiting left out"


def _told(value: float, how: str) -> str:
    return how.format(value) if math.isfinite(value) else ""


def figures_of_run(run: Run) -> list[tuple[str, str]]:
    summary = run.summary
    guards = [(GUARDS.get(name, (name, ""))[0], str(count)) for name, count in guards_of(run).items()]
    if summary is None:
        return guards
    asked = summary.steps if summary.requested_steps is None else summary.requested_steps
    same = "the same on every worker" if summary.replicas_equal else "differs between workers"
    rows = [
        *([(summary.metric, readable(summary.quality))] if summary.metric is not None else []),
        *((name, readable(value)) for name, value in summary.figures.items()),
        ("training loss", readable(summary.train_loss) if math.isfinite(summary.train_loss) else ""),
        ("steps", f"{summary.steps} of {asked}"),
        ("batch", f"{summary.batch} samples over all workers" if summary.batch is not None else ""),
        ("time in steps", _told(summary.time_s, "{:.3g} s")),
        ("throughput", _told(summary.samples_per_s, "{:.5g} samples/s")),
        ("waiting", _told(100 * summary.wait_share, "{:.1f}% of the time")),
        ("of ideal", _told(100 * summary.share_of_ideal, "{:.1f}% of the throughput of workers who never wait")),
        ("step times", _step_times(summary.step_times)),
        ("fresh", _told(100 * summary.fresh_fraction, "{:.1f}% of the merged steps were in their average")),
        ("alone", _told(100 * summary.alone_share, "{:.1f}% of the steps found no new average to merge with")),
        ("staleness", _told(summary.mean_staleness, "{:.3g} iterations, mean over the contributions")),
        ("round", _told(1000 * summary.mean_round_s, "{:.3g} ms from a contribution to the result")),
        ("sent", _told(summary.bytes_sent_per_step / 1000, "{:.4g} kB per worker and step")),
        ("options of the task", settings_text(summary.task_settings)),
        ("options of the algorithm", settings_text(summary.algorithm_settings)),
        ("network", summary.platform),
        ("pace", pace_text(summary.pace)),
        *guards,
        ("model", f"{summary.model_hash} ({same})" if summary.model_hash else ""),
    ]
    return [(name, text) for name, text in rows if text]


# A comparison.


def case_name(case: Case) -> str:
    return f"{counted(case.workers, 'worker')}, batch {case.batch}"


def headline_of_comparison(comparison: Comparison) -> tuple[str, str]:
    how, cases = comparison.saved.how, comparison.saved.cases
    labels = dict.fromkeys(row.algorithm for case in cases for row in case.rows)
    sizes = case_name(cases[0]) if len(cases) == 1 else counted(len(cases), "case")
    what = next(iter(labels)) if len(labels) == 1 else f"{len(labels)} algorithms"
    parts = [
        f"On the {how.engine} engine, "
        + (f"whose network is {how.platform}, " if how.platform else "")
        + (
            f"seed {how.first_seed}"
            if how.seeds == 1
            else f"seeds {how.first_seed} to {how.first_seed + how.seeds - 1}"
        )
    ]
    if settings := settings_text(how.task_settings):
        parts.append(f"the task with {settings}")
    if pace := pace_text(how.pace):
        parts.append(pace)
    return f"{what} on {how.task}, {sizes}", "; ".join(parts) + "."


def _sorted_by(case: Case, name: str) -> list[tuple[float, Row]]:
    """The rows with this figure, the smallest first."""
    found = [(spread.mean, row) for row in case.rows if isinstance(spread := getattr(row, name), Spread)]
    return sorted((pair for pair in found if math.isfinite(pair[0])), key=lambda pair: pair[0])


def _waited(case: Case) -> str:
    known = _sorted_by(case, "wait_share")
    if not known or known[-1][0] - known[0][0] < 0.01:
        return ""
    (least, first), (most, last) = known[0], known[-1]
    return (
        f"{last.algorithm} waited most ({100 * most:.0f}% of its time), {first.algorithm} least ({100 * least:.0f}%)."
    )


def _fresh(case: Case) -> str:
    known = reversed(_sorted_by(case, "fresh_fraction"))
    shares = [f"{100 * share:.0f}% of those of {row.algorithm}" for share, row in known]
    return f"Of the steps that were merged with an average, {listed(shares)} were in it themselves." if shares else ""


def _missed(case: Case) -> str:
    """Who did not reach the target."""
    none = [row.algorithm for row in case.rows if row.target_reached == 0]
    if not math.isfinite(case.target) or not none or len(none) == len(case.rows):
        return ""
    return f"{listed(none)} did not reach {readable(case.target)}."


def _diverged(case: Case) -> str:
    names = [f"{row.algorithm} ({row.diverged} of {counted(row.runs, 'run')})" for row in case.rows if row.diverged]
    return f"Diverged: {listed(names)}." if names else ""


def _gone(comparison: Comparison, case: Case) -> str:
    """Names the runs with a folder that has been deleted since."""
    gone = [run for row in case.rows for run in row.folders if run not in comparison.summaries]
    have = "has" if len(gone) == 1 else "have"
    return f"{listed(gone)} {have} no summary.json any more: pictures lack what it told." if gone else ""


def _seen_in_runs(comparison: Comparison, case: Case) -> list[str]:
    """What the runs themselves have found, each once with how many saw it."""
    found = []
    for row in case.rows:
        sentences = [finding.sentence for run in comparison.summaries_of(row) for finding in run.findings]
        # The figures in brackets differ from seed to seed.
        seen = Counter(re.sub(r"\s*\([^)]*\)$", "", sentence) for sentence in sentences)
        for sentence, times in seen.most_common(MOST_NAMED):
            where = f" in {times} of {row.runs} runs" if row.runs > 1 else ""
            found.append(f"{row.algorithm}{where}: {sentence.rstrip('.')}.")
    return found


def findings_of_case(comparison: Comparison, case: Case) -> list[str]:
    verdict = re.split(r"(?<=\.) ", case.verdict)
    figures = [_diverged(case), _missed(case), _waited(case), _fresh(case)]
    found = [*verdict, *figures, *_seen_in_runs(comparison, case), _gone(comparison, case)]
    return [sentence for sentence in found if sentence]
