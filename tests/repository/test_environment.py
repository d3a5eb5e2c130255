"""docs/reference/environment.md names every environment variable that the sources read or set, and no other."""

import re
import subprocess

from paths import ROOT

NAME = r"FLOCKSTEP_[A-Z]+(?:_[A-Z]+)*"
TEXT = re.compile(rf"""(["'])({NAME})(?:=[^"'\n]*)?\1""")  # a name, or what sets one
SHELL = re.compile(rf"\$\{{?({NAME})|(?<![-\w])({NAME})=")
FOLDERS = ["include", "lab", "python", "scripts", "src", "tests", "packaging/*.sh", "Makefile"]


def sources():
    listed = subprocess.run(["git", "ls-files", *FOLDERS], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / line for line in listed.splitlines()]


def names_in(path):
    if path.suffix in {".cpp", ".h", ".py"}:
        return {found[2] for found in TEXT.finditer(path.read_text(encoding="utf-8"))}
    if path.suffix == ".sh" or path.name == "Makefile":
        return {found[1] or found[2] for found in SHELL.finditer(path.read_text(encoding="utf-8"))}
    return set()


CMAKE = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "cmake").glob("*.cmake"))
# But for names of both.
CMAKE_OPTIONS = {*re.findall(rf"option\(({NAME}) ", CMAKE)} - {"FLOCKSTEP_PYTHON", "FLOCKSTEP_TORCH"}
PAGE = (ROOT / "docs" / "reference" / "environment.md").read_text(encoding="utf-8")


def test_the_table_has_the_variables_of_the_sources():
    in_sources = set().union(*map(names_in, sources())) - CMAKE_OPTIONS
    in_table = re.findall(rf"^\| `({NAME})` \| \S", PAGE, re.MULTILINE)
    assert len(in_sources) > 15
    assert len(in_table) == len(set(in_table))
    assert set(in_table) == in_sources


def test_no_other_page_names_a_variable_that_is_not_in_the_table():
    known = {*re.findall(NAME, PAGE + CMAKE), "FLOCKSTEP_" + "SHM"}  # the last: of a guide's own engine
    for other in [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "SECURITY.md"]:
        assert set(re.findall(NAME, other.read_text(encoding="utf-8"))) <= known, other
