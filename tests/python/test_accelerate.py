"""The example with Accelerate on two ranks: a rule on the model that it prepares, and an averager inside of its optimizer."""

import json
import re
import shutil

import pytest
from paths import ROOT

pytestmark = pytest.mark.thorough

EXAMPLE = ROOT / "examples" / "accelerate" / "train.py"


def trained(torchrun, *arguments):
    """By rank: the norm of the model, and the metrics; and the accuracy after each epoch."""
    done = torchrun(EXAMPLE, 2, "--accumulate", 2, *arguments)
    assert done.returncode == 0, done.stderr
    ranks = re.findall(r"^rank \d: norm of the model ([\d.]+), ({.*})$", done.stdout, re.MULTILINE)
    assert len(ranks) == 2
    assert ranks[0][0] == ranks[1][0], "one model"
    accuracies = re.findall(r"^epoch \d: loss [\d.]+, accuracy ([\d.]+)", done.stdout, re.MULTILINE)
    return ranks[0][0], json.loads(ranks[0][1]), [float(each) for each in accuracies]


def test_a_rule_takes_the_place_of_averaging_and_goes_on_from_a_checkpoint(torchrun, tmp_path):
    norm, metrics, accuracies = trained(torchrun, "--epochs", 2, "--checkpoint", tmp_path)
    assert accuracies[-1] > 0.7
    assert metrics["step"] == 84
    assert abs(metrics["coefficient/0"] - 0.5) > 0.005

    shutil.rmtree(tmp_path / "epoch_2")
    assert trained(torchrun, "--epochs", 2, "--checkpoint", tmp_path)[0] == norm


def test_an_averager_takes_a_step_for_two_batches_and_goes_on_from_a_checkpoint(torchrun, tmp_path):
    _, metrics, [first] = trained(torchrun, "--with", "flock", "--epochs", 1, "--checkpoint", tmp_path)
    assert metrics["step"] == 42
    assert metrics["bytes_sent_per_step"] > 1000
    _, metrics, [second] = trained(torchrun, "--with", "flock", "--epochs", 2, "--checkpoint", tmp_path)
    assert metrics["step"] == 84
    assert second > max(0.7, first - 0.02), "the whole model was saved"
