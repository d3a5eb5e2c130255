"""Numbers that nobody means are refused in one sentence, or do no harm; either way the command soon ends."""

import subprocess
from pathlib import Path

import pytest
from conftest import COMMAND, run
from paths import HANG_S

SHORT = ["--steps", 2, "--linear.dimension", 10]
VALUES = [10**12, 2**63 - 1, 10**30]
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
    for value in VALUES:
        done = run(command, *some, *SHORT, option, value)
        assert done.returncode in (0, 2), done.stderr
        assert done.stderr.count("\n") == (1 if done.returncode == 2 else 0)


@pytest.mark.parametrize("command", ["train", "compare"])
def test_a_batch_has_a_limit_for_every_worker(command):
    done = run(command, "--workers", 3, "--batch", 3 * 2**20 + 3)
    assert done.returncode == 2
    assert done.stderr == (
        "flockstep: a batch of 3145731 gives workers more than 1048576 samples each: use at most 3145728 for 3 workers\n"
    )


@pytest.mark.parametrize("command", ["train", "compare"])
@pytest.mark.parametrize("engine", [["--engine", "threads"], ["--engine", "sim", "--platform", "aries"]], ids=str)
def test_more_workers_than_stacks_are_refused(command, engine, needs):
    needs(engine[1])
    mappings = Path("/proc/sys/vm/max_map_count")
    workers = int(mappings.read_text()) if mappings.exists() else 1 << 30
    if workers > 1 << 20:
        pytest.skip("this system has no such limit, or a high one")
    done = run(command, *engine, "--workers", workers)
    assert done.returncode == 2
    assert f"{workers} workers need a stack each, and this machine lets a process have " in done.stderr
    assert "use fewer --workers, or raise vm.max_map_count" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("algorithm", ["mean", "wagma"])
def test_a_simulation_says_when_there_is_no_room_for_its_stacks(algorithm, needs):
    needs("sim")
    # 8 MiB each: room for a hundred or so less than the workers of one need, or the workers and agents of the other.
    workers = {"mean": 800, "wagma": 400}[algorithm]
    call = f"{COMMAND} train --engine sim --no-gradients --algorithm {algorithm} --workers {workers} --steps 1"
    done = subprocess.run(
        ["bash", "-c", f"ulimit -v 5000000; exec {call}"], capture_output=True, text=True, timeout=HANG_S
    )
    assert done.returncode == 2, done.stderr
    assert "the workers of this simulation and their agents need a stack each, and there is room for " in done.stderr
    assert "use fewer workers, or raise the limit that ulimit -v tells" in done.stderr
    assert done.stderr.count("\n") == 1
