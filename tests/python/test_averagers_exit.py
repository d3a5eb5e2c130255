"""How a training with an averager may end: promptly, and without a word from C++ that nobody asked for."""

import functools
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from launching import environment, run_real_torchrun, run_workers
from layers import only
from paths import HANG_S

FOLDER = Path(__file__).parent
CRASHES = ("terminate called", "Segmentation fault", "core dumped", "Fatal Python error", "Exception ignored")


@functools.cache
def ending(case):
    """How the workers ended, none of them with a word from C++."""
    workers = run_workers(FOLDER / "averagers_exit.py", 3, case)
    for worker in workers:
        assert not any(crash in worker.stdout + worker.stderr for crash in CRASHES), worker.stderr
    return workers


def statuses(workers):
    return [worker.returncode for worker in workers]


@pytest.mark.parametrize(
    "case",
    only(
        "close_forgotten",
        of=[
            "close_forgotten",
            "close_forgotten_in_the_middle",
            "group_destroyed_first",
            "group_destroyed_and_close_forgotten",
            "dropped_without_close",
            "forked_loader_workers",
        ],
    ),
)
def test_all_workers_end_well(case):
    assert statuses(ending(case)) == [0, 0, 0], ending(case)


def test_without_a_process_group_there_is_one_sentence():
    for worker in ending("no_process_group"):
        last = worker.stderr.strip().splitlines()[-1]
        assert "Error: there is no process group: call torch.distributed.init_process_group() first" in last


@pytest.mark.thorough
def test_all_workers_end_with_their_own_status():
    assert statuses(ending("sys_exit_everywhere")) == [3, 3, 3]


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
def test_others_hear_of_a_worker_that_ends_while_they_train(case, status):
    workers = ending(case)
    assert statuses(workers) == [1, status, 1]
    for worker in (workers[0], workers[2]):
        last = worker.stderr.strip().splitlines()[-1]
        assert re.search(r"PeerLostError: in step \d+, worker [02] .*worker 1, which", last), last
        has_ended = "which has ended: it ran out of batches, skipped a step or failed" in last
        assert has_ended == ("killed" not in case), last
        assert ('train in "with optimizer.join():"' in last) == has_ended, last


@pytest.mark.parametrize(
    "case",
    only("killed", of=["killed", "killed_in_lockstep", "an_exception", "closed_on_one", "closed_on_one_in_pairs"]),
)
def test_others_raise_without_waiting_for_their_deadline(case):
    times = [float(worker.stdout.split("AT ")[1].split()[0]) for worker in ending(case)]
    assert max(times) - times[1] < 300  # half of it


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
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=3"]
    with subprocess.Popen(
        [*command, str(FOLDER / "averagers_restart.py"), str(tmp_path), "endless"],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        deadline = time.monotonic() + HANG_S
        while not all((tmp_path / f"began-{rank}").exists() for rank in range(3)):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)  # torchrun passes it on
        try:
            output, _ = process.communicate(timeout=HANG_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            pytest.fail(f"still there after {HANG_S} s:\n{output}")
    assert process.returncode != 0
    assert not any(crash in output for crash in CRASHES), output
