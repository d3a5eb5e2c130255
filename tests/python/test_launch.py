"""`python -m flockstep.launch`, the same launcher for whoever has the package alone (tests/command/test_launch.py has the rest)."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from launching import environment, run_program
from paths import HANG_S

LAUNCH = [sys.executable, "-m", "flockstep.launch"]


def test_a_lost_worker_is_started_again_and_the_status_is_told(tmp_path):
    # Nobody is started again once a worker has finished: so worker 0 waits for the other one.
    worker = """echo "rank $FLOCKSTEP_RANK restart $FLOCKSTEP_RESTARTS"
        case $FLOCKSTEP_RANK$FLOCKSTEP_RESTARTS in
            10) kill -KILL $$ ;;
            11) touch "$0/back" ;;
            *) while [ ! -e "$0/back" ]; do sleep 0.05; done ;;
        esac"""
    done = run_program([*LAUNCH, "--workers", 2, "--prefix", "--", "sh", "-c", worker, tmp_path])
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["[0] rank 0 restart 0", "[1] rank 1 restart 0", "[1] rank 1 restart 1"]
    assert re.search(
        r"^flockstep: worker 1 was killed by SIGKILL after [\d.]+ s; starting it again \(1 of 10\)$", done.stderr, re.M
    )
    assert run_program([*LAUNCH, "--workers", 1, "--restarts", 0, "--", "sh", "-c", "exit 7"]).returncode == 7


@pytest.mark.thorough
def test_a_worker_is_told_its_place_on_its_host():
    worker = 'echo "$FLOCKSTEP_RANK: $FLOCKSTEP_LOCAL_RANK of $FLOCKSTEP_LOCAL_WORKERS"'
    done = run_program([*LAUNCH, "--workers", 3, "--", "sh", "-c", worker])
    assert sorted(done.stdout.splitlines()) == ["0: 0 of 3", "1: 1 of 3", "2: 2 of 3"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all(number):
    worker = "trap 'echo ended; exit' INT TERM; echo $$; while :; do sleep 0.1; done"
    with subprocess.Popen(
        [*LAUNCH, "--workers", "2", "--", "sh", "-c", worker],
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        workers = [int(process.stdout.readline()) for _ in range(2)]
        process.send_signal(number)
        out, errors = process.communicate(timeout=HANG_S)
    assert process.returncode == 128 + number
    assert out == "ended\n" * 2
    assert "killing what has not ended" not in errors
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--workers", 2], "launch needs the command of a worker after --, such as `-- python train.py`"),
        (["--workers", 2, "python"], "launch needs -- before the command of a worker: write `-- python ...`"),
        (["--wokers", 2, "--", "true"], "launch does not take --wokers (see `flockstep launch --help`)"),
        (["--workers", 1, "--hosts", "a,", "--", "true"], "--hosts takes names such as a,b or user@a, not ''"),
    ],
)
def test_a_wrong_call_gets_one_sentence(arguments, sentence):
    done = run_program([*LAUNCH, *arguments])
    assert done.returncode == 2
    assert done.stderr == f"flockstep: {sentence}\n"
