"""Numbers that nobody means are refused in one sentence, or do no harm; either way the command soon ends."""

from pathlib import Path

import pytest
from conftest import refused, run
from live_run import with_memory

SHORT = ["--steps", 2, "--linear.dimension", 10]
OF_BOTH = [
    *["--workers", "--steps", "--batch", "--seed", "--evaluate-every", "--bucket-kib", "--checkpoint-every"],
    *["--pretend-parameters", "--compute-ms", "--deadline", "--noisy-workers"],
    *["--linear.dimension", "--linear.micro_batches", "--latency-us", "--bandwidth-gbps", "--bytes-scale"],
]
OF_COMPARE = ["--seeds", "--search-seeds", "--jobs"]
CALLS = [(command, option) for command in ("train", "compare") for option in OF_BOTH]


@pytest.mark.parametrize(("command", "option"), [*CALLS, *(("compare", option) for option in OF_COMPARE)])
def test_absurd_values_end_at_once(command, option):
    some = ["--algorithms", "mean"] if command == "compare" else []
    for value in (10**12, 2**63 - 1, 10**30):
        done = run(command, *some, *SHORT, option, value)
        assert done.returncode in (0, 2), done.stderr
        assert done.stderr.count("\n") == (1 if done.returncode == 2 else 0)


@pytest.mark.parametrize("command", ["train", "compare"])
@pytest.mark.parametrize("engine", ["--engine threads", "--engine sim --platform aries"])
def test_more_workers_than_stacks_are_refused(command, engine):
    mappings = Path("/proc/sys/vm/max_map_count")
    workers = int(mappings.read_text()) if mappings.exists() else 1 << 30
    if workers > 1 << 20:
        pytest.skip("this system has no such limit, or a high one")
    names = (f"{workers} workers need a stack each", "use fewer --workers, or raise vm.max_map_count")
    refused(command, *engine.split(), "--workers", workers, names=names)


STACKS = ("a stack each, and there is room for ", "use fewer workers, or raise the limit that ulimit -v tells")
MATRICES = ("1024 workers need 8.61 GB of memory, and ", "an --algorithm that does not compare every pair of them\n")
HUGE = "--task vision --vision.width 4096 --vision.depth 152 --workers 1"
# Stacks take 8 MiB each: there is room for a hundred or so less than the workers, or the workers and their agents, need.
SMALL = [
    (5_000_000, "--engine sim --no-gradients --algorithm mean --workers 800", 2, STACKS),
    (5_000_000, "--engine sim --no-gradients --algorithm wagma --workers 400", 2, STACKS),
    (3_000_000, "--engine sim --no-gradients --algorithm direction_consensus --workers 1024", 2, MATRICES),
    (4 << 20, HUGE, 1, ("torch failed: ", "allocate memory")),
]


@pytest.mark.parametrize(("kib", "options", "code", "names"), SMALL, ids=[row[1] for row in SMALL])
def test_a_limit_of_the_shell_counts_as_the_memory_there_is(request, kib, options, code, names):
    if options == HUGE:
        request.getfixturevalue("torch")
    refused("train", *options.split(), "--steps", 2, names=names, code=code, **with_memory(kib))


def test_workers_that_cannot_be_started_are_told():
    call = ["train", "--steps", 2, "--workers", 4000, "--batch", 4000]
    message = refused(*call, names=(), code=1, **with_memory(2_000_000))
    assert "ask for fewer workers" in message or "memory" in message
