"""The reference pages have all that there is, as it is now."""

import re
import sys

import flockstep
from conftest import COMMAND
from paths import ROOT

sys.path.insert(0, str(ROOT / "scripts" / "site"))
import command_reference

REFERENCE = ROOT / "docs" / "reference"
NO_PAGE = {"__version__"}  # a string


def test_the_page_of_the_command_is_what_the_command_says(needs, torch):
    needs("mpi", "sim", "mesh")
    assert command_reference.PAGE.read_text(encoding="utf-8") == command_reference.page(COMMAND), (
        "run scripts/site/command_reference.py"
    )


def test_every_public_name_of_the_package_is_on_a_page():
    text = "".join(page.read_text(encoding="utf-8") for page in REFERENCE.glob("*.md"))
    named = re.findall(r"^::: flockstep\.(\w+)$", text, re.MULTILINE)
    assert sorted(named) == sorted(set(flockstep.__all__) - NO_PAGE)
