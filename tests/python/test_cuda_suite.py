"""The suite for GPUs where there is none: it says so, its programs are right on the CPU, and failures are counted."""

import importlib.util
import sys

import pytest
import torch
from launching import run_program, run_torchrun
from paths import ROOT

FOLDER = ROOT / "tests" / "cuda"
SAYS_FAIL = "print('ok   one'); print('FAIL two'); raise SystemExit(1)"


@pytest.fixture(scope="module")
def suite():
    spec = importlib.util.spec_from_file_location("cuda_suite", FOLDER / "run.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_suite_skips_itself_with_a_reason():
    done = run_program([sys.executable, FOLDER / "run.py"])
    assert (done.returncode, done.stdout) == (0, "skipped: no CUDA device\n")


@pytest.mark.parametrize(
    ("program", "limit_s", "passed", "told"),
    [
        ("print('ok   one'); print('ok   two')", 60, True, "2 of 2 checks"),
        (SAYS_FAIL, 60, False, "1 of 2 checks"),
        ("print('[==========] 3 tests from 1 test suite ran. (1 ms total)')", 60, True, "3 tests, 0 skipped"),
        ("import time; print('ok   one', flush=True); time.sleep(600)", 3, False, "not done after 3 s, 1 of 1 checks"),
    ],
)
def test_a_program_is_judged_by_its_end(suite, capsys, program, limit_s, passed, told):
    outcome = suite.run(suite.Test("program", 2, [sys.executable, "-c", program]), limit_s)
    assert (outcome.passed, outcome.told) == (passed, told)
    assert ("FAIL two" in capsys.readouterr().out) == (program == SAYS_FAIL)


@pytest.mark.thorough
@pytest.mark.parametrize("program", ["averagers.py", "exact_ddp.py", "sharded.py", "sketched_ddp.py"])
def test_the_programs_hold_on_the_cpu(program):
    """So that a check which fails on a GPU tells of the GPU."""
    done = run_torchrun(FOLDER / program, 2, "--device", "cpu")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "all checks hold"
    assert "FAIL" not in done.stdout
