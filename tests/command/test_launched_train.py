"""`flockstep train` on workers that `flockstep launch` has started: a fleet that does not change."""

import os
import re
import signal

import pytest
from conftest import COMMAND, run, run_json
from live_run import end_of, has_begun, live_run, wait_until
from test_early_end import worker_of_rank

LAUNCH = ["launch", "--workers", 3, "--restarts", 0, "--"]
TRAIN = [*LAUNCH, COMMAND, "train"]
ENDLESS = ["--steps", 1000000, "--evaluate-every", 20]


@pytest.mark.parametrize("engine", ["mesh", "auto"])
@pytest.mark.parametrize("algorithm", ["flock", "adacons"])
def test_there_are_as_many_workers_as_were_launched_and_one_speaks(engine, algorithm):
    told = run_json(*TRAIN, "--engine", engine, "--algorithm", algorithm, "--steps", 20)  # of one worker alone
    assert (told["engine"], told["workers"], told["steps"]) == ("mesh", 3, 20)


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (["train", "--workers", 4, "--steps", 2], "flockstep: --workers 4 but the launcher says 3: drop --workers\n"),
        (["compare", "--algorithms", "mean", "--steps", 2], "flockstep: a comparison makes many runs"),
    ],
)
def test_what_the_launcher_does_not_allow_is_a_wrong_call(call, names):
    done = run(*LAUNCH, COMMAND, *call)
    assert done.returncode == 2
    assert names in done.stderr


def test_a_killed_worker_ends_the_run(tmp_path):
    with live_run(*TRAIN, "--algorithm", "flock", *ENDLESS, "--out", tmp_path) as process:
        wait_until(has_begun(tmp_path), "its first metrics", process)
        os.kill(worker_of_rank(process.pid, 1), signal.SIGKILL)
        code, _, errors = end_of(process)
    assert code != 0
    assert re.search(r"^flockstep: worker [02] waits for worker 1, which has ended$", errors, re.M), errors


ENDS_EARLY = """
[ $FLOCKSTEP_RANK = 1 ] || exec "$@"
"$@" &
until grep -qs '"kind":"step"' "$0"; do sleep 0.05; kill -0 $! || exit 1; done
kill -9 $!
exit 0
"""


def test_a_worker_that_ends_early_with_status_0_is_named(tmp_path):
    train = [COMMAND, "train", *ENDLESS, "--out", tmp_path]
    done = run(*LAUNCH, "sh", "-c", ENDS_EARLY, tmp_path / "metrics.jsonl", *train)
    assert "flockstep: worker 1 ended early: it has status 0, and the run was not at its end " in done.stderr, done
