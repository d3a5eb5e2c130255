"""Checkpoints of averagers: who may save them, who can go on from them, and what they hold."""

import json
from pathlib import Path

import pytest
from results import Results

pytestmark = pytest.mark.thorough

SCRIPT = Path(__file__).parent / "averagers_checkpoint.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture(scope="module")
def results(folder):
    return Results(SCRIPT, 3, folder)


def test_rank_0_may_take_a_state_dict_alone_and_is_warned_once(results):
    seen = results["rank_0_takes_a_state_dict_alone"][0]
    assert len(seen["warnings"]) == 1
    assert "call consolidate() on all workers" in seen["warnings"][0]
    assert set(seen["kinds"]) <= {"Tensor", "NoneType", "bool", "float", "int", "str"}


def test_who_goes_on_ends_on_the_bits_of_who_was_never_interrupted(results):
    for same in results["who_goes_on_ends_as_who_was_never_interrupted"]:
        assert all(same.values()), same


@pytest.mark.parametrize("averager", ["Flock", "Wagma", "ADPSGD", "Swarm", "LocalSGD", "DiLoCo", "SGP"])
def test_any_number_of_workers_goes_on_from_rank_0s_checkpoint(results, averager):
    workers = [worker[averager] for worker in results["anybody_goes_on_from_rank_0s_checkpoint"]]
    for number in ("3", "2"):
        ends = [worker[number] for worker in workers[: int(number)]]
        assert all(end["started"] for end in ends)
        assert all(end["steps"] == 5 for end in ends)
        assert all(end["model"] == ends[0]["model"] for end in ends)


def test_an_averager_goes_on_from_a_plain_optimizer_and_back(results):
    models = results["a_state_without_ours"]
    assert models[0] == models[1] == models[2]


def test_a_plain_optimizer_keeps_nothing_of_an_averager(results):
    for seen in results["a_plain_optimizer_keeps_nothing_of_ours"]:
        assert all(seen.values()), seen


def test_a_state_can_be_loaded_in_the_middle_of_a_training(results):
    assert all(seen == {"back": True, "steps": 4} for seen in results["in_the_middle_of_a_training"])


@pytest.mark.parametrize("how", [0, 1], ids=["with torch's helpers", "with state_dict()"])
def test_torch_distributed_checkpoint_saves_and_loads(results, how):
    ends = [worker[how] for worker in results["distributed_checkpoint"]]
    assert all(end["same"] for end in ends)
    assert all(end["steps"] == 4 for end in ends)
    assert all(end["model"] == ends[0]["model"] for end in ends)


def test_a_pickled_averager_attaches_again(results):
    for plain, wrapped in results["pickled"]:
        assert plain == wrapped == {"identity": True, "same": True, "steps": 2, "synchronises": True}


def test_post_local_sgd_goes_on_without_ddps_gradients(results):
    assert all(
        seen == {"before": True, "own": True} for seen in results["post_local_sgd_goes_on_without_ddps_gradients"]
    )


def test_a_run_leaves_metrics_and_files_for_the_report(results, folder):
    for seen in results["what_a_run_leaves"]:
        assert seen["plain"]
        assert seen["figures"]["step"] == 6
        assert 0 <= seen["figures"]["fresh_fraction"] <= 1
        assert {"loss", "wait_share", "bytes_sent_per_step"} <= seen["figures"].keys()
    files = {path.name for path in (folder / "run").iterdir()}
    assert {"metrics.jsonl", "metrics-1.jsonl", "metrics-2.jsonl", "trace.json", "summary.json"} <= files
    lines = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert json.loads((folder / "run" / "summary.json").read_text())["algorithm"] == "flock"
