"""A rank that is lost in a step, without torchrun, which would end the others before they can say what they saw."""

import json
import re
from pathlib import Path

import pytest
from launching import run_workers
from layers import only

PROGRAM = Path(__file__).with_name("lost_peer_program.py")
JOIN = {"sharded": "a sharded model has no join(), so give all workers the same number of batches"}


# What a rank has sent last for the step before may be lost with it, if it is killed or the machine is too busy to take it.
def raised_by_others(how, carrier):
    done = run_workers(PROGRAM, 3, how, carrier)
    lost = float(done[1].stdout.split("LOST ")[1])
    for rank in (0, 2):
        assert done[rank].returncode == 0, done[rank]
        raised = json.loads(done[rank].stdout.split("RAISED ")[1])
        assert raised["at"] - lost < 300, "it has waited for the group's half hour"
        yield rank, raised


@pytest.mark.parametrize("how", only("killed", of=["killed", "ended in backward"]))
@pytest.mark.parametrize(
    ("carrier", "engine"),
    only(("exact", "c10d"), ("sketch", ""), of=[("exact", "c10d"), ("sketch", ""), ("sharded", "")]),
)
def test_all_others_raise_peer_lost_in_the_step_and_name_the_rank(how, carrier, engine):
    for rank, raised in raised_by_others(how, carrier):
        assert raised["type"] == "PeerLostError", raised
        assert (raised["code"], raised["engine"], raised["rank"]) == ("peer_lost", engine, rank)
        assert re.match("in step [56], worker [02] (lost its connection to|waits for) worker 1, which", raised["text"])
        assert ("crashed" in raised["text"]) == (how == "killed"), raised


# In a forward pass DDP broadcasts buffers by itself: there the cause is put in front of Gloo's words.
@pytest.mark.parametrize("carrier", only("exact", of=["exact", "sketch", "buffers", "sharded"]))
def test_a_rank_that_runs_out_of_batches_is_named_with_the_step_and_join(carrier):
    for _, raised in raised_by_others("out of batches", carrier):
        assert re.match(
            "in step [56], worker [02] waits for worker 1, which has ended: it ran out of batches, skipped a step or "
            "failed; "
            + re.escape(JOIN.get(carrier, 'workers with different numbers of batches train in "with model.join():"')),
            raised["text"],
        ), raised


# Its next pass takes the place of the one that it has skipped, so its last one is missing.
@pytest.mark.parametrize("carrier", only("sketch", of=["exact", "sketch"]))
def test_a_rank_that_skipped_a_backward_pass_is_named_when_its_passes_end(carrier):
    for _, raised in raised_by_others("skipped a backward pass", carrier):
        assert raised["type"] == "PeerLostError"
        assert re.match(
            "in step 1[12], worker [02] waits for worker 1, which has ended: .*skipped a step", raised["text"]
        )
