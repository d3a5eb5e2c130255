"""What happens to a run over MPI when something goes wrong: watched from outside, since the launcher has its say."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import MPIRUN, run
from layers import only
from live_run import end_of, live_run, wait_until
from paths import BUILD, HANG_S

FAILURES = [
    "aMessageNobodySendsBreaksTheEngineAtTheDeadline",
    "aCollectiveThatOneWorkerNeverJoinsBreaksTheEngineAtTheDeadline",
    "aWorkerThatReturnsEarlyIsNamedAtOnce",
    "blocksOfDifferentSizesAreAMismatch",
    "aMessageThatIsTooShortIsAMismatch",
    "anAgentThatThrowsEndsItsWorkersWait",
    "anOperationDroppedBeforeItsTimeLeavesNothingDangling",
    "aWorkerThatThrowsEndsTheRunWithItsOwnMessage",
    "aWorkerThatThrowsDuringATransferTellsItsPeersWhy",
    "collectivesOfDifferentOwnersAreAMismatchAndMoveNoData",
]


@pytest.mark.parametrize(
    ("name", "workers"),
    only(
        *((name, 2) for name in FAILURES[:3]),
        of=[
            *((name, workers) for name in FAILURES for workers in (2, 3)),
            ("aBroadcastWhoseRootNeverJoinsNamesTheRoot", 5),
        ],
    ),
)
def test_conformance_after_a_failure(needs, name, workers):
    needs("mpi")
    suite = [BUILD / "bin" / "engines_test", "--engine", "mpi", "--workers", str(workers)]
    done = subprocess.run(
        [*MPIRUN, "-n", str(workers), *suite, f"--gtest_filter=ConformanceFailure.{name}"],
        capture_output=True,
        text=True,
        timeout=HANG_S,
    )
    assert done.stdout.count("Running 1 test ") == workers, done.stdout + done.stderr
    assert done.stdout.count("conformance: this process passed") == workers, done.stdout + done.stderr


def processes_by_rank(launcher):
    """The processes that mpirun has started, by rank."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            if not entry.name.isdigit() or f"\nPPid:\t{launcher}\n" not in (entry / "status").read_text():
                continue
            for variable in (entry / "environ").read_bytes().split(b"\0"):
                if variable.startswith(b"OMPI_COMM_WORLD_RANK="):
                    found[int(variable.split(b"=")[1])] = int(entry.name)
        except OSError:  # gone meanwhile
            continue
    return found


def is_running(process):
    """Whether it still does something: one that only waits for its parent to read its exit code does not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False


@pytest.mark.parametrize("victim", only(2, of=[0, 2]))
@pytest.mark.parametrize("algorithm", only("mean", of=["mean", "wagma", "flock"]))
def test_a_killed_worker_ends_the_run(tmp_path, algorithm, victim):
    call = ["train", "--steps", 100000, "--linear.dimension", 100000, "--batch", 3, "--out", tmp_path]
    endless = ["--deadline", 100000]  # so that nothing ends it but the loss
    with live_run(*call, *endless, "--algorithm", algorithm, workers=3) as launcher:
        wait_until((tmp_path / "metrics.jsonl").exists, "its metrics", launcher)
        wait_until(lambda: len(processes_by_rank(launcher.pid)) == 3, "its processes", launcher)
        time.sleep(0.5)  # well into the collectives
        workers = processes_by_rank(launcher.pid)
        os.kill(workers[victim], signal.SIGKILL)
        code, _, stderr = end_of(launcher)
    assert code != 0
    assert stderr.count("flockstep: ended by SIGTERM") == 1, stderr
    assert "; with --checkpoint-every and --out, --resume could continue it\n" in stderr
    # mpirun may be a moment ahead of the last of them.
    wait_until(lambda: not any(is_running(process) for process in workers.values()), "the end of all processes")


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ("--algorithm mean", "all_to_all"),
        ("--algorithm wagma --wagma.period 2", "round"),
        ("--algorithm eager_majority", "round"),
        ("--algorithm adpsgd", "the halt of all workers"),
    ],
)
@pytest.mark.parametrize("engine", ["mpi", "threads"])
def test_a_deadline_ends_all_processes_and_names_who_is_missing(engine, options, place):
    call = ["train", *options.split(), "--straggler-fixed", "1:5s", "--deadline", 0.5, "--steps", 200]
    done = run(*call, workers=2) if engine == "mpi" else run(*call, "--engine", "threads", "--workers", 2)
    assert done.returncode == 1
    assert f"worker 1 has not arrived at {place}" in done.stderr
    assert "where worker 0 has waited 0.5 s for it" in done.stderr


def test_being_bound_to_one_core_is_pointed_out(needs):
    needs("mpi")
    cores = os.sched_getaffinity(0)
    if len(cores) < 2:
        pytest.skip("only one core here")
    done = run("train", "--steps", 2, preexec_fn=lambda: os.sched_setaffinity(0, {min(cores)}))
    assert done.returncode == 0
    assert done.stderr.count("--bind-to none") == 1
