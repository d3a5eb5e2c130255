"""`flockstep train` on workers that `flockstep launch` has started: a fleet that does not change."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import COMMAND
from launched import state_of, wait_for
from paths import HANG_S


@pytest.fixture(autouse=True)
def _mesh(needs):
    needs("mesh")


def launch(*words, workers=3):
    return [str(word) for word in (COMMAND, "launch", "--workers", workers, "--restarts", 0, "--", COMMAND, *words)]


def run(*words):
    return subprocess.run(
        launch(*words), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=HANG_S, check=False
    )


@pytest.mark.parametrize("engine", ["mesh", "auto"])
@pytest.mark.parametrize("algorithm", ["flock", "adacons"])
def test_there_are_as_many_workers_as_were_launched_and_one_speaks(engine, algorithm):
    done = run("train", "--engine", engine, "--algorithm", algorithm, "--steps", 20, "--json")
    assert done.returncode == 0, done.stderr
    assert "ended early" not in done.stderr
    told = json.loads(done.stdout)  # of one worker alone
    assert (told["engine"], told["workers"], told["steps"]) == ("mesh", 3, 20)


def test_another_number_of_workers_is_a_wrong_call():
    done = run("train", "--workers", 4, "--steps", 2)
    assert done.returncode == 2
    assert "flockstep: --workers 4 but the launcher says 3: drop --workers\n" in done.stderr


def test_a_comparison_needs_workers_of_its_own():
    done = run("compare", "--algorithms", "mean", "--steps", 2)
    assert done.returncode == 2
    assert "flockstep: a comparison makes many runs" in done.stderr


def test_only_launched_workers_can_train_on_mesh():
    done = subprocess.run([COMMAND, "train", "--engine", "mesh"], capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 2
    assert done.stderr == "flockstep: FLOCKSTEP_RANK is not set: start workers with `flockstep launch`, which sets it\n"


def test_a_killed_worker_ends_the_run(tmp_path):
    command = launch("train", "--algorithm", "flock", "--steps", 1000000, "--out", tmp_path / "run")
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            metrics = tmp_path / "run" / "metrics.jsonl"
            wait_for(lambda: metrics.exists() and metrics.stat().st_size > 0, "no step is done")
            os.kill(worker_of(tmp_path, 1), signal.SIGKILL)
            _, errors = process.communicate(timeout=HANG_S)
        finally:
            process.terminate()
    assert process.returncode != 0
    assert re.search(r"^flockstep: worker [02] waits for worker 1, which has ended$", errors, re.M), errors


ENDS_EARLY = """
[ $FLOCKSTEP_RANK = 1 ] || exec "$@"
"$@" &
until grep -qs '"kind":"step"' "$0"; do sleep 0.05; kill -0 $! || exit 1; done
kill -9 $!
exit 0
"""


def test_a_worker_that_ends_early_with_status_0_is_named(tmp_path):
    train = [COMMAND, "train", "--steps", 1000000, "--evaluate-every", 20, "--out", tmp_path / "run"]
    metrics = tmp_path / "run" / "metrics.jsonl"
    command = [COMMAND, "launch", "--workers", 2, "--restarts", 0, "--", "sh", "-c", ENDS_EARLY, metrics, *train]
    done = subprocess.run(
        [*map(str, command)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=HANG_S, check=False
    )
    assert "flockstep: worker 1 ended early: it has status 0, and the run was not at its end " in done.stderr, done


def worker_of(tmp_path, rank):
    """The process whose command line is that of this test's workers, and whose environment has this rank."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            variables = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        is_worker = words[1:2] == [b"train"] and str(tmp_path / "run").encode() in words
        if is_worker and f"FLOCKSTEP_RANK={rank}".encode() in variables and state_of(entry) not in "ZX":
            return int(entry.name)
    raise AssertionError(f"worker {rank} is not there")
