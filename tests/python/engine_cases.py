"""What a worker of test_engine.py does: engine_cases.py FOLDER CASE..., one process per worker.

Each case runs on all workers in turn, and leaves what it saw in FOLDER/RANK.json under its name. The last may end the
process its own way.
"""

import atexit
import json
import os
import signal
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist
from cases import PATIENCE, tell, wait_to_hear
from flockstep import Error, _worker

FOLDER = Path(sys.argv[1])
found = {}


def attach(seconds=600, group=None):
    return _worker.attach(group, deadline=timedelta(seconds=seconds))


def outcome(action):
    """What came of it, and how long it took."""
    begin = time.monotonic()
    try:
        action()
        seen = {"code": "none"}
    except Error as error:
        seen = {"code": error.code, "type": type(error).__name__, "text": str(error), "engine": error.engine}
    return {**seen, "seconds": time.monotonic() - begin}


def note(name, **values):
    found[name] = values
    (FOLDER / f"{os.environ['RANK']}.json").write_text(json.dumps(found))


def two_workers_in_one_process():
    first, second = attach(), attach()
    for worker in [first, second, second, first]:
        worker.native.barrier()
    first.close()
    second.native.barrier()
    second.close()
    note("two_workers_in_one_process", ranks=[first.rank, second.rank], sizes=[first.size, second.size])


def a_sub_group_of_the_world():
    """Of the last two; and rank 1 alone is in another group, so that members differ in how many groups they have."""
    dist.new_group([0, 1])
    group = dist.new_group([1, 2])
    if dist.get_rank() == 0:
        return note("a_sub_group_of_the_world", outsider=outcome(lambda: attach(group=group)))
    worker = attach(group=group)
    worker.native.barrier()
    worker.close()
    again = attach(group=group)
    again.native.barrier()
    again.close()
    note("a_sub_group_of_the_world", rank=worker.rank, size=worker.size)


def a_python_thread_counts_while_another_waits():
    """Rank 0 comes once a thread of each other has counted."""
    worker = attach()
    worker.native.barrier()

    def count():
        for _ in range(50):
            time.sleep(0.001)
        tell(f"counted, {dist.get_rank()}")

    if dist.get_rank() == 0:
        wait_to_hear("counted, 1", "counted, 2")
    thread = threading.Thread(target=count)
    thread.start()
    seen = outcome(worker.native.barrier)
    thread.join()
    worker.close()
    note("a_python_thread_counts_while_another_waits", code=seen["code"])


def a_forked_child_ends_nothing():
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
    note("a_forked_child_ends_nothing", status=os.waitstatus_to_exitcode(status))


def a_deadline_passes():
    """Rank 0 comes when the others have given up."""
    worker = attach(seconds=1)
    if dist.get_rank() == 0:
        wait_to_hear("gave up, 1", "gave up, 2")
    first = outcome(worker.native.barrier)
    tell(f"gave up, {dist.get_rank()}")
    second = outcome(worker.native.barrier)
    note("a_deadline_passes", first=first, second=second, close=outcome(worker.close))


def a_worker_closes():
    """Rank 1 ends: nobody minds who does not need it, and whoever waits for it hears of it, rank 0 already waiting."""
    worker = attach()
    worker.native.barrier()
    if dist.get_rank() == 1:
        time.sleep(0.3)
        closing = outcome(worker.close)
        return note("a_worker_closes", close=closing, again=outcome(worker.close), after=outcome(worker.native.barrier))
    if dist.get_rank() == 2:
        time.sleep(0.6)
    note("a_worker_closes", barrier=outcome(worker.native.barrier), close=outcome(worker.close))


def nobody_misses_a_worker_that_has_closed():
    worker = attach()
    worker.native.barrier()
    if dist.get_rank() != 1:
        time.sleep(0.5)
    note("nobody_misses_a_worker_that_has_closed", close=outcome(worker.close))


def bad_input():
    note("bad_input", deadline=outcome(lambda: attach(seconds=0)))


def closing_after_destroy_process_group():
    worker = attach()
    worker.native.barrier()
    dist.destroy_process_group()
    worker.native.barrier()
    note("closing_after_destroy_process_group", close=outcome(worker.close), attach=outcome(attach))


def killed():
    """Rank 1, while all others wait for it."""
    worker = attach()
    worker.native.barrier()
    if dist.get_rank() == 1:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    note("killed", barrier=outcome(worker.native.barrier), close=outcome(worker.close))
    sys.exit(3)


def never_closed():
    """Three workers, one of them forgotten, one idle, one broken by its deadline."""
    global kept
    attach().native.barrier()
    kept = attach(), attach(seconds=0.5)
    kept[0].native.barrier()
    if dist.get_rank() == 0:
        outcome(kept[1].native.barrier)
    note("never_closed", at=time.time())


if __name__ == "__main__":
    dist.init_process_group("gloo", timeout=PATIENCE)
    for case in sys.argv[2:]:
        globals()[case]()
    (FOLDER / f"{os.environ['RANK']}.done").write_text(str(time.time()))
