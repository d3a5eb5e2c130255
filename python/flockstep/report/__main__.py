"""`python -m flockstep.report DIR` writes DIR/report.html and prints its path; with --text, prints its words and tables.

Exit codes are those of docs/errors.md: 1 for a file that cannot be trusted or a library that is missing, 2 for a wrong
call. One sentence on standard error says why.
"""

import logging
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

from flockstep.report.drawing import draw, text_of
from flockstep.report.errors import ReportError


def main(arguments: list[str]) -> int:
    as_text = "--text" in arguments
    folders = [argument for argument in arguments if argument != "--text"]
    if len(folders) != 1:
        print("flockstep: report takes one folder, that of a run, a comparison or a study", file=sys.stderr)
        return 2
    # Standard error is for one sentence. Whatever libraries have to say of strange numbers, fonts or a home without a
    # place for their cache concerns nobody who waits for a page.
    warnings.simplefilter("ignore")
    logging.getLogger("matplotlib").setLevel(logging.CRITICAL)
    make: Callable[[Path], object] = text_of if as_text else draw
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
