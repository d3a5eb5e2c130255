"""`python -m flockstep.report DIR` writes DIR/report.html and prints its path; with --text, prints its words and tables.

Exit codes are those of docs/errors.md: 1 for a file that cannot be trusted or a library that is missing, 2 for a wrong
call. One sentence on standard error says why.
"""

import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from flockstep.report.errors import ReportError, how_to_get
from flockstep.report.progress import Progress


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    """What may go wrong in here becomes a ReportError."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ReportError(how_to_get(f"the report needs {error.name}")) from error
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        # Every value has the right shape, and yet they make no page.
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise ReportError(f"{folder} is damaged: what it holds cannot be drawn ({why})") from error


def write_report(folder: Path) -> str:
    """Draws what `folder` holds and returns the page's path; raises ReportError."""
    with _told(folder), Progress() as progress:
        from flockstep.report import comparison_page, reading, run_page, values

        progress.say("what is there")
        found = reading.read(folder)
        if isinstance(found, values.Comparison):
            text = comparison_page.page_of(found, progress)
        else:
            text = run_page.page_of(found, progress)
    page = folder / "report.html"
    beside = folder / f".report.{os.getpid()}"
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(page)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise ReportError(f"cannot write {page}: {error.strerror}") from error
    return str(page)


def text_of(folder: Path) -> str:
    """Needs numpy, but nothing to draw with; raises ReportError."""
    with _told(folder):
        from flockstep.report import reading, text, values

        found = reading.read(folder)
        return text.of_comparison(found) if isinstance(found, values.Comparison) else text.of_run(found)


def main(arguments: list[str]) -> int:
    as_text = "--text" in arguments
    folders = [argument for argument in arguments if argument != "--text"]
    if len(folders) != 1:
        print("flockstep: report takes one folder, that of a run or a comparison", file=sys.stderr)
        return 2
    # Standard error is for one sentence. Whatever libraries have to say of strange numbers, fonts or a home without a
    # place for their cache concerns nobody who waits for a page.
    warnings.simplefilter("ignore")
    logging.getLogger("matplotlib").setLevel(logging.CRITICAL)
    make: Callable[[Path], str] = text_of if as_text else write_report
    try:
        print(make(Path(folders[0])))
    except ReportError as error:
        print(f"flockstep: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
