"""The sources as a part of another project, which decides how it is built; and a torch for CUDA without a CUDA toolkit."""

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from paths import BUILD, HANG_S, ROOT

pytestmark = pytest.mark.thorough

CCACHE = shutil.which("ccache")
FOLDER = BUILD / "examples" / "as_a_part"  # kept, so that the next time compiles nothing
# What this machine's user wants of every project says nothing about ours.
PLAIN = {name: value for name, value in os.environ.items() if not name.startswith("CMAKE_")}


def check(*command, stderr=subprocess.PIPE):
    pipes = {"stdout": subprocess.PIPE, "stderr": stderr}
    done = subprocess.run([*map(str, command)], **pipes, text=True, env=PLAIN, timeout=HANG_S)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return done.stdout


def configure(name, lines, *options):
    """Configures a project of these lines and one program, and returns its build folder."""
    source, build = FOLDER / name, FOLDER / name / "build"
    source.mkdir(parents=True, exist_ok=True)
    head = f"cmake_minimum_required(VERSION 3.25)\nproject({name} LANGUAGES CXX)\n"
    (source / "CMakeLists.txt").write_text(head + lines)
    (build / "CMakeCache.txt").unlink(missing_ok=True)
    check("cmake", "-S", source, "-B", build, "-G", "Ninja", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", *options)
    return build


PROGRAM = f"""
add_executable(consumer {ROOT}/examples/cmake_consumer/main.cpp)
target_link_libraries(consumer PRIVATE flockstep::flockstep)
"""
WITHOUT = ["FLOCKSTEP_MPI", "FLOCKSTEP_SIM", "FLOCKSTEP_TORCH"]


@pytest.fixture(scope="module")
def added():
    """With add_subdirectory, and options as variables of the project's own."""
    options = "".join(f"set({name} OFF)\n" for name in WITHOUT)
    launcher = [f"-DCMAKE_CXX_COMPILER_LAUNCHER={CCACHE}"] if CCACHE else []
    return configure("added", f"{options}add_subdirectory({ROOT} flockstep){PROGRAM}", *launcher)


[LINES] = re.findall(
    r"^```cmake\n(include\(FetchContent.*?)^```$", (ROOT / "docs/cpp.md").read_text(), re.MULTILINE | re.DOTALL
)
# With FetchContent_MakeAvailable.
FETCHING = f"add_executable(program {ROOT}/examples/cmake_consumer/main.cpp)\n{LINES}"
FETCHED = [f"-DFETCHCONTENT_SOURCE_DIR_FLOCKSTEP={ROOT}", *(f"-D{name}=OFF" for name in WITHOUT)]


@pytest.fixture(scope="module")
def fetched():
    """With FetchContent as docs/cpp.md has it, and options in the cache."""
    return configure("fetched", FETCHING, *FETCHED)


@pytest.fixture(params=["added", "fetched"])
def project(request):
    return request.getfixturevalue(request.param)


def commands(build):
    return {entry["file"]: entry["command"] for entry in json.loads((build / "compile_commands.json").read_text())}


def test_a_program_of_the_project_runs(added, tmp_path):
    check("cmake", "--build", added)
    assert "4 workers agree" in check(added / "consumer"), "it lies where the project puts it"
    check("cmake", "--install", added, "--prefix", tmp_path)
    assert list(tmp_path.iterdir()) == [], "only the project's own things are installed"


def test_the_project_decides_how_it_is_compiled(project):
    for command in commands(project).values():
        assert "-Werror" not in command
    ours = {file: command for file, command in commands(project).items() if "flockstep_" in command}
    assert ours
    assert all(" -w " in command for command in ours.values()), "warnings are for those who work on Flockstep"
    own = commands(project)[str(ROOT / "examples/cmake_consumer/main.cpp")]
    assert not re.search(r" -(W|f(?!PI))", own), own
    assert "-fuse-ld" not in (project / "build.ninja").read_text()


def test_ccache_is_for_the_project_to_choose(fetched):
    assert not [command for command in commands(fetched).values() if "ccache" in command]


def test_the_project_gets_the_core_alone(project):
    listed = check("cmake", "--build", project, "--target", "help")
    targets = set(re.findall(r"^(flockstep\w*): phony$", listed, re.MULTILINE))
    layers = ["base", "math", "kernels", "protocol", "engines", "runtime", "algorithms", "telemetry", "session", "api"]
    layers += ["supervisor"]
    assert targets == {"flockstep", *(f"flockstep_{layer}" for layer in layers)}
    assert "libmpi" not in (project / "build.ninja").read_text()
    assert not list(project.rglob("CTestTestfile.cmake"))
    cache = (project / "CMakeCache.txt").read_text()
    for package in ("ZLIB", "PNG", "JPEG", "CLI11", "GTest"):
        assert f"\n{package}" not in cache


def test_the_project_may_install_it(fetched):
    def installs(build):
        return [path for path in build.rglob("cmake_install.cmake") if "file(INSTALL" in path.read_text()]

    assert installs(fetched) == []
    [rules] = installs(configure("installing", FETCHING, *FETCHED, "-DFLOCKSTEP_INSTALL=ON"))
    assert "libflockstep.a" in rules.read_text()


@pytest.fixture
def cuda_torch(tmp_path):
    """The torch of this Python, which says that it is one for CUDA; its CMake package insists on a CUDA toolkit, as theirs do."""
    found = find_spec("torch")
    if not found:
        pytest.skip("this Python has no torch")
    real, folder = Path(found.origin).parent, tmp_path / "torch"
    (folder / "share/cmake/Torch").mkdir(parents=True)
    for name in ("include", "lib"):
        (folder / name).symlink_to(real / name)
    (folder / "version.py").write_text("__version__ = '2.13.0+cu130'\ncuda: Optional[str] = '13.0'\n")
    config = folder / "share/cmake/Torch/TorchConfig.cmake"
    config.write_text('message(FATAL_ERROR "Caffe2 uses CUDA but I cannot find the CUDA libraries")\n')
    return folder


def configure_with(torch, build):
    """Configures these sources with that torch, and returns all that CMake says."""
    options = ["-DFLOCKSTEP_LAB=OFF", "-DFLOCKSTEP_PYTHON=OFF", f"-DCMAKE_PREFIX_PATH={torch}/share/cmake"]
    return check("cmake", "-S", ROOT, "-B", build, "-G", "Ninja", *options, stderr=subprocess.STDOUT)


def test_torch_for_cuda_needs_no_cuda_toolkit(cuda_torch, tmp_path):
    build = tmp_path / "build"
    said = configure_with(cuda_torch, build)
    assert re.search(r"FLOCKSTEP_TORCH ON .*\(torch 2\.13\.0\)", said)
    [compiled] = [command for file, command in commands(build).items() if file.endswith("unity_torch_0_cxx.cxx")]
    assert f"{cuda_torch}/include" in compiled
    assert "CUDA" not in (build / "CMakeCache.txt").read_text()


def test_a_torch_that_is_too_new_to_have_been_tried_is_a_warning(cuda_torch, tmp_path):
    (cuda_torch / "version.py").write_text("__version__ = '2.16.1+cu130'\ncuda: Optional[str] = '13.0'\n")
    said = configure_with(cuda_torch, tmp_path / "build")
    assert "tried with torch 2.11 to 2.15, and this is torch 2.16.1" in " ".join(said.split())


def test_the_pytorch_package_is_built_where_the_project_asks_for_it(cuda_torch):
    options = [f"-DCMAKE_PREFIX_PATH={cuda_torch}/share/cmake", f"-DPython3_EXECUTABLE={sys.executable}"]
    build = configure("with_torch", f"add_subdirectory({ROOT} flockstep){PROGRAM}", *options)
    targets = check("cmake", "--build", build, "--target", "help")
    assert "flockstep_torch: phony" in targets
    assert "flockstep_native: phony" not in targets


def test_a_program_links_torch_for_cuda(cuda_torch):
    lines = f"""
set(CMAKE_CXX_STANDARD 20)
include({ROOT}/cmake/FlockstepTorch.cmake)
add_executable(program main.cpp)
target_link_libraries(program PRIVATE torch c10)
"""
    launcher = [f"-DCMAKE_CXX_COMPILER_LAUNCHER={CCACHE}"] if CCACHE else []
    (FOLDER / "cuda").mkdir(parents=True, exist_ok=True)
    (FOLDER / "cuda" / "main.cpp").write_text(
        "#include <ATen/core/Tensor.h>\n#include <ATen/ops/ones.h>\n#include <cstdio>\n"
        'int main() { std::printf("%ld\\n", static_cast<long>(at::ones({2, 3}).numel())); }\n'
    )
    build = configure("cuda", lines, f"-DFLOCKSTEP_TORCH_FOLDER={cuda_torch}", *launcher)
    check("cmake", "--build", build)
    assert check(build / "program") == "6\n"
