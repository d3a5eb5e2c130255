"""What a command says while it runs: bars on a terminal, lines where there is none, the log, and counts in plain words."""

import os
import re

import pytest
from conftest import refused, run
from live_run import shown_on_a_terminal
from sample_run import write_sample_run


def lines_while(*arguments):
    """What a command that goes on for some intervals of lines says when it is piped."""
    done = run(*arguments, env={**os.environ, "FLOCKSTEP_PROGRESS_S": "0.25", "FLOCKSTEP_PYTHON": "/bin/true"})
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()


SLEPT = ["--compute-ms", 50, "--steps", 50, "--workers", 2]  # ten intervals and more, however busy the machine is
TWO = ["compare", "--algorithms", "mean,local_sgd"]


def test_a_long_run_that_is_piped_tells_how_far_it_is():
    lines = lines_while("train", *SLEPT)
    assert any(re.match(r"flockstep: after \d+ s: mean, \d+/50 steps, \d+ s left", line) for line in lines), lines
    assert lines_while("train", "--no-gradients", "--compute-ms", 2500, "--steps", 1), "within a step, too"


def test_a_long_comparison_that_is_piped_tells_how_far_it_is():
    lines = lines_while(*TWO, *SLEPT)
    assert any(re.match(r"flockstep: after \d+ s: run 2 of 2, local_sgd, .*/50 steps", line) for line in lines), lines
    at_once = lines_while(*TWO, *SLEPT, "--jobs", 2)
    assert at_once
    assert all(re.match(r"flockstep: after \d+ s: 2 at a time, [012]/2 runs", line) for line in at_once), at_once


def test_a_long_simulated_comparison_that_is_piped_tells_how_far_it_is():
    lines = lines_while(*TWO, "--engine", "sim", "--steps", 3000)
    assert all(re.match(r"flockstep: after \d+ s: run [12] of 2$", line) for line in lines), lines


FULL = 30 * "#"
BARS = [
    ("train --steps 50", [f"[{FULL}] 50/50 steps"]),
    (
        "train --engine sim --workers 16 --steps 5 --algorithm sgp",
        [f"sgp, setting up [{FULL}] 16/16 workers", f"sgp [{FULL}] 5/5 steps"],
    ),
    ("compare --engine sim --workers 16 --steps 5 --algorithms mean,sgp", [f"mean [{FULL}] 5/5 steps"]),
    ("compare --workers 2 --steps 10 --algorithms mean --seeds 3 --jobs 2", [f"] {made}/3 runs" for made in range(4)]),
]


@pytest.mark.parametrize(("call", "bars"), BARS, ids=[row[0] for row in BARS])
def test_a_terminal_gets_bars_and_a_pipe_nothing(needs, without_pictures, call, bars):
    needs("sim" if "sim" in call else "threads")
    seen = shown_on_a_terminal(*call.split())
    for bar in bars:
        assert bar in seen
    assert "--jobs" not in call or "steps" not in seen, "the runs themselves are silent"
    assert run(*call.split()).stderr == ""


@pytest.mark.thorough
def test_a_terminal_sees_what_is_drawn(tmp_path):
    write_sample_run(tmp_path / "run")
    seen = shown_on_a_terminal("report", tmp_path / "run")
    assert "drawing quality" in seen
    assert seen.endswith("\r\x1b[K")


def test_the_interval_of_progress_lines_is_a_number():
    refused("train", "--steps", 1, env={**os.environ, "FLOCKSTEP_PROGRESS_S": "soon"}, names="FLOCKSTEP_PROGRESS_S")


def test_one_worker_is_one_worker():
    assert "1 worker on self" in run("train", "--engine", "self", "--steps", 1).stdout
    assert ", 1 worker on threads" in run("compare", "--workers", 1, "--steps", 1, "--algorithms", "mean").stdout


def test_the_log_tells_what_is_run_and_what_came_of_it(tmp_path):
    out = tmp_path / "run"
    plain = ["train", "--workers", 2, "--steps", 4, "--evaluate-every", 2, "--algorithm", "local_sgd"]
    told = run(*plain, "--local_sgd.period", 3, "--checkpoint-every", 4, "--out", out, "--log", "info").stderr
    assert re.search(r"2 workers on threads: task linear, algorithm local_sgd, .*period 3.*, steps 4", told)
    assert re.search(r"step 2: loss [0-9.e+]+, train loss", told)
    assert "checkpoint after step 4" in told
    assert f"summary are in {out}" in told
    assert "waiting" not in told
    assert re.search(r"threads/1\] \[debug\] step 3: loss", run(*plain, "--log", "debug").stderr)
