"""What one run has to say in words and figures, the most telling first."""

import math
from collections.abc import Callable
from typing import Any

from flockstep.report.tables import pace_text, readable, settings_text, time_text
from flockstep.report.values import PER_WORKER, Finding, Run, number
from flockstep.report.wording import capitalised, counted, name_workers

# Guards by their names in the metrics, and what each says when it has fired.
GUARDS = {
    "skipped_steps": ("updates skipped", "{} were skipped because a gradient was not finite"),
    "non_finite": ("steps with a non-finite gradient", "{} had a gradient that was not finite"),
    "all_zero": ("steps with all gradients zero", "{} had gradients that were all zero"),
    "unsafe": (
        "steps without safe weights",
        "{} fell back to normalized_mean or the plain mean because their weights were unsafe",
    ),
}


def guards_of(run: Run) -> dict[str, int]:
    if run.summary.get("guards"):
        return dict(run.summary["guards"])
    return run.evaluations[-1].guards if run.evaluations else {}


def headline_of(run: Run) -> tuple[str, str]:
    summary = run.summary
    if not summary:
        return f"Run in {run.folder.name}", "This run has not ended, or was killed: there is no summary.json."
    title = f"{summary.get('algorithm')} on {summary.get('task')}"
    if "metric" in summary:
        title += f": {summary['metric']} {readable(number(summary.get('quality')))}"
    lead = [f"{counted(int(summary.get('workers', 0)), 'worker')} on {summary.get('engine')}"]
    if "seed" in summary:
        lead.append(f"seed {summary['seed']}")
    lead.append(
        counted(int(summary.get("steps", 0)), "step") + (" (interrupted)" if summary.get("interrupted") else "")
    )
    return title, ", ".join(lead)


def _detail(finding: Finding) -> str:
    steps = f"steps {finding.first_step} to {finding.last_step}"
    workers = (
        f"worker{'s' if len(finding.workers) > 1 else ''} {name_workers(finding.workers)}" if finding.workers else ""
    )
    evidence = f"evidence {finding.evidence:.3g}" if math.isfinite(finding.evidence) else ""
    return ", ".join(part for part in (finding.kind, workers, steps, evidence) if part)


def findings_of(run: Run) -> list[tuple[str, str]]:
    """Sentences with their details, the most telling first."""
    found = [(capitalised(finding.sentence), _detail(finding)) for finding in run.findings]
    quality = (
        number(run.summary["quality"])
        if "quality" in run.summary
        else (run.evaluations[-1].quality if run.evaluations else 0.0)
    )
    if not math.isfinite(quality):
        found.append(("The run diverged: its quality is not a number.", ""))
    for name, count in guards_of(run).items():
        if count > 0:
            words = GUARDS.get(name, (name, "{} fired the guard " + name))[1]
            what = "update" if name == "skipped_steps" else "step"
            text = words.format(counted(count, what))
            found.append((text if count > 1 else text.replace(" were ", " was ", 1), ""))
    if run.summary.get("replicas_equal") is False:
        found.append(("The workers did not end with the same model.", ""))
    return [(text if text.endswith(".") else text + ".", detail) for text, detail in found]


def looked_at(run: Run) -> str:
    """What stands behind 'nothing was found': no more is claimed than was recorded."""
    looked = ["whether the quality is a number", "the guards", "whether all workers ended with the same model"]
    if "replicas_equal" not in run.summary:
        looked.pop()
    if "quality" not in run.summary and not run.evaluations:
        looked.pop(0)
    recorded = [name for name in PER_WORKER if name in run.steps.per_worker]
    if recorded or run.cosines:
        looked.append("the workers' " + ", ".join(recorded + (["cosines"] if run.cosines else [])))
        return "Looked at: " + "; ".join(looked) + "."
    return (
        "Looked at: "
        + "; ".join(looked)
        + ". This run recorded nothing that compares its workers with each other, so a "
        "worker that is wrong would not show here."
    )


def figures_of(run: Run) -> list[tuple[str, str]]:
    summary = run.summary
    rows: list[tuple[str, str]] = []

    def add(name: str, key: str, write: Callable[[Any], str]) -> None:
        if summary.get(key) not in (None, "", {}):
            rows.append((name, write(summary[key])))

    if "metric" in summary:
        rows.append((str(summary["metric"]), readable(number(summary.get("quality")))))
    for name, value in summary.get("figures", {}).items():
        rows.append((name, readable(number(value))))
    add("training loss", "train_loss", lambda value: readable(number(value)))
    add("steps", "steps", lambda value: f"{value} of {summary.get('requested_steps', value)}")
    add("batch", "batch", lambda value: f"{value} samples over all workers")
    add("time in steps", "time_s", lambda value: f"{value:.3g} s")
    add("throughput", "samples_per_s", lambda value: f"{value:.5g} samples/s")
    add("waiting", "wait_share", lambda value: f"{100 * value:.1f}% of the time")
    add("of ideal", "share_of_ideal", lambda value: f"{100 * value:.1f}% of the throughput of workers who never wait")
    add("step times", "step_times", _step_times)
    add("fresh", "fresh_fraction", lambda value: f"{100 * value:.1f}% of the merged steps were in their average")
    add("alone", "alone_share", lambda value: f"{100 * value:.1f}% of the steps found no new average to merge with")
    add("staleness", "mean_staleness", lambda value: f"{value:.3g} iterations, mean over the contributions")
    add("round", "mean_round_s", lambda value: f"{1000 * value:.3g} ms from a contribution to the result")
    add("sent", "bytes_sent_per_step", lambda value: f"{value / 1000:.4g} kB per worker and step")
    add("options of the task", "task_settings", settings_text)
    add("options of the algorithm", "algorithm_settings", settings_text)
    add("network", "platform", str)
    if pace := pace_text(summary.get("pace", {})):
        rows.append(("pace", pace))
    for name, count in guards_of(run).items():
        rows.append((GUARDS.get(name, (name, ""))[0], str(count)))
    add("model", "model_hash", lambda value: f"{value} ({_same(summary)})")
    return rows


def _step_times(times: dict[str, Any]) -> str:
    median, p90, p99, longest = (time_text(number(times[name])) for name in ("median_s", "p90_s", "p99_s", "longest_s"))
    return f"median {median}, 90th percentile {p90}, 99th {p99}, longest {longest}; waiting left out"


def _same(summary: dict[str, Any]) -> str:
    return "the same on every worker" if summary.get("replicas_equal") else "differs between workers"


def notes_of(run: Run) -> list[str]:
    return [looked_at(run), *(capitalised(note) + "." for note in run.summary.get("notes", []))]
