"""Averaging without waiting, in groups and in pairs, through the command: on every engine, and what goes on from checkpoints."""

import json

import pytest
from conftest import run_json
from layers import only
from live_run import steps_of

GROUPS = ["wagma", "flock", "eager_solo", "eager_majority"]
PAIRS = ["adpsgd", "swarm"]
# Three buckets, so that an average takes several transfers.
TRAIN = ["train", "--task", "linear", "--steps", 40, "--bucket-kib", 2]


@pytest.mark.parametrize("algorithm", only("wagma", "flock", *PAIRS, of=[*GROUPS, *PAIRS]))
@pytest.mark.parametrize("workers", only(2, of=[2, 3, 4]))
def test_workers_that_wait_for_nobody_train_under_mpirun(algorithm, workers):
    result = run_json(*TRAIN, "--algorithm", algorithm, "--straggler", "1x2ms", workers=workers)
    assert (result["engine"], result["workers"], result["steps"]) == ("mpi", workers, 40)
    assert result["replicas_equal"]
    assert result["bytes_sent_per_step"] > 0
    if algorithm in GROUPS:
        assert sum(result["staleness"]) == workers * 40
        assert 0 < result["fresh_fraction"] <= 1


def test_the_trace_tells_who_started_a_round_and_who_was_passive(tmp_path):
    run_json(
        *[*TRAIN, "--algorithm", "wagma", "--engine", "sim", "--workers", 4, "--wagma.period", 5],
        *["--straggler-fixed", "2:250ms", "--jitter", "lognormal:0.1", "--evaluate-every", 40, "--out", tmp_path],
    )
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    rounds = [event for event in events if "round" in event.get("args", {})]
    for number in range(40):
        of_round = {event["pid"]: event for event in rounds if event["args"]["round"] == number}
        assert sorted(of_round) == [0, 1, 2, 3]
        names = {rank: event["name"] for rank, event in of_round.items()}
        if number % 5 == 4:
            assert set(names.values()) == {"synchronisation"}
            continue
        starters = {event["args"]["activator"] for event in of_round.values()} - {-1}
        assert len(starters) == 1
        assert names[starters.pop()] == "round, activated here"
        assert names[2] == "round, passive"  # which is late in every step


@pytest.mark.thorough
@pytest.mark.parametrize("algorithm", ["wagma", "flock"])
@pytest.mark.parametrize("engine", ["threads", "threads --deterministic", "sim"])
def test_a_run_goes_on_and_counts_every_step_also_with_other_workers(tmp_path, algorithm, engine):
    train = [*TRAIN, "--engine", *engine.split(), "--algorithm", algorithm, "--checkpoint-every", 10]
    uneven = ["--compute-ms", 1, "--jitter", "lognormal:0.5", "--batch", 60, "--out", tmp_path]
    half = run_json(*train, *uneven, "--workers", 3, "--steps", 30)
    whole = run_json(*train, *uneven, "--workers", 3, "--steps", 60, "--resume")
    assert whole["quality"] != half["quality"]
    other = run_json(*train, *uneven, "--workers", 5, "--steps", 90, "--resume")
    assert steps_of(tmp_path) == list(range(1, 91))
    assert (other["workers"], other["steps"]) == (5, 90)
    for result in (whole, other):
        assert result["replicas_equal"]
