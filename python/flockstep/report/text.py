"""The words and tables of the page as plain text, for a terminal or a pipe. Knows nothing of pictures."""

from collections.abc import Sequence

from flockstep.report import words
from flockstep.report.reading import Comparison, Run, Study
from flockstep.report.records import Table
from flockstep.report.words import capitalised


def _table(table: Table) -> str:
    """The first column to the left, the others, which are numbers, to the right; as the command prints its tables."""
    widths = [max(map(len, column)) for column in zip(table.columns, *table.rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        rest = [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
        return "  ".join([cells[0].ljust(widths[0]), *rest]).rstrip()

    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
    return "\n".join([line(table.columns), rule, *map(line, table.rows)])


def _of_comparison(comparison: Comparison) -> list[str]:
    saved = comparison.saved
    parts = ["\n".join(words.headline_of_comparison(comparison))]
    if saved.interrupted:
        parts.append("This comparison was interrupted: some runs are missing.")
    if not saved.cases:
        parts.append("No run has ended yet.")
    for case in saved.cases:
        if len(saved.cases) > 1:
            parts.append(f"== {words.case_name(case)}")
        parts += [capitalised(case.about) + ".", *(_table(each) for each in (case.table, case.tried_table) if each)]
        parts += ["\n".join(words.findings_of_case(comparison, case)), "\n".join(case.notes)]
    return parts


def _of_run(run: Run) -> list[str]:
    found = [text + (f"\n  {detail}" if detail else "") for text, detail in words.findings_of_run(run)]
    figures = words.figures_of_run(run)
    width = max((len(name) for name, _ in figures), default=0)
    return [
        "\n".join(words.headline_of_run(run)),
        "\n".join(found) or "Nothing suspicious was found.",
        "\n".join(words.notes_of_run(run)),
        "\n".join(f"{name.ljust(width)}  {value}" for name, value in figures),
    ]


def _of_study(study: Study) -> list[str]:
    saved = study.saved
    tables = [f"{table.title}.\n{_table(table)}" for table in saved.tables]
    return [f"{saved.study}\n{capitalised(saved.description)}.", *tables, "\n".join(saved.words)]


def text_of(found: Run | Comparison | Study) -> str:
    if isinstance(found, Run):
        parts = _of_run(found)
    else:
        parts = _of_comparison(found) if isinstance(found, Comparison) else _of_study(found)
    return "\n\n".join(part for part in parts if part)
