"""What can go wrong, as one sentence and an exit code."""

import sys


def how_to_get(what: str) -> str:
    packages = "matplotlib jinja2 msgspec"
    return (
        f"{what}: run `{sys.executable} -m pip install {packages}`, or let FLOCKSTEP_PYTHON name a Python that has them"
    )


class ReportError(Exception):
    """exit_code 1: a file cannot be trusted or something is missing here; 2: a wrong call."""

    def __init__(self, sentence: str, exit_code: int = 1) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code

    @property
    def code(self) -> str:
        """As flockstep.Error has it."""
        return "bad_input" if self.exit_code == 2 else "bad_file"


class MissingFileError(ReportError):
    """The file is not there: for some, whoever asked can do without."""


class MissingLibraryError(ReportError):
    @property
    def code(self) -> str:
        return "unavailable"
