"""The suite for GPUs where there is none: it says so, and its programs are right on the CPU."""

import sys

import pytest
import torch
from launching import run_program, run_torchrun
from paths import ROOT

FOLDER = ROOT / "tests" / "cuda"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_suite_skips_itself_with_a_reason():
    done = run_program([sys.executable, FOLDER / "run.py"])
    assert (done.returncode, done.stdout) == (0, "skipped: no CUDA device\n")


@pytest.mark.thorough
@pytest.mark.parametrize("program", ["averagers.py", "exact_ddp.py", "sharded.py", "sketched_ddp.py"])
def test_the_programs_hold_on_the_cpu(program):
    """So that a check which fails on a GPU tells of the GPU."""
    done = run_torchrun(FOLDER / program, 2, "--device", "cpu")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "all checks hold"
    assert "FAIL" not in done.stdout
