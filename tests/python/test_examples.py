"""The examples run as their READMEs say, and do what they promise."""

import difflib
import inspect
import json
import re

import flockstep
import pytest
from launching import run_real_torchrun
from paths import ROOT

EXAMPLES = ROOT / "examples"
DDP = EXAMPLES / "pytorch_ddp"
DOCUMENTED = [name for name, home in flockstep._HOME.items() if home in ("flockstep.averagers", "flockstep.rules")]


def figures(pattern, done):
    assert done.returncode == 0, done.stderr
    found = re.findall(pattern, done.stdout)
    assert found, done.stdout
    return found


def test_adacons_is_the_plain_script_with_two_lines_more():
    # Without the docstring, which says what the script is.
    scripts = [(DDP / name).read_text().split('"""', 2)[2].splitlines() for name in ("plain.py", "adacons.py")]
    changed = [line for line in difflib.ndiff(*scripts) if line[0] in "+-"]
    assert changed == ["+ import flockstep", "+ flockstep.adacons(model)"]


@pytest.mark.parametrize(
    ("readme", "call"),
    [
        (DDP / "README.md", "flockstep.adacons(model)"),
        (ROOT / "README.md", 'flockstep.register(model, "direction_consensus")'),
        (ROOT / "docs" / "pytorch.md", 'flockstep.register(model, "adacons")'),
    ],
    ids=str,
)
def test_the_diff_in_a_readme_adds_two_lines(readme, call):
    shown = re.search(r"```diff\n(.*?)```", readme.read_text(), re.DOTALL)
    assert [line[1:] for line in shown[1].splitlines() if line.startswith("+")] == ["import flockstep", call]


def test_adacons_learns():
    accuracies = figures(r"epoch \d: accuracy ([\d.]+)", run_real_torchrun(DDP / "adacons.py", 2))
    assert len(accuracies) == 3
    assert float(accuracies[-1]) > 0.8


@pytest.mark.thorough
def test_the_forgotten_sampler_is_reported_within_30_steps(torchrun):
    done = torchrun(DDP / "forgotten_sampler.py", 2)
    ((steps, finding),) = figures(r"after (\d+) steps: (.*)", done)
    assert int(steps) <= 30
    assert "workers 0 and 1 sent the same gradient" in finding
    assert finding in done.stderr  # as a Python warning


@pytest.mark.thorough
def test_flock_does_not_wait_for_the_late_worker(torchrun):
    done = torchrun(EXAMPLES / "pytorch_flock" / "straggler.py", 2, "--epochs", 1, "--late-ms", 50)
    rows = dict(figures(r"(plain DDP|flock) +(\d+) samples/s", done))
    assert float(rows["flock"]) > float(rows["plain DDP"])


@pytest.mark.thorough
@pytest.mark.parametrize(("algorithm", "steps"), [("adacons", 320), ("flock", 500)])
def test_a_small_gpt_is_clearly_better_than_a_bigram_model(torchrun, algorithm, steps):
    done = torchrun(EXAMPLES / "pytorch_gpt" / "train.py", 2, "--with", algorithm, "--steps", steps)
    ((ours, bigram),) = figures(rf"validation: {algorithm} ([\d.]+), bigram model ([\d.]+)", done)
    assert 1 < float(ours) < float(bigram) - 0.15


FSDP = EXAMPLES / "pytorch_fsdp" / "train.py"


@pytest.mark.thorough
def test_a_sharded_gpt_goes_on_from_a_checkpoint_as_if_uninterrupted(torchrun, tmp_path):
    losses = []
    for first in (0, 20):
        done = torchrun(FSDP, 2, "--steps", 30, "--checkpoint", tmp_path, "--every", 20, "--with", "adacons")
        ((loss, began),) = figures(r"validation: adacons ([\d.]+) nats a byte, steps (\d+) to 30", done)
        assert int(began) == first
        losses.append(loss)
    assert losses[0] == losses[1]


@pytest.mark.thorough
def test_a_sharded_gpt_in_two_replicas_learns_beside_a_broken_rank(torchrun):
    done = torchrun(FSDP, 4, "--steps", 60, "--replicas", 2, "--faulty", 1, "--with", "direction_consensus")
    (loss,) = figures(r"validation: direction_consensus ([\d.]+)", done)
    assert float(loss) < 3.6  # log(256) is 5.5
    assert "finding: worker 1 points against the others" in done.stdout


@pytest.mark.thorough
def test_replicas_that_do_not_divide_the_ranks_get_a_sentence(torchrun):
    done = torchrun(FSDP, 2, "--replicas", 3)
    assert done.returncode != 0
    assert "--replicas 3 does not divide the 2 ranks" in done.stderr


@pytest.fixture(scope="module")
def documented_defaults():
    """Every row of the document's tables of options: the option, and what its default column says."""
    rows = [
        line.split("|")[1:-1] for line in (ROOT / "docs" / "pytorch.md").read_text().splitlines() if line[:1] == "|"
    ]
    cells = [[cell.strip() for cell in row] for row in rows if len(row) in (3, 4)]
    return {(row[-3].strip("`"), default) for row in cells for default in re.findall(r"`([^`]*)`", row[-2])}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_the_document_has_every_option_with_its_default(name, documented_defaults):
    for option in inspect.signature(getattr(flockstep, name)).parameters.values():
        if option.kind is inspect.Parameter.KEYWORD_ONLY:
            default = json.dumps(option.default) if isinstance(option.default, str) else repr(option.default)
            assert (option.name, default) in documented_defaults
