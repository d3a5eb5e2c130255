"""Files that only a hosting site or a git hook reads, which would otherwise be found broken there."""

import re
import shlex
import subprocess

import pytest
import yaml
from paths import HANG_S, ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def read(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def targets():
    """Those of the Makefile, as make itself understands it."""
    database = subprocess.run(
        ["make", "--print-data-base", "--question", "--no-builtin-rules", "help"],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        cwd=ROOT,
    )
    return set(re.findall(r"^([a-z][a-z-]*):", database.stdout, re.MULTILINE))


def made_by(path):
    """What the jobs of a workflow ask make for."""
    for job in read(path)["jobs"].values():
        matrix = job.get("strategy", {}).get("matrix", {})
        for step in job["steps"]:
            for target in re.findall(r"^make (.*)", step.get("run", ""), re.MULTILINE):
                axis = re.fullmatch(r"\$\{\{ matrix\.(\w+) \}\}", target)
                yield from matrix[axis[1]] if axis else target.split()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_calls_targets_that_there_are_and_may_only_read(path, targets):
    called = set(made_by(path))
    assert called
    assert called <= targets
    assert read(path)["permissions"] == {"contents": "read"}


def test_hooks_use_the_tools_of_make_setup(targets):
    requirements = (ROOT / "scripts" / "requirements-tests.txt").read_text(encoding="utf-8")
    [local] = read(ROOT / ".pre-commit-config.yaml")["repos"]
    assert local["repo"] == "local", "another one would bring versions of its own"
    for hook in local["hooks"]:
        program, *arguments = shlex.split(hook["entry"])
        if program == "make":
            assert set(arguments) <= targets
        else:
            tool = arguments[1] if program == "build/venv/bin/python" else program.removeprefix("build/venv/bin/")
            assert f"\n{tool}==" in requirements


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", ".github/PULL_REQUEST_TEMPLATE.md"])
def test_pages_name_targets_that_there_are(name, targets):
    named = re.findall(r"`make ([a-z-]+)", (ROOT / name).read_text(encoding="utf-8"))
    assert named
    assert set(named) <= targets
