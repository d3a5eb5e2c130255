"""The tasks' metrics against Python's reference packages, on the same inputs."""

import json
import subprocess

from paths import BUILD

TOOL = BUILD / "bin" / "metrics_tool"


def ask(name, given, timeout=60):
    """The process that computes the metric `name` from the input `given`."""
    return subprocess.run([TOOL, name], input=json.dumps(given), capture_output=True, text=True, timeout=timeout)


def metric(name, given):
    """What the project computes as the metric `name` from the input `given`."""
    done = ask(name, given)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_metric_that_does_not_exist_is_told():
    done = ask("luck", {})
    assert done.returncode == 2
    assert done.stderr == "metrics_tool: there is no metric 'luck'\n"
