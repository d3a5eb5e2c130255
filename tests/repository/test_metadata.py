"""What the package says of itself before it is built: its version, licence and dependencies."""

import ast
import re
import sys
import tarfile
from email.parser import HeaderParser
from importlib.metadata import version
from importlib.util import find_spec

import flockstep
import pytest
import yaml
from paths import ROOT
from scikit_build_core.build import build_sdist, prepare_metadata_for_build_wheel

OWN = "flockstep"
# What a part of the package needs beyond the rest.
EXTRAS_OF = {"report": ["report"], "integrations": ["lightning", "transformers"]}


@pytest.fixture(scope="module")
def metadata(tmp_path_factory):
    """The METADATA file that pip would see."""
    folder = tmp_path_factory.mktemp("metadata")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        name = prepare_metadata_for_build_wheel(str(folder))
    return HeaderParser().parsestr((folder / name / "METADATA").read_text(encoding="utf-8"))


def test_the_version_of_the_sources_is_told_everywhere(metadata):
    assert flockstep.__version__ == metadata["Version"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == flockstep.__version__, "CITATION.cff has a copy of python/flockstep/_version.py"
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest[1] == flockstep.__version__
    assert "__version__" in flockstep.__all__


def test_the_licence_is_an_spdx_expression_with_its_text(metadata):
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("License-File") == ["LICENSE", "packaging/THIRD_PARTY.txt"]
    assert "License ::" not in str(metadata.get_all("Classifier")), "PEP 639 forbids both"
    assert re.search(r"Apache License\s+Version 2\.0", (ROOT / "LICENSE").read_text(encoding="utf-8"))


@pytest.mark.skipif(find_spec("torch") is None, reason="a wheel is built where torch is")
def test_a_wheel_asks_for_the_torch_that_it_was_built_against(metadata):
    asked = [line for line in metadata.get_all("Requires-Dist") if line.startswith("torch")]
    minor = ".".join(version("torch").split(".")[:2])
    assert asked == [f"torch=={minor}.*"]


def test_sources_ask_for_every_torch_that_they_can_be_built_against(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    with tarfile.open(tmp_path / build_sdist(str(tmp_path))) as archive:
        [name] = [name for name in archive.getnames() if name.count("/") == 1 and name.endswith("/PKG-INFO")]
        sources = HeaderParser().parsestr(archive.extractfile(name).read().decode())
    asked = [line for line in sources.get_all("Requires-Dist") if line.startswith("torch")]
    assert asked == ["torch<2.16,>=2.11"]
    assert sources.get_all("Dynamic") == ["Requires-Dist"]


def imported(path):
    """The names of the distributions that a file imports, as far as they are named like their packages."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module]
        tops = {name.split(".")[0] for name in names} - {OWN, *sys.stdlib_module_names}
        yield from (top.replace("_", "-").lower() for top in tops)


def test_whatever_is_imported_is_declared(metadata):
    declared = {}  # extra, or None for all installations: names
    for line in metadata.get_all("Requires-Dist"):
        extra = re.search("extra == ['\"](.+)['\"]", line)
        declared.setdefault(extra and extra[1], set()).add(re.match("[A-Za-z0-9-]+", line)[0].lower())
    package = ROOT / "python" / "flockstep"
    for path in sorted(package.rglob("*.py")):
        part = path.relative_to(package).parts[0]
        allowed = set().union(declared[None], *(declared[extra] for extra in EXTRAS_OF.get(part, ())))
        assert set(imported(path)) <= allowed, path
