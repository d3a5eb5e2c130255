"""`python -m flockstep.report DIR` writes DIR/report.html and prints its path.

Exit codes are those of docs/errors.md: 1 for a file that cannot be trusted or a library that is missing, 2 for a wrong
call. One sentence on standard error says why.
"""

import logging
import os
import sys
import warnings
from pathlib import Path

from flockstep.report.errors import ReportError, how_to_get
from flockstep.report.progress import Progress


def write_report(folder: Path) -> Path:
    """Draws what `folder` holds; raises ReportError."""
    try:
        from flockstep.report import comparison_page, reading, run_page, values
    except ModuleNotFoundError as error:
        raise ReportError(how_to_get(f"the report needs {error.name}")) from error
    with Progress() as progress:
        found = reading.read(folder)
        try:
            if isinstance(found, values.Comparison):
                text = comparison_page.page_of(found, progress)
            else:
                text = run_page.page_of(found, progress)
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
            # Every value has the right shape, and yet they make no page.
            why = " ".join(f"{type(error).__name__}: {error}".split())
            raise ReportError(f"{folder} is damaged: what it holds cannot be drawn ({why})") from error
    page = folder / "report.html"
    beside = folder / f".report.{os.getpid()}"
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(page)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise ReportError(f"cannot write {page}: {error.strerror}") from error
    return page


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("flockstep: report takes one folder, that of a run or a comparison", file=sys.stderr)
        return 2
    # Standard error is for one sentence. Whatever libraries have to say of strange numbers, fonts or a home without a
    # place for their cache concerns nobody who waits for a page.
    warnings.simplefilter("ignore")
    logging.getLogger("matplotlib").setLevel(logging.CRITICAL)
    try:
        print(write_report(Path(arguments[0])))
    except ReportError as error:
        print(f"flockstep: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
