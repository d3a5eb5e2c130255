"""A folder in, a page or its words out."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from flockstep.report.errors import MissingLibraryError, ReportError, how_to_get
from flockstep.report.progress import Progress


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    """What may go wrong in here becomes a ReportError."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingLibraryError(how_to_get(f"the report needs {error.name}")) from error
    except OSError as error:  # a library's own files: those of the folder have their sentence already
        raise ReportError(f"cannot draw {folder}: {' '.join(str(error).split())}") from error
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        # Every value has the right shape, and yet they make no page.
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise ReportError(f"{folder} is damaged: what it holds cannot be drawn ({why})") from error


def write_report(folder: Path) -> str:
    """Draws what `folder` holds and returns the page's path; raises ReportError."""
    with _told(folder), Progress() as progress:
        from flockstep.report import comparison_page, reading, run_page, study_page, study_reading, values

        progress.say("what is there")
        found = reading.read(folder)
        if isinstance(found, values.Comparison):
            text = comparison_page.page_of(found, progress)
        elif isinstance(found, study_reading.Study):
            text = study_page.page_of(found, progress)
        else:
            text = run_page.page_of(found, progress)
    page = folder / "report.html"
    beside = folder / f".report.{os.getpid()}"
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(page)
    except OSError as error:
        with suppress(OSError):  # where nothing can be written, nothing can be removed
            beside.unlink(missing_ok=True)
        raise ReportError(f"cannot write {page}: {error.strerror}") from error
    return str(page)


def text_of(folder: Path) -> str:
    """Needs numpy, but nothing to draw with; raises ReportError."""
    with _told(folder):
        from flockstep.report import reading, study_reading, text, values

        found = reading.read(folder)
        if isinstance(found, study_reading.Study):
            return text.of_study(found)
        return text.of_comparison(found) if isinstance(found, values.Comparison) else text.of_run(found)


def report(run_dir: str | os.PathLike[str]) -> Path:
    """Draws what a training, ``flockstep train`` or ``flockstep compare`` has left in ``run_dir`` as one page that needs
    nothing but itself, and returns its path.

    Needs matplotlib. Raises :class:`flockstep.Error` with code ``bad_input`` for a folder that holds no run,
    ``bad_file`` for one that is damaged, and ``unavailable`` without matplotlib.
    """
    from flockstep._errors import Error

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what libraries have to say of strange numbers and fonts
            return Path(write_report(Path(run_dir)))
    except ReportError as error:
        raise Error(str(error), code=error.code) from error
