"""The c10d engine: the conformance suite of all engines, and what is different about workers of a PyTorch program."""

import json
import os
import time
from pathlib import Path

import pytest
from launching import environment, run_workers
from layers import only
from paths import ROOT

HERE = Path(__file__).parent
WORKERS = 3
SOON_S = 300  # half of what the workers wait for each other: what takes less has not waited
CASES = [
    "two_workers_in_one_process",
    "a_sub_group_of_the_world",
    "a_python_thread_counts_while_another_waits",
    "a_forked_child_ends_nothing",
    "a_deadline_passes",
    "a_worker_closes",
    "nobody_misses_a_worker_that_has_closed",
    "bad_input",
    "closing_after_destroy_process_group",
]


def with_tests_importable():
    return environment(PYTHONPATH=os.pathsep.join([environment()["PYTHONPATH"], str(ROOT / "tests")]))


@pytest.mark.parametrize("workers", only(2, 3, of=[1, 2, 3, 4, 5, 8]))
def test_the_conformance_suite_passes(torchrun, workers):
    done = torchrun(HERE / "engine_conformance.py", workers, "*", env=with_tests_importable())
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("[  PASSED  ]") == workers


@pytest.fixture(scope="module")
def found(torchrun, tmp_path_factory):
    """found(case): what each worker saw of it."""
    folder = tmp_path_factory.mktemp("engine")
    done = torchrun(HERE / "engine_cases.py", WORKERS, folder, *CASES)
    seen = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(WORKERS)]
    assert done.returncode == 0, done.stderr

    return lambda case: [each[case] for each in seen]


def test_a_process_may_have_two_workers(found):
    for rank, seen in enumerate(found("two_workers_in_one_process")):
        assert seen == {"ranks": [rank, rank], "sizes": [WORKERS, WORKERS]}


def test_a_sub_group_of_the_world_attaches_alone_and_again(found):
    outsider, *members = found("a_sub_group_of_the_world")
    assert members == [{"rank": 0, "size": 2}, {"rank": 1, "size": 2}]
    assert outsider["outsider"]["code"] == "bad_input"
    assert "not a member" in outsider["outsider"]["text"]


def test_python_goes_on_while_a_worker_waits(found):
    assert found("a_python_thread_counts_while_another_waits") == [{"code": "none"}] * WORKERS


def test_a_forked_child_ends_nothing(found):
    assert found("a_forked_child_ends_nothing") == [{"status": 7}] * WORKERS


def test_a_deadline_that_passes_breaks_the_engine_for_all(found):
    late, *waiting = found("a_deadline_passes")
    assert {seen["first"]["type"] for seen in [late, *waiting]} == {"DeadlineExceededError"}
    assert max(seen["first"]["seconds"] for seen in waiting) > 0.9, "one of them has waited for its deadline"
    for seen in [late, *waiting]:
        assert seen["second"]["text"] == seen["first"]["text"]
        assert seen["first"]["engine"] == "c10d"
        assert seen["close"]["seconds"] < SOON_S


def test_whoever_waits_for_a_worker_that_has_closed_hears_of_it(found):
    waiting, closed, late = found("a_worker_closes")
    for seen in [waiting, late]:
        assert seen["barrier"]["type"] == "PeerLostError"
        assert "worker 1" in seen["barrier"]["text"]
        assert seen["barrier"]["seconds"] < SOON_S
        assert seen["close"]["seconds"] < SOON_S
    assert closed["close"]["seconds"] < SOON_S
    assert closed["again"]["seconds"] < SOON_S
    assert closed["after"]["code"] == "unavailable"


def test_nobody_misses_a_worker_that_has_closed(found):
    for seen in found("nobody_misses_a_worker_that_has_closed"):
        assert seen["close"]["code"] == "none"
        assert seen["close"]["seconds"] < SOON_S


def test_a_deadline_has_to_lie_ahead(found):
    assert {seen["deadline"]["code"] for seen in found("bad_input")} == {"bad_input"}


def test_a_worker_outlives_destroy_process_group(found):
    for seen in found("closing_after_destroy_process_group"):
        assert seen["close"]["code"] == "none"
        assert seen["close"]["seconds"] < SOON_S
        assert seen["attach"]["code"] == "bad_input"
        assert "init_process_group" in seen["attach"]["text"]


def ends_of(workers, script, *arguments):
    """Not under torchrun, which ends all workers as soon as one has failed."""
    done = run_workers(HERE / script, workers, *arguments, env=with_tests_importable())
    return [(worker.returncode, worker.stdout, worker.stderr) for worker in done]


def test_all_others_raise_soon_after_a_worker_was_killed(tmp_path):
    ends = ends_of(4, "engine_cases.py", tmp_path, "killed")
    assert [code for code, _, _ in ends] == [3, -9, 3, 3], ends
    for rank in [0, 2, 3]:
        seen = json.loads((tmp_path / f"{rank}.json").read_text())["killed"]
        assert seen["barrier"]["type"] == "PeerLostError"
        assert "worker 1" in seen["barrier"]["text"]
        assert seen["barrier"]["seconds"] < SOON_S
        assert seen["close"]["seconds"] < SOON_S


def test_all_others_hear_of_a_worker_that_was_killed_in_the_middle_of_a_transfer():
    ends = ends_of(3, "engine_conformance.py", "lose_a_peer")
    assert [code for code, _, _ in ends] == [3, -9, 3], ends
    for _, out, _ in [ends[0], ends[2]]:
        code, seconds = json.loads(out)
        assert code == "peer_lost"
        assert seconds < SOON_S


def test_a_process_that_never_closes_its_workers_ends_all_the_same(tmp_path):
    ends = ends_of(2, "engine_cases.py", tmp_path, "never_closed")
    ended = time.time()
    assert ends == [(0, "", "")] * 2
    for rank in range(2):
        assert ended - float((tmp_path / f"{rank}.done").read_text()) < SOON_S
