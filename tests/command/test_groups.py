"""Averaging in groups that wait for nobody, through the command: on every engine, beside slow workers, and wrongly started."""

import json
import subprocess

import pytest
from conftest import COMMAND, MPIRUN, run, run_json
from layers import only
from paths import HANG_S

ALGORITHMS = ["wagma", "flock", "eager_solo", "eager_majority"]
TRAIN = ["train", "--task", "linear", "--steps", "40"]


@pytest.mark.parametrize("algorithm", only("wagma", "flock", of=ALGORITHMS))
@pytest.mark.parametrize("workers", only(2, of=[2, 3, 4]))
def test_groups_train_under_mpirun(needs, algorithm, workers):
    needs("mpi")
    result = run_json(*TRAIN, "--algorithm", algorithm, "--straggler", "1x2ms", workers=workers)
    assert (result["engine"], result["workers"], result["steps"]) == ("mpi", workers, 40)
    assert result["replicas_equal"]
    assert sum(result["staleness"]) == workers * 40
    assert 0 < result["fresh_fraction"] <= 1


def test_a_slow_step_delays_nobody_but_its_worker(needs):
    needs("sim")
    done = run(
        *["compare", "--engine", "sim", "--workers", 8, "--steps", 60, "--evaluate-every", 60, "--json"],
        *["--straggler", "2x320ms", "--algorithms", "mean,wagma,flock"],
    )
    rows = {row["algorithm"]: row["samples_per_s"]["mean"] for row in json.loads(done.stdout)["cases"][0]["rows"]}
    assert rows["wagma"] > 1.25 * rows["mean"]
    assert rows["flock"] > 1.5 * rows["mean"]
    assert rows["flock"] > rows["wagma"]


def test_the_trace_tells_who_started_a_round_and_who_was_passive(needs, tmp_path):
    needs("sim")
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


def test_workers_started_differently_hear_which_option_it_is(needs):
    needs("mpi")
    own = (
        "shift; exec "
        + f"{COMMAND} train --steps 5 --algorithm wagma --wagma.period $(( 4 + OMPI_COMM_WORLD_RANK / 2 ))"
    )
    done = subprocess.run(
        [*MPIRUN, "-n", "3", "bash", "-c", own, "-", "-"], capture_output=True, text=True, timeout=HANG_S
    )
    assert done.returncode == 2
    assert "worker 2 has wagma.period 5 where worker 0 has 4" in done.stderr
