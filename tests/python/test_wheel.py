"""The wheel: built as a user builds it, installed into an empty environment, and refused by another torch."""

import os
import re
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest
from laboratory import libraries_of_the_laboratory, symbols_of_the_laboratory
from launching import run_program
from paths import BUILD, HANG_S, ROOT

pytestmark = pytest.mark.thorough

SMALL = 2_400_000  # bytes; 1.90 million were seen
TORCH_HOME = Path(find_spec("torch").origin).parent.parent


def pip(*arguments, **more):
    """Objects that the main build has are taken from ccache, if it was called by make and compiles alike."""
    compiler = re.search("^CMAKE_CXX_COMPILER:[A-Z]+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.MULTILINE)[1]
    shared = {"CXX": compiler, "CCACHE_BASEDIR": str(ROOT), "CCACHE_NOHASHDIR": "1"}
    shared["CCACHE_SLOPPINESS"] = "pch_defines,time_macros,include_file_mtime,include_file_ctime"
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    return run_program(command, cwd=ROOT, env={**os.environ, **shared, **more})


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """What pip said while it built the wheel, and the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    strict = "cmake.define.FLOCKSTEP_WARNINGS_ARE_ERRORS=ON"  # as the main build, so that ccache knows its objects
    done = pip("wheel", "-v", "--no-build-isolation", "--no-deps", "-C", strict, "-w", folder, ROOT)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    [wheel] = folder.glob("flockstep-*.whl")
    return done.stdout + done.stderr, wheel


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """The Python of an environment that holds the wheel and nothing else, not even pip."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=HANG_S)
    python = folder / "bin" / "python"
    done = pip("--python", python, "install", "--no-deps", "--no-index", built[1])
    assert done.returncode == 0, done.stderr
    return python


def run(python, *arguments, path=()):
    """With the folders of `path` to import from, as if what lies there were installed."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), "OMP_NUM_THREADS": "1"}
    return run_program([python, *arguments], cwd="/", env=env)


def test_the_wheel_has_the_package_and_nothing_else(built):
    names = zipfile.ZipFile(built[1]).namelist()
    inside = {name.split("/")[0] for name in names}
    assert {name for name in inside if not name.endswith(".dist-info")} == {"flockstep"}
    assert [name for name in names if name.endswith(".so")] == [
        name for name in names if re.fullmatch(r"flockstep/_native\.cpython-.*\.so", name)
    ]
    needed = [
        "py.typed",
        "_native.pyi",
        "_built_for.py",
        "_errors.py",
        "report/__main__.py",
        "report/templates/run.html",
    ]
    assert {f"flockstep/{name}" for name in needed} <= set(names)
    assert not [name for name in names if "__pycache__" in name or "bin/" in name]


def test_it_is_built_without_mpi_simgrid_and_nvcc(built):
    said = built[0]
    for option in ("FLOCKSTEP_MPI OFF", "FLOCKSTEP_SIM OFF", "FLOCKSTEP_TORCH ON", "FLOCKSTEP_PYTHON ON"):
        assert option in said
    for source in ("engines/mpi/engine.cpp", "engines/sim/engine.cpp", "command/main.cpp"):
        assert source not in said
    cache = (ROOT / "build" / "wheel" / "CMakeCache.txt").read_text()
    assert "CMAKE_CUDA_COMPILER" not in cache


def test_it_has_nothing_of_the_laboratory_and_is_small(built):
    [module] = (ROOT / "build" / "wheel").glob("python/flockstep/_native*.so")  # before its symbols were stripped
    assert symbols_of_the_laboratory(module) == []
    assert libraries_of_the_laboratory(module) == []
    assert built[1].stat().st_size < SMALL


def test_it_trains_in_an_empty_environment(installed, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import torch.distributed as dist, flockstep\n"
        "from flockstep._worker import attach\n"
        "dist.init_process_group('gloo')\n"
        "worker = attach()\n"
        "print(f'worker {worker.rank} of {worker.size} in {flockstep.__file__}', flush=True)\n"
        "worker.close()\n"
        "dist.destroy_process_group()\n"
    )
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", script]
    done = run(installed, *launcher, path=[TORCH_HOME])
    assert done.returncode == 0, done.stderr
    for rank in range(2):
        assert f"worker {rank} of 2 in {installed.parent.parent}" in done.stdout


def test_its_script_is_there_and_needs_no_torch_to_say_what_is_wrong(installed):
    script = installed.with_name("flockstep")
    assert re.fullmatch(r"flockstep \d+\.\d+\.\d+\n", run(script, "--version").stdout)
    done = run(script, "doctor")
    assert (done.returncode, done.stderr) == (1, "")
    assert re.search(
        r"^fail  torch  +flockstep was built for torch .+, but there is no torch here$", done.stdout, re.MULTILINE
    )


def fake_torch(folder, version):
    """A torch of that version that cannot be imported."""
    (folder / "torch").mkdir()
    (folder / "torch" / "__init__.py").write_text("raise SystemExit('torch was loaded')\n")
    (folder / "torch" / "version.py").write_text(f"__version__ = '{version}'\n")
    return folder


def test_another_patch_of_the_same_minor_will_do(installed, tmp_path):
    here = re.search("__version__ = '([0-9]+[.][0-9]+)", (TORCH_HOME / "torch" / "version.py").read_text())[1]
    done = run(installed, "-c", "import flockstep; print('well')", path=[fake_torch(tmp_path, f"{here}.99+cu130")])
    assert (done.returncode, done.stdout) == (0, "well\n"), done.stderr


@pytest.mark.parametrize(
    ("version", "rest"),
    [
        (
            "2.9.1+cpu",
            r"torch 2\.9\.1\+cpu is here: install torch \d+\.\d+, or build flockstep again, with "
            r"`pip install --no-build-isolation` in this environment",
        ),
        (None, r"there is no torch here: install torch \d+\.\d+"),
    ],
    ids=["another", "none"],
)
def test_another_torch_or_none_is_refused_before_anything_is_loaded(installed, tmp_path, version, rest):
    done = run(installed, "-c", "import flockstep", path=[fake_torch(tmp_path, version)] if version else [])
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert re.fullmatch(rf"ImportError: flockstep was built for torch \d+\.\d+, but {rest}", last)


def test_a_build_without_its_backend_ends_with_one_sentence(installed, tmp_path):
    done = pip("--python", installed, "wheel", "--no-build-isolation", "--no-deps", "-w", tmp_path, ROOT, PYTHONPATH="")
    assert done.returncode == 1
    assert "flockstep is built by scikit-build-core, which this Python does not have: run" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_a_build_that_sees_no_torch_ends_with_one_sentence(installed, tmp_path):
    """As under pip's build isolation: the Python that builds has scikit-build-core and nothing else."""
    for name in ("scikit_build_core", "packaging", "pathspec"):
        package = Path(find_spec(name).origin).parent
        for path in (package, *package.parent.glob(f"{name}-*.dist-info")):
            (tmp_path / path.name).symlink_to(path)
    wheel = ["wheel", "-v", "--no-build-isolation", "--no-deps", "-w", tmp_path, ROOT]
    folder = f"build-dir={tmp_path / 'build'}"  # that of the wheel above stays as it is
    done = pip("--python", installed, *wheel, "-C", folder, PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    said = " ".join((done.stdout + done.stderr).split())
    assert said.count("CMake Error") == 1
    assert (
        "The Python that builds flockstep has no torch: install torch, then run `pip install --no-build-isolation .`, "
        "since the build has to see it." in said
    )


def test_a_library_that_is_missing_is_named(tmp_path):
    without = [f"-DFLOCKSTEP_{name}=OFF" for name in ("MPI", "SIM", "TORCH", "COMMAND", "TESTS")]
    done = run_program(
        ["cmake", "-S", ROOT, "-B", tmp_path, "-G", "Ninja", "-DCMAKE_DISABLE_FIND_PACKAGE_Highway=ON", *without]
    )
    assert done.returncode == 1
    assert done.stderr.count("CMake Error") == 1
    assert "Highway was not found: install libhwy-dev, as Debian calls it" in " ".join(done.stderr.split())
