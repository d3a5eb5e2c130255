"""Recipes for package managers: their versions, and the options of CMake that they set, are those of this project."""

import ast
import json
import re
import subprocess

import pytest
import yaml
from paths import HANG_S, ROOT

PACKAGING = ROOT / "packaging"
RECIPES = [
    PACKAGING / "conda" / "recipe.yaml",
    PACKAGING / "spack" / "package.py",
    PACKAGING / "vcpkg" / "portfile.cmake",
]
VERSION = re.search(r"project\(flockstep VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))[1]


@pytest.fixture(scope="module")
def options():
    """The names that CMake's files declare."""
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "cmake").glob("*.cmake"))
    return set(re.findall(r"(?:flockstep_)?option\((FLOCKSTEP_\w+)", text))


def test_versions_are_that_of_cmake():
    conda = yaml.safe_load(RECIPES[0].read_text(encoding="utf-8"))
    assert conda["context"]["version"] == VERSION
    assert json.loads((PACKAGING / "vcpkg" / "vcpkg.json").read_text(encoding="utf-8"))["version"] == VERSION
    assert re.findall(r'^    version\("([^"]+)"', RECIPES[1].read_text(encoding="utf-8"), re.MULTILINE) == [VERSION]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.parent.name)
def test_options_are_those_of_cmake_and_none_is_left_to_chance(path, options):
    """What an option is by default depends on what is installed, which no recipe may depend on."""
    named = set(re.findall(r"FLOCKSTEP_[A-Z_]+", path.read_text(encoding="utf-8")))
    assert named <= options
    left = options - named - {"FLOCKSTEP_UNITY"}
    if "-DFLOCKSTEP_LAB=OFF" in path.read_text(encoding="utf-8"):
        left -= {"FLOCKSTEP_PNG", "FLOCKSTEP_JPEG"}  # parts of it
    assert left == set()


def test_features_of_vcpkg_are_those_of_its_portfile():
    manifest = json.loads((PACKAGING / "vcpkg" / "vcpkg.json").read_text(encoding="utf-8"))
    checked = re.search(r"FEATURES\n(.*?)\)", RECIPES[2].read_text(encoding="utf-8"), re.DOTALL)[1]
    assert set(manifest["features"]) == {line.split()[0] for line in checked.splitlines()}


def test_variants_of_spack_are_used():
    tree = ast.parse(RECIPES[1].read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]

    def first(name, at=0):
        return {
            call.args[at].value for call in calls if getattr(call.func, "id", getattr(call.func, "attr", "")) == name
        }

    assert first("variant") == first("define_from_variant", at=1)


def test_the_archive_is_filled_in_everywhere_or_nowhere():
    texts = [path.read_text(encoding="utf-8") for path in RECIPES]
    assert len({"_OF_THE_ARCHIVE" in text for text in texts}) == 1


def test_wheels_are_configured_for_every_python_that_is_claimed():
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 has none")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    claimed = [line.split(" :: ")[-1] for line in project["project"]["classifiers"] if ":: Python :: 3." in line]
    settings = project["tool"]["cibuildwheel"]
    assert settings["build"] == [f"cp{version.replace('.', '')}-*" for version in claimed]
    assert f"torch=={torch_of_setup()}" in settings["before-build"]
    for command in (settings["linux"]["before-all"], settings["linux"]["repair-wheel-command"]):
        script = ROOT / command.split()[0]
        assert script.stat().st_mode & 0o111, f"{script} cannot be executed"


def torch_of_setup():
    return re.search(r"FLOCKSTEP_TORCH:-([0-9.]+)", (ROOT / "scripts" / "setup.sh").read_text(encoding="utf-8"))[1]


@pytest.mark.parametrize("path", sorted(PACKAGING.glob("*.sh")), ids=lambda path: path.name)
def test_a_script_that_is_called_wrongly_says_how(path):
    done = subprocess.run([path], capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 2
    assert done.stderr.startswith(f"usage: {path}")


def test_what_was_tried_is_told_of_every_file():
    text = (PACKAGING / "README.md").read_text(encoding="utf-8")
    for path in PACKAGING.iterdir():
        if path.name != "README.md":
            assert re.search(rf"^\| `{re.escape(path.name)}/?", text, re.MULTILINE), path
