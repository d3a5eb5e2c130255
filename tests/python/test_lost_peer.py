"""A rank that is lost in a step, without torchrun, which would end the others before they can say what they saw."""

import json
from pathlib import Path

import pytest
from launching import run_workers

PROGRAM = Path(__file__).with_name("lost_peer_program.py")


@pytest.mark.parametrize("how", ["killed", "ended in backward"])
@pytest.mark.parametrize(("transfer", "engine"), [("exact", "c10d"), ("sketch", "")])
def test_all_others_raise_peer_lost_in_the_step(how, transfer, engine):
    done = run_workers(PROGRAM, 3, how, transfer)
    lost = float(done[1].stdout.split("LOST ")[1])
    for rank in (0, 2):
        assert done[rank].returncode == 0, done[rank]
        raised = json.loads(done[rank].stdout.split("RAISED ")[1])
        assert raised["type"] == "PeerLostError"
        assert (raised["code"], raised["engine"], raised["rank"]) == ("peer_lost", engine, rank)
        assert raised["at"] - lost < 300, "it has waited for the group's half hour"
