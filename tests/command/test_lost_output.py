"""Standard streams that are full or closed: a lost result is a failure, and nothing else gets hold of their numbers."""

import os
import subprocess

import pytest
from conftest import COMMAND
from live_run import lines_of
from paths import HANG_S

SHORT = ["--steps", "2", "--workers", "2", "--linear.dimension", "10"]

PRINTING = [
    ["algorithms"],
    ["tasks", "--json"],
    ["--version"],
    ["train", "--help"],
    ["train", *SHORT],
    ["train", *SHORT, "--json"],
    ["compare", "--algorithms", "mean,sgp", *SHORT],
    ["compare", "--algorithms", "mean,sgp", *SHORT, "--json"],
    ["study"],
]


def run_in_shell(arguments, redirections):
    words = " ".join(map(str, arguments))
    script = f"{COMMAND} {words} {redirections}"
    return subprocess.run(["bash", "-c", script], stderr=subprocess.PIPE, text=True, timeout=HANG_S)


@pytest.mark.parametrize("arguments", PRINTING, ids=" ".join)
@pytest.mark.parametrize("redirection", [">/dev/full", ">&-"])
def test_a_result_that_cannot_be_written_is_a_failure(arguments, redirection):
    done = run_in_shell(arguments, redirection)
    assert done.returncode == 1
    assert done.stderr.startswith("flockstep: cannot write the result")
    assert done.stderr.count("\n") == 1


def test_a_comparison_with_its_folder_tells_it_too(tmp_path, without_pictures):
    done = run_in_shell(["compare", "--algorithms", "mean,sgp", *SHORT, "--out", tmp_path / "out"], ">/dev/full")
    assert done.returncode == 1
    assert "cannot write the result" in done.stderr
    assert (tmp_path / "out" / "compare.json").exists()


@pytest.mark.parametrize("redirections", [">&- 2>&-", ">/dev/full 2>/dev/full", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    "arguments", [["train", *SHORT], ["train", "--steps", "none"], ["compare", *SHORT]], ids=" ".join
)
def test_without_anybody_to_tell_the_exit_code_does(arguments, redirections):
    done = run_in_shell(arguments, redirections)
    assert done.returncode == (2 if "none" in arguments else 1)


def test_files_do_not_take_the_place_of_closed_streams(tmp_path):
    out = tmp_path / "run"
    done = run_in_shell(["train", *SHORT, "--out", out], "<&- >&- 2>&-")
    assert done.returncode == 1
    assert lines_of(out)
    for file in os.listdir(out):
        assert "mean on linear" not in (out / file).read_text(errors="replace")
