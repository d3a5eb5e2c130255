"""Every JSON object that is written says by which rules: "schema"."""

import contextlib
import json
import re

import pytest
from conftest import refused, run, run_json
from flockstep._schema import SCHEMA

COMPARE = ["compare", "--algorithms", "mean,local_sgd", "--workers", 2, "--steps", 10]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A comparison with its report left out, and with checkpoints."""
    out = tmp_path_factory.mktemp("schema") / "comparison"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLOCKSTEP_PYTHON", "/bin/true")
        run_json(*COMPARE, "--checkpoint-every", 5, "--out", out)
    return out


def test_every_file_of_a_comparison_has_it(folder):
    files = [path for path in folder.rglob("*") if path.suffix == ".json" or path.name == "latest"]
    assert {path.name for path in files} == {"compare.json", "request.json", "summary.json", "trace.json", "latest"}
    for path in files:
        assert json.loads(path.read_text())["schema"] == SCHEMA, path
    for path in folder.rglob("*.jsonl"):
        assert {json.loads(line)["schema"] for line in path.read_text().splitlines()} == {SCHEMA}, path


@pytest.mark.parametrize(
    "call",
    [
        *(["algorithms"], ["tasks"], ["engines"], ["platforms"], ["study"], ["train", "--steps", 2], COMPARE),
        ["calibrate", "--workers", 2, "--rounds", 1, "--megabytes", 1],
    ],
    ids=lambda call: call[0],
)
def test_every_output_has_it(call):
    result = run_json(*call)
    assert {each["schema"] for each in (result if isinstance(result, list) else [result])} == {SCHEMA}


def test_step_times_of_calibrate_have_it_and_later_ones_are_refused(needs, tmp_path):
    needs("sim")
    steps = tmp_path / "steps.json"
    small = ["--workers", 2, "--rounds", 1, "--megabytes", 1, "--floats", 1000, "--compute-ms", 1]
    run_json("calibrate", *small, "--algorithms", "mean", "--steps", steps)
    saved = json.loads(steps.read_text())
    assert saved["schema"] == SCHEMA
    steps.write_text(json.dumps({**saved, "schema": SCHEMA + 1}))
    names = f"steps.json has schema {SCHEMA + 1}, and this version of flockstep reads up to {SCHEMA}"
    refused("calibrate", "--against", steps, "--platform", "aries", names=names, code=1)


@contextlib.contextmanager
def of_schema(path, schema):
    """The file as if it were of this version; None for one from before there was a schema."""
    before = path.read_text()
    path.write_text(re.sub(rf'"schema": ?{SCHEMA}', f'"schema": {schema}' if schema else '"unknown": 0', before))
    yield
    path.write_text(before)


@pytest.mark.parametrize("name", ["request.json", "summary.json"])
def test_a_comparison_leaves_runs_of_a_later_version_alone(folder, name):
    with of_schema(folder / "runs" / "mean-seed-1" / name, 99):
        refused(*COMPARE, "--checkpoint-every", 5, "--out", folder, names=f"{name} has schema 99", code=1)


@pytest.mark.parametrize("name", ["compare.json", "runs/mean-seed-1/summary.json", "runs/mean-seed-1/metrics.jsonl"])
def test_the_report_refuses_files_of_a_later_version(folder, name):
    path = folder / name
    with of_schema(path, 99):
        names = f"has schema 99, and this version of flockstep reads up to {SCHEMA}"
        refused("report", path.parent, "--text", names=names, code=1)


def test_files_from_before_there_was_one_are_read(folder):
    with of_schema(folder / "runs" / "mean-seed-1" / "summary.json", None):
        done = run("report", folder / "runs" / "mean-seed-1", "--text")
    assert done.returncode == 0, done.stderr
