"""What a worker of test_engine.py does. The cases run under torchrun, one after the other: see cases.py. Each of ENDINGS is the last
that its workers do: engine_cases.py NAME, one process per worker.
"""

import atexit
import os
import sys
from datetime import timedelta

import cases
import flockstep
import torch.distributed as dist


def attach(seconds=600, group=None):
    from flockstep import _worker  # here: the test imports this file where there may be no compiled half

    return _worker.attach(group, deadline=timedelta(seconds=seconds))


def error_of(action):
    try:
        action()
    except flockstep.Error as error:
        return f"{error.code}: {error}"
    return "none"


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
        assert error.startswith("bad_input: "), error
        assert "not a member" in error
        return
    for _ in range(2):
        worker = attach(group=group)
        worker.native.barrier()
        worker.close()
        assert (worker.rank, worker.size) == (rank - 1, 2)


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


def a_deadline_has_to_lie_ahead(rank):
    assert error_of(lambda: attach(seconds=0)).startswith("bad_input: ")


def closing_after_destroy_process_group():
    worker = attach()
    worker.native.barrier()
    dist.destroy_process_group()
    worker.native.barrier()
    worker.close()
    error = error_of(attach)
    assert error.startswith("bad_input: "), error
    assert "init_process_group" in error


def never_closed():
    """Three workers, one of them forgotten, one idle, one broken by its deadline or by the end of its peer."""
    global kept
    attach().native.barrier()
    kept = [attach()]
    error_of(lambda: kept.append(attach(seconds=0.5)))  # which may fail on a slow machine
    kept[0].native.barrier()
    if dist.get_rank() == 0:
        error_of(kept[-1].native.barrier)


CASES = [
    a_process_may_have_two_workers,
    a_sub_group_of_the_world_attaches_alone_and_again,
    a_forked_child_ends_nothing,
    a_deadline_has_to_lie_ahead,
]
ENDINGS = {ending.__name__: ending for ending in (closing_after_destroy_process_group, never_closed)}

if __name__ == "__main__":
    if sys.argv[-1] in ENDINGS:
        cases.time_begins()
        dist.init_process_group("gloo", timeout=cases.PATIENCE)
        ENDINGS[sys.argv[-1]]()
    else:
        cases.run_by_rank(*CASES)
