"""`python -m flockstep.launch`: what is Python's own. test_elastic.py has lost workers, tests/command/test_launch.py all else."""

import re
import signal
import sys
from pathlib import Path

import pytest
from launching import run_program

LAUNCH = [sys.executable, "-m", "flockstep.launch"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all(number, tmp_path):
    """Worker 0 sends it to the launcher, once both workers are there."""
    worker = f"""trap 'echo ended $$; exit' INT TERM
        touch "$0/$FLOCKSTEP_RANK"
        while [ ! -e "$0/0" ] || [ ! -e "$0/1" ]; do sleep 0.1; done
        [ $FLOCKSTEP_RANK = 1 ] || kill -{number} $PPID
        while :; do sleep 0.1; done"""
    done = run_program([*LAUNCH, "--workers", 2, "--", "sh", "-c", worker, tmp_path])
    assert done.returncode == 128 + number
    workers = re.findall(r"^ended (\d+)$", done.stdout, re.M)
    assert len(workers) == 2
    assert "killing what has not ended" not in done.stderr
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
