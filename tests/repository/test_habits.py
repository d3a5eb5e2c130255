"""Targets of the Makefile that workflows and pages name."""

import re

import pytest
import yaml
from launching import run_program
from paths import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.fixture(scope="module")
def targets():
    """Those of the Makefile, as make itself understands it."""
    database = run_program(["make", "--print-data-base", "--question", "--no-builtin-rules", "help"], cwd=ROOT)
    return set(re.findall(r"^([a-z][a-z-]*):", database.stdout, re.MULTILINE))


def made_by(workflow):
    """What the jobs of a workflow ask make for."""
    for job in workflow["jobs"].values():
        matrix = job.get("strategy", {}).get("matrix", {})
        for step in job["steps"]:
            for target in re.findall(r"^make (.*)", step.get("run", ""), re.MULTILINE):
                axis = re.fullmatch(r"\$\{\{ matrix\.(\w+) \}\}", target)
                yield from matrix[axis[1]] if axis else target.split()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_calls_targets_that_there_are_and_may_only_read(path, targets):
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    called = set(made_by(workflow))
    assert called
    assert called <= targets
    assert workflow["permissions"] == {"contents": "read"}


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", ".github/PULL_REQUEST_TEMPLATE.md"])
def test_pages_name_targets_that_there_are(name, targets):
    named = re.findall(r"`make ([a-z-]+)", (ROOT / name).read_text(encoding="utf-8"))
    assert named
    assert set(named) <= targets
