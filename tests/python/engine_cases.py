"""What a worker of test_engine.py does. The cases run under torchrun, one after the other: see cases.py. Each of ENDINGS is the last
that its workers do: engine_cases.py NAME, one process per worker.
"""

import atexit
import os
import signal
import sys
import threading
import time
from datetime import timedelta

import cases
import flockstep
import torch.distributed as dist
from cases import PATIENCE, tell, wait_to_hear


def attach(seconds=600, group=None):
    from flockstep import _worker  # here: the test imports this file where there may be no compiled half

    return _worker.attach(group, deadline=timedelta(seconds=seconds))


def error_of(action):
    """The error that came of it, or None. A case that waits for its deadline outlasts the patience of cases.py."""
    try:
        action()
    except flockstep.Error as error:
        return error
    return None


def a_process_may_have_two_workers(rank):
    first, second = attach(), attach()
    for worker in [first, second, second, first]:
        worker.native.barrier()
    first.close()
    second.native.barrier()
    second.close()
    assert (first.rank, second.rank, first.size, second.size) == (rank, rank, 3, 3)


def a_sub_group_of_the_world_attaches_alone_and_again(rank):
    """Of the last two; and rank 1 alone is in another group, so that members differ in how many groups they have."""
    dist.new_group([0, 1])
    group = dist.new_group([1, 2])
    if rank == 0:
        error = error_of(lambda: attach(group=group))
        assert error.code == "bad_input"
        assert "not a member" in str(error)
        return
    for _ in range(2):
        worker = attach(group=group)
        worker.native.barrier()
        worker.close()
        assert (worker.rank, worker.size) == (rank - 1, 2)


def python_goes_on_while_a_worker_waits(rank):
    """Rank 0 comes once a thread of each other has counted."""
    worker = attach()
    worker.native.barrier()

    def count():
        for _ in range(50):
            time.sleep(0.001)
        tell(f"counted, {rank}")

    if rank == 0:
        wait_to_hear("counted, 1", "counted, 2")
    thread = threading.Thread(target=count)
    thread.start()
    worker.native.barrier()
    thread.join()
    worker.close()


def a_forked_child_ends_nothing(rank):
    worker = attach()
    worker.native.barrier()
    child = os.fork()
    if child == 0:  # it ends as those of multiprocessing do: torch's own groups survive no other way
        worker.close()
        del worker
        atexit._run_exitfuncs()
        os._exit(7)
    _, status = os.waitpid(child, 0)
    worker.native.barrier()
    worker.close()
    assert os.waitstatus_to_exitcode(status) == 7


def a_deadline_that_passes_breaks_the_engine_for_all(rank):
    """Rank 0 comes when the others have given up."""
    worker = attach(seconds=1)
    if rank == 0:
        wait_to_hear("gave up, 1", "gave up, 2")
    begin = time.monotonic()
    first = error_of(worker.native.barrier)
    waited_s = time.monotonic() - begin
    tell(f"gave up, {rank}")
    second = error_of(worker.native.barrier)
    worker.close()
    assert type(first) is flockstep.DeadlineExceededError
    assert first.engine == "c10d"
    assert str(second) == str(first)
    assert max(cases.everybodys(waited_s)[1:]) > 0.9, "one of them has waited for its deadline"


def a_worker_that_waits_for_one_that_has_closed_hears_of_it(rank):
    """Rank 0 already waits, and rank 2 comes later."""
    worker = attach()
    worker.native.barrier()
    if rank == 1:
        time.sleep(0.3)
        worker.close()
        worker.close()
        tell("worker 1 has closed")
        assert error_of(worker.native.barrier).code == "unavailable"
        return
    if rank == 2:
        wait_to_hear("worker 1 has closed")
    error = error_of(worker.native.barrier)
    worker.close()
    assert type(error) is flockstep.PeerLostError
    assert "worker 1" in str(error)


def nobody_misses_a_worker_that_has_closed(rank):
    worker = attach()
    worker.native.barrier()
    if rank != 1:
        wait_to_hear("worker 1 has closed again")
    worker.close()
    tell(f"worker {rank} has closed again")


def a_deadline_has_to_lie_ahead(rank):
    assert error_of(lambda: attach(seconds=0)).code == "bad_input"


def closing_after_destroy_process_group(rank):
    worker = attach()
    worker.native.barrier()
    dist.destroy_process_group()
    worker.native.barrier()
    worker.close()
    error = error_of(attach)
    assert error.code == "bad_input"
    assert "init_process_group" in str(error)


def killed(rank):
    """Rank 1, while all others wait for it."""
    worker = attach()
    worker.native.barrier()
    if rank == 1:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    error = error_of(worker.native.barrier)
    worker.close()
    assert type(error) is flockstep.PeerLostError
    assert "worker 1" in str(error)
    sys.exit(3)


def never_closed(rank):
    """Three workers, one of them forgotten, one idle, one broken by its deadline."""
    global kept
    attach().native.barrier()
    kept = attach(), attach(seconds=0.5)
    kept[0].native.barrier()
    if rank == 0:
        error_of(kept[1].native.barrier)


CASES = [
    a_process_may_have_two_workers,
    a_sub_group_of_the_world_attaches_alone_and_again,
    python_goes_on_while_a_worker_waits,
    a_forked_child_ends_nothing,
    a_deadline_that_passes_breaks_the_engine_for_all,
    a_worker_that_waits_for_one_that_has_closed_hears_of_it,
    nobody_misses_a_worker_that_has_closed,
    a_deadline_has_to_lie_ahead,
]
ENDINGS = [closing_after_destroy_process_group, killed, never_closed]

if __name__ == "__main__":
    if sys.argv[-1] in {ending.__name__ for ending in ENDINGS}:
        cases.time_begins()
        dist.init_process_group("gloo", timeout=PATIENCE)
        globals()[sys.argv[1]](dist.get_rank())
    else:
        cases.run_by_rank(*CASES)
