"""One self-contained page from the folder of a run or a comparison: `python -m flockstep.report DIR`.

reading and traces turn files into values, and shapes says what they must look like; run_words, comparison_words and
tables say what the numbers mean; the files on pictures draw; run_page and comparison_page put both together, and page
knows HTML. text prints words and tables without the pictures. Nothing here knows how to train.

The module can be called, for those who have a folder at hand: `flockstep.report("runs/first")`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType


class _Report(ModuleType):
    def __call__(self, run_dir: str | os.PathLike[str]) -> Path:
        from flockstep.report.drawing import report

        return report(run_dir)


sys.modules[__name__].__class__ = _Report
