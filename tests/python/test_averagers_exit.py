"""How a training with an averager may end: promptly, and without a crash in C++."""

import re
from pathlib import Path

import pytest
from launching import environment, run_real_torchrun, run_workers
from layers import only

FOLDER = Path(__file__).parent
CRASHES = ("terminate called", "Segmentation fault", "core dumped", "Fatal Python error", "Exception ignored")


def ending(case):
    """How the workers ended, none of them with a crash in C++."""
    workers = run_workers(FOLDER / "averagers_exit.py", 3, case)
    for worker in workers:
        assert not any(crash in worker.stdout + worker.stderr for crash in CRASHES), worker.stderr
    return workers


def statuses(workers):
    return [worker.returncode for worker in workers]


@pytest.mark.parametrize(
    ("case", "expected"),
    only(
        ("close_forgotten", 0),
        of={
            "close_forgotten": 0,
            "close_forgotten_in_the_middle": 0,
            "group_destroyed_first": 0,
            "group_destroyed_and_close_forgotten": 0,
            "dropped_without_close": 0,
            "forked_loader_workers": 0,
            "sys_exit_everywhere": 3,
        }.items(),
    ),
)
def test_all_workers_end_with_their_own_status(case, expected):
    workers = ending(case)
    assert statuses(workers) == [expected] * 3, workers


def test_without_a_process_group_there_is_one_sentence():
    for worker in ending("no_process_group"):
        last = worker.stderr.strip().splitlines()[-1]
        assert "Error: there is no process group: call torch.distributed.init_process_group() first" in last


@pytest.mark.parametrize(
    ("case", "status"),
    only(
        ("killed", -9),
        of={
            "an_exception": 1,
            "an_exception_in_lockstep": 1,
            "sys_exit_on_one": 0,
            "closed_on_one": 0,
            "closed_on_one_in_pairs": 0,
            "killed": -9,
            "killed_in_lockstep": -9,
        }.items(),
    ),
)
def test_others_hear_of_a_worker_that_ends_without_waiting_for_their_deadline(case, status):
    workers = ending(case)
    assert statuses(workers) == [1, status, 1]
    times = [float(worker.stdout.split("AT ")[1].split()[0]) for worker in workers]
    assert max(times) - times[1] < 300  # half of the deadline
    for worker in (workers[0], workers[2]):
        last = worker.stderr.strip().splitlines()[-1]
        assert re.search(r"PeerLostError: in step \d+, worker [02] .*worker 1, which", last), last
        has_ended = "which has ended: it ran out of batches, skipped a step or failed" in last
        assert has_ended == ("killed" not in case), last
        assert ('train in "with optimizer.join():"' in last) == has_ended, last


@pytest.mark.thorough
def test_a_lost_worker_is_restarted_and_all_go_on_from_the_checkpoint(tmp_path):
    # Else torch's own groups find the addresses of the workers before, in the store that torchrun keeps.
    env = environment(TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1")
    done = run_real_torchrun(FOLDER / "averagers_restart.py", 3, tmp_path, options=["--max-restarts=1"], env=env)
    assert done.returncode == 0, done.stderr
    assert [(tmp_path / f"began-{rank}").read_text() for rank in range(3)] == ["10"] * 3
    ends = [(tmp_path / f"ended-{rank}").read_text() for rank in range(3)]
    assert ends[0].startswith("20 ")
    assert ends[0] == ends[1] == ends[2]


@pytest.mark.thorough
def test_ctrl_c_ends_all_workers(tmp_path):
    done = run_real_torchrun(FOLDER / "averagers_restart.py", 3, tmp_path, "ctrl-c")
    assert done.returncode != 0
    assert (tmp_path / "interrupted").exists(), done.stderr
    assert not any(crash in done.stdout + done.stderr for crash in CRASHES), done.stderr
