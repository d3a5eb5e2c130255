"""The words and tables of the page as plain text, for a terminal or a pipe. Knows nothing of pictures."""

from collections.abc import Sequence

from flockstep.report import comparison_words, run_words
from flockstep.report.study_reading import Study
from flockstep.report.tables import about_quality, case_table, tried_table
from flockstep.report.values import Comparison, Run
from flockstep.report.wording import capitalised


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The first column to the left, the others, which are numbers, to the right; as the command prints its tables."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        rest = [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
        return "  ".join([cells[0].ljust(widths[0]), *rest]).rstrip()

    return "\n".join([line(head), "-" * (sum(widths) + 2 * (len(widths) - 1)), *map(line, rows)])


def pairs(rows: Sequence[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name.ljust(width)}  {value}" for name, value in rows)


def of_comparison(comparison: Comparison) -> str:
    title, lead = comparison_words.headline_of(comparison)
    parts = [f"{title}\n{lead}"]
    if comparison.interrupted:
        parts.append("This comparison was interrupted: some runs are missing or short.")
    if not comparison.cases:
        parts.append("No run has ended yet.")
    for case in comparison.cases:
        if len(comparison.cases) > 1:
            parts.append(f"== {comparison_words.case_name(case)}")
        parts += [capitalised(about_quality(comparison, case)) + ".", table(*case_table(comparison, case))]
        if tried := tried_table(comparison, case):
            parts.append(table(*tried))
        parts += ["\n".join(comparison_words.findings_of(case)), "\n".join(comparison_words.notes_of(comparison, case))]
    return "\n\n".join(part for part in parts if part)


def of_run(run: Run) -> str:
    title, lead = run_words.headline_of(run)
    found = [text + (f"\n  {detail}" if detail else "") for text, detail in run_words.findings_of(run)]
    parts = [
        f"{title}\n{lead}",
        "\n".join(found) or "Nothing suspicious was found.",
        "\n".join(run_words.notes_of(run)),
    ]
    if figures := run_words.figures_of(run):
        parts.append(pairs(figures))
    return "\n\n".join(part for part in parts if part)


def of_study(study: Study) -> str:
    parts = [f"{study.name}\n{capitalised(study.description)}."]
    parts += [f"{each.title}.\n{table(each.columns, each.rows)}" for each in study.tables]
    return "\n\n".join([*parts, "\n".join(study.words)])
