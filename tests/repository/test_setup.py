"""scripts/setup.sh where it cannot install packages: it goes by the libraries that CMake finds."""

import os
import re
import shutil
from pathlib import Path

import pytest
from launching import run_program
from paths import ROOT

INSTALLERS = {"apt-get", "dpkg-query", "sudo"}


class Machine:
    """A copy of the scripts, with programs of its own and an environment that lacks nothing."""

    def __init__(self, folder):
        self.tree, self.programs = folder / "tree", folder / "programs"
        for name in ("scripts", "cmake"):
            shutil.copytree(ROOT / name, self.tree / name)
        self.programs.mkdir()
        for place in reversed(os.environ["PATH"].split(":")):
            for program in Path(place).glob("*"):
                if program.name not in INSTALLERS:
                    self.has(program.name).symlink_to(program)

    def renew(self):
        """Has all libraries again, and an environment; no set-up has looked yet."""
        for found in self.tree.glob("build/libraries/found*"):
            found.unlink()
        for name in INSTALLERS:
            self.has(name)
        self.has("id").symlink_to(shutil.which("id"))
        self.hides()
        installed = self.tree / "build" / "venv" / "installed"
        installed.parent.mkdir(parents=True, exist_ok=True)
        wishes = [path.read_text() for path in (self.tree / "scripts").glob("requirements*.txt")]
        installed.write_text("".join([*wishes, "torch 2.13.0\n"]))

    def has(self, name, *lines):
        """Gives the machine a program of these lines; without lines, takes it away."""
        program = self.programs / name
        program.unlink(missing_ok=True)
        if lines:
            program.write_text("\n".join(["#!/bin/sh", *lines, ""]))
            program.chmod(0o755)
        return program

    def hides(self, *libraries):
        options = " ".join(f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in libraries)
        self.has("cmake", f"exec {shutil.which('cmake')} '-UCMAKE_DISABLE_*' {options} \"$@\"")

    def setup(self, *arguments):
        plain = {name: value for name, value in os.environ.items() if not name.startswith(("CMAKE_", "FLOCKSTEP_"))}
        return run_program([self.tree / "scripts" / "setup.sh", *arguments], env=plain | {"PATH": str(self.programs)})


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A machine for all tests: CMake looks at the compiler once."""
    return Machine(tmp_path_factory.mktemp("machine"))


@pytest.fixture
def machine(tree):
    tree.renew()
    return tree


def without_apt(machine):
    """The machine as it is."""


def without_the_right_to_install(machine):
    machine.has("apt-get", "exit 1")
    machine.has("dpkg-query", "exit 1")  # it knows none of the packages
    machine.has("id", "echo 1000")


@pytest.mark.parametrize("kind", [without_apt, without_the_right_to_install])
def test_a_machine_with_all_libraries_is_set_up_and_asked_once(machine, kind):
    kind(machine)
    first = machine.setup()
    assert first.returncode == 0, first.stderr
    machine.has("cmake", "exit 1")
    assert (again := machine.setup()).returncode == 0, again.stderr
    assert again.stdout == ""


def test_what_is_missing_is_listed_by_each_systems_names(machine):
    without_the_right_to_install(machine)
    machine.hides("nlohmann_json", "SimGrid")
    done = machine.setup("--to-run")
    assert done.returncode == 1
    named = dict(re.findall(r"^  (\w+): .*install (.*)$", done.stderr, re.MULTILINE))
    assert {"nlohmann-json3-dev", "libsimgrid-dev"} <= set(named["Debian"].split())
    assert "json-devel" in named["Fedora"].split()
    assert {"nlohmann-json", "simgrid"} <= set(named["Homebrew"].split())
    assert "libfmt-dev" not in named["Debian"].split()
    assert machine.setup("--to-run").returncode == 1, "a failure is not remembered"


BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


@pytest.mark.parametrize(
    ("hidden", "without", "arguments", "code", "named"),
    [
        (["SimGrid"], [], [], 0, ["without", "libsimgrid-dev"]),  # a part that can be left out
        (["GTest"], [], ["--to-run"], 0, []),
        (["GTest"], [], [], 1, ["libgtest-dev"]),
        ([], ["cmake"], ["--to-run"], 1, ["cmake", "libfmt-dev", "zlib1g-dev"]),
        ([], BROWSERS, [], 0, []),
        ([], BROWSERS, ["--all"], 1, ["chromium"]),
    ],
    ids=["simgrid", "googletest, to run", "googletest", "cmake", "browser", "browser, all tests"],
)
def test_a_machine_that_lacks_what_is_needed_for_a_purpose(machine, hidden, without, arguments, code, named):
    machine.hides(*hidden)
    for program in without:
        machine.has(program)
    done = machine.setup(*arguments)
    assert done.returncode == code, done.stderr
    assert set(named) <= set((done.stdout + done.stderr).split())


def test_tools_that_are_missing_are_named_and_not_installed(machine):
    assert machine.setup("--has", "ruff", "mypy").returncode == 0
    shutil.rmtree(machine.tree / "build")
    done = machine.setup("--has", "ruff", "mypy")
    assert done.returncode == 1
    assert re.fullmatch(r"setup: build/venv lacks ruff==\S+ mypy==\S+: run `make setup`, .*\n", done.stderr)
    assert not (machine.tree / "build").exists()
