"""Every gradient rule behind DDP's hooks, against a recomputation from every rank's own gradient, with each feature of
DDP."""

from pathlib import Path

import pytest
from layers import only
from results import Results
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
NOT_SKETCHED = ["tensor_granularity", "bfloat16_on_the_wire"]
CASES = [("exact", feature) for feature in EXACT + ROUNDED]
CASES += [("sketch", feature) for feature in EXACT + ROUNDED if feature not in NOT_SKETCHED]


@pytest.fixture(scope="module")
def distances():
    return {transfer: Results(PROGRAM, 3, transfer) for transfer in ("exact", "sketch")}


@pytest.mark.parametrize(("transfer", "feature"), only(("exact", "plain"), ("sketch", "plain"), of=CASES))
def test_every_rule_gives_what_its_definition_gives(distances, transfer, feature):
    for rule in RULES:
        for worst in distances[transfer][f"{feature} {rule}"]:
            assert worst < (1e-2 if feature in ROUNDED else 1e-5), rule
