"""A folder in, a page or its words out."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from flockstep.report.errors import MissingLibraryError, ReportError, how_to_get


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Says what is being drawn, on a terminal's standard error; nothing when that is piped."""
    visible = sys.stderr.isatty()

    def say(what: str) -> None:
        if visible:
            print(f"\r\033[K{what}", end="", file=sys.stderr, flush=True)

    try:
        yield lambda what: say(f"drawing {what}")
    finally:
        say("")


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


def draw(folder: Path) -> Path:
    """Draws what `folder` holds and returns the page's path; raises ReportError."""
    with _told(folder), _progress() as say:
        from flockstep.report import pages, reading

        say("what is there")
        text = pages.page_of(reading.read(folder), say)
    page = folder / "report.html"
    beside = folder / f".report.{os.getpid()}"
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(page)
    except OSError as error:
        with suppress(OSError):  # where nothing can be written, nothing can be removed
            beside.unlink(missing_ok=True)
        raise ReportError(f"cannot write {page}: {error.strerror}") from error
    return page


def text_of(folder: Path) -> str:
    """Needs numpy and msgspec, but nothing to draw with; raises ReportError."""
    with _told(folder):
        from flockstep.report import reading, text

        return text.text_of(reading.read(folder))


def write_report(run_dir: str | os.PathLike[str]) -> Path:
    """Writes what a run has left in its folder as one HTML page that needs no other file.

    Needs what ``pip install 'flockstep[report]'`` brings: matplotlib, jinja2 and msgspec.

    Args:
        run_dir: the folder of a training with ``run_dir=``, of ``flockstep train`` or of ``flockstep compare``.

    Returns:
        The path of the page, ``report.html`` in that folder.

    Raises:
        BadInputError: for a folder that holds no run.
        BadFileError: for one that is damaged, or cannot be written to.
        UnavailableError: where a library is missing.
    """
    from flockstep._errors import BY_CODE

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what libraries have to say of strange numbers and fonts
            return draw(Path(run_dir))
    except ReportError as error:
        raise BY_CODE[error.code](str(error)) from error
