"""Files that only a hosting site or a git hook reads, which would otherwise be found broken there."""

import re
import shlex
import subprocess

import pytest
import yaml
from paths import HANG_S, ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted(path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config")
# https://docs.github.com/communities: a form that names another kind, or misses a label, is not offered.
KINDS_OF_FIELDS = {"checkboxes", "dropdown", "input", "markdown", "textarea"}


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


def steps(job):
    """The commands of a job, for each combination of its matrix that has one axis."""
    [(axis, values)] = job.get("strategy", {}).get("matrix", {"": [""]}).items()
    for value in values:
        for step in job["steps"]:
            yield step.get("run", "").replace(f"${{{{ matrix.{axis} }}}}", value)


def made(command):
    """What a command line asks make for."""
    return shlex.split(command)[1:] if command.startswith("make ") else []


def made_by(path):
    """What the jobs of a workflow ask make for."""
    return {target for job in read(path)["jobs"].values() for command in steps(job) for target in made(command)}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_calls_targets_that_there_are(path, targets):
    for name, job in read(path)["jobs"].items():
        assert any(made(command) for command in steps(job)), f"{name} makes nothing"
    assert made_by(path) <= targets


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_may_only_read_and_pins_its_actions(path):
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert "permissions" not in job
        assert job["timeout-minutes"]
        for action in [step["uses"] for step in job["steps"] if "uses" in step]:
            assert re.fullmatch(r"actions/[a-z-]+@v\d+", action)


def test_every_change_is_tested_linted_and_documented():
    assert {"lint", "test", "docs"} <= made_by(ROOT / ".github" / "workflows" / "checks.yml")


def test_hooks_use_the_tools_of_make_setup(targets):
    requirements = (ROOT / "scripts" / "requirements-tests.txt").read_text(encoding="utf-8")
    setup = (ROOT / "scripts" / "setup.sh").read_text(encoding="utf-8")
    [local] = read(ROOT / ".pre-commit-config.yaml")["repos"]
    assert local["repo"] == "local", "another one would bring versions of its own"
    for hook in local["hooks"]:
        program, *arguments = shlex.split(hook["entry"])
        if program == "make":
            assert set(arguments) <= targets
        elif program == "build/venv/bin/python":
            assert f"\n{arguments[1]}==" in requirements
        else:
            assert f'"{program}"' in setup


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_is_one_that_is_offered(path):
    form = read(path)
    assert form.keys() == {"name", "description", "labels", "body"}
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert fields
    assert {field["type"] for field in form["body"]} <= KINDS_OF_FIELDS
    for part in ("id", "label"):
        values = [field["id"] if part == "id" else field["attributes"]["label"] for field in fields]
        assert len(set(values)) == len(values)
        assert all(isinstance(value, str) for value in values)


def test_a_bug_report_asks_for_what_is_needed_to_see_it():
    text = (ROOT / ".github" / "ISSUE_TEMPLATE" / "bug.yml").read_text(encoding="utf-8")
    for asked in ("`flockstep engines`", "flockstep.__version__", "torch.__version__", "command line", "SECURITY.md"):
        assert asked in text


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", ".github/PULL_REQUEST_TEMPLATE.md"])
def test_pages_name_targets_that_there_are(name, targets):
    named = re.findall(r"`make ([a-z-]+)", (ROOT / name).read_text(encoding="utf-8"))
    assert named
    assert set(named) <= targets


def test_what_workflows_call_is_explained():
    """Each target has a row in CONTRIBUTING.md, unless it is a part of another."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for target in set().union(*map(made_by, WORKFLOWS)) - {"test-cpp", "test-python"}:
        assert f"| `make {target}` |" in text
