"""Averagers in a run that outlives its workers: one of them is killed, and comes back (docs/elastic.md)."""

import re
import sys
from pathlib import Path

import pytest
from launching import run_program

LAUNCH = [sys.executable, "-m", "flockstep.launch", "--workers", "3", "--", sys.executable]
PROGRAM = Path(__file__).with_name("elastic_program.py")


@pytest.mark.parametrize("kind", ["ADPSGD", "Swarm"])
def test_a_killed_worker_comes_back_and_all_end_with_one_model(kind, tmp_path):
    done = run_program([*LAUNCH, PROGRAM, kind, tmp_path])
    assert done.returncode == 0, done.stderr
    assert "worker 1 was killed by SIGKILL" in done.stderr
    begun = re.findall(r"worker (\d) life (\d) begins at step (\d+)", done.stdout)
    assert sorted((rank, life) for rank, life, _ in begun) == [("0", "1"), ("1", "1"), ("1", "2"), ("2", "1")], done.stdout
    (back,) = [int(step) for rank, life, step in begun if (rank, life) == ("1", "2")]
    assert back > 0  # where the others were, not at the beginning
    ended = re.findall(r"worker (\d) ends after (\d+) steps with (\w+)", done.stdout)
    assert sorted(rank for rank, _, _ in ended) == ["0", "1", "2"]
    assert len({(steps, digest) for _, steps, digest in ended}) == 1, done.stdout
