"""The code blocks of README.md and docs/, each with what how_to_run.py says about it."""

import functools
import re
import textwrap
from dataclasses import dataclass

from how_to_run import HOW, How
from paths import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
PYTHON = ("python", "py")
CODE = (*PYTHON, "sh", "cpp", "cmake")
NO_CODE = ("", "diff", "ini", "json", "text", "toml", "xml", "yaml")


@dataclass(frozen=True)
class Block:
    """A block, and where its first line is."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self):
        return f"{self.page}:{self.line}"

    @property
    def how(self):
        """The entry about it; one without anything special where there is none."""
        return next((how for how in HOW if how.page == self.page and how.has in self.text), How(""))

    @property
    def code(self):
        """The text with the entry's replacements."""
        text = self.text
        for old, new in self.how.change.items():
            assert old in text, f"{self}: how_to_run.py replaces {old!r}, which is not there"
            text = text.replace(old, new)
        return text

    @property
    def is_run_here(self):
        return not (self.how.skip or self.how.elsewhere or self.how.file)


@functools.cache
def all_blocks():
    """Those of all pages, in order."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        name = str(page.relative_to(ROOT))
        for fence in FENCE.finditer(text):
            line = text[: fence.start(3)].count("\n") + 1
            found.append(Block(name, line, fence[2], textwrap.dedent(fence[3])))
    return found


def blocks_of(page, *languages):
    return [block for block in all_blocks() if block.page == page and block.language in languages]


def pages_with(*languages):
    """The pages that have something to run in these languages."""
    return sorted({block.page for block in all_blocks() if block.language in languages and block.is_run_here})
