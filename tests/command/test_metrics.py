"""The tasks' metrics against Python's reference packages, on the same inputs."""

import json
import subprocess

import numpy
import pytest
from paths import BUILD
from sklearn.metrics import log_loss, roc_auc_score

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


@pytest.mark.parametrize("steps", [1, 3, 20, None], ids=lambda steps: f"{steps}_scores" if steps else "all_differ")
def test_click_metrics_are_those_of_scikit_learn(steps):
    draw = numpy.random.default_rng(steps)
    for count in [2, 5, 40, 5000]:
        scores = draw.normal(0, 3, count)
        if steps:
            scores = numpy.round(draw.uniform(0, 1, count) * steps) / steps - 0.5
        labels = draw.permutation([0, 1, *draw.integers(0, 2, count - 2)])
        found = metric("auc", {"scores": list(scores), "labels": labels.tolist()})
        assert found["auc"] == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)
        assert found["log_loss"] == pytest.approx(log_loss(labels, 1 / (1 + numpy.exp(-scores))), rel=1e-9)
