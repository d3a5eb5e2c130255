"""Every gradient rule behind DDP's hooks, against a recomputation from every rank's own gradient, with each feature of
DDP."""

from pathlib import Path

import pytest
from ddp_training import outcomes
from rule_oracle import RULES

PROGRAM = Path(__file__).with_name("rules_program.py")
EXACT = [
    "plain",
    "one_bucket",
    "bucket_view",
    "find_unused",
    "static_graph",
    "no_sync",
    "activation_checkpointing",
    "reentrant_checkpointing",
    "frozen",
    "autocast",
    "compiled",
    "torch_form",
    "tensor_granularity",
    "sub_group",
    "two_models",
]
ROUNDED = ["two_types", "static_graph_of_two_types", "bfloat16_on_the_wire"]  # results in bfloat16


@pytest.fixture(scope="module", params=["exact", "sketch"])
def distances(torchrun, request):
    process = torchrun(PROGRAM, 3, request.param)
    assert process.returncode == 0, process.stderr
    return outcomes(process)


@pytest.mark.parametrize("feature", EXACT + ROUNDED)
def test_every_rule_gives_what_its_definition_gives(distances, feature):
    if f"{feature} adacons" not in distances:
        pytest.skip("sketches know neither tensors nor other types on the wire")
    for rule in RULES:
        for worst in distances[f"{feature} {rule}"]:
            assert isinstance(worst, float), worst
            assert worst < (1e-2 if feature in ROUNDED else 1e-5), rule
