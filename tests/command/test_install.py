"""`cmake --install`, and projects outside the tree that find the package and use the library: the examples."""

import json
import os
import subprocess
import sys

import pytest
from conftest import BUILD, MPIRUN, ROOT


def check(*command, **keywords):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300, **keywords)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prefix")
    check("cmake", "--install", BUILD, "--prefix", folder)
    return folder


@pytest.fixture
def build(prefix, tmp_path):
    """Builds an example against the installed package and returns its executable."""

    def build_example(name):
        folder = tmp_path / name
        check("cmake", "-S", ROOT / "examples" / name, "-B", folder, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}")
        check("cmake", "--build", folder)
        return folder / ("consumer" if name == "cmake_consumer" else name)

    return build_example


def test_the_installed_command_runs_and_draws_with_a_python_that_the_user_names(prefix, tmp_path):
    command, out = prefix / "bin" / "flockstep", tmp_path / "run"
    assert check(command, "--version").startswith("flockstep ")
    check(command, "train", "--steps", "5", "--out", out)
    named = {**os.environ, "FLOCKSTEP_PYTHON": sys.executable}
    assert check(command, "report", out, env=named) == f"{out / 'report.html'}\n"


def test_the_installed_command_finds_the_tasks_that_need_torch(prefix):
    command = prefix / "bin" / "flockstep"
    tasks = json.loads(check(command, "tasks", "--json"))
    if not next(task for task in tasks if task["name"] == "vision")["available"]:
        pytest.skip("torch is not built")
    shared = list(prefix.glob("lib*/**/flockstep_torch_tasks.so"))
    assert len(shared) == 1
    assert "accuracy" in check(command, "train", "--task", "vision", "--steps", "2")
    shared[0].unlink()
    done = subprocess.run([command, "train", "--task", "vision"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr == f"flockstep: the tasks that need torch are not in {shared[0]}: install again\n"


def test_the_consumer_agrees(build):
    assert "4 workers agree" in check(build("cmake_consumer"))


def test_the_bad_workers_are_found(build):
    sentences = check(build("find_the_bad_worker")).splitlines()
    assert len(sentences) == 3
    assert any(s.startswith("worker 2 points against the others") for s in sentences)
    assert any(s.startswith("worker 6's gradient is") and "times the median" in s for s in sentences)
    assert any(s.startswith("workers 3 and 5 sent the same gradient") for s in sentences)


def test_an_mpi_program_of_its_own_gets_adacons_in_three_lines(needs, build):
    needs("mpi")
    program = build("mpi_span")
    assert "4 processes agree: y = 3.00 + -2.00 x" in check(*MPIRUN, "-n", 4, program)
    assert "1 processes agree" in check(program)
