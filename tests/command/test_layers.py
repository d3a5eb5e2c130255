"""scripts/check_layers.py: what `make lint` refuses in sources, and ctest in what was built of them."""

import importlib.util
import subprocess
from pathlib import Path

import pytest
from paths import BUILD, ROOT


@pytest.fixture
def check():
    spec = importlib.util.spec_from_file_location("check_layers", ROOT / "scripts" / "check_layers.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def written(monkeypatch, tmp_path):
    """written(NAME, TEXT) writes a file below a folder of its own and returns its path."""
    monkeypatch.chdir(tmp_path)

    def write(name, text):
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize(
    ("name", "text", "is_refused"),
    [
        ("src/torch/a.cpp", "#include <sstream>\n", True),
        ("src/base/a.h", "std::ifstream file(path);", True),
        ("python/native/a.cpp", 'c10::str("worker ", rank)', True),
        ("tests/torch/a.cpp", "#include <sstream>\n", True),
        ("lab/command/a.cpp", "#include <sstream>\n", False),
        ("src/torch/a.cpp", 'base::concatenated("worker ", rank);  // no stream\n', False),
    ],
)
def test_streams_are_refused_where_torch_is_near(check, written, name, text, is_refused):
    problems = check.streams_of(written(name, text))
    assert [problem.startswith(f"{name}: has ") for problem in problems] == [True] * is_refused


def test_a_source_that_includes_the_next_layer_is_refused(check, written):
    """One real file of each layer, with one more include."""
    listed = (ROOT / "cmake" / "layers.txt").read_text()
    folders = [line.split()[0] for line in listed.splitlines() if not line.startswith("#")]
    assert [folder.split("/")[1] for folder in folders] == check.LAYERS
    for folder, later in zip(folders, check.LAYERS[1:], strict=False):
        real = min(ROOT.glob(f"{folder}/*.cpp"))
        text = real.read_text()
        path = written(real.relative_to(ROOT), text)
        assert check.problems_of(path) == []
        path.write_text(f'#include "{later}/any.h"\n{text}')
        assert check.problems_of(path) == [
            f"{path}: includes {later}/any.h, which belongs to {later}, after {path.parts[1]} in cmake/layers.txt"
        ]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("src/base/a.h", '#include "flockstep/flockstep.h"'),
        ("include/flockstep/error.h", '#include "math/mean.h"'),
        ("include/flockstep/new.h", "#include <vector>"),
        ("src/base/a.cpp", ' #  include  "math/mean.h"  // why'),
        ("src/base/a.cpp", "#include <math/mean.h>"),
        ("src/base/a.cpp", '#include "../math/mean.h"'),
        ("src/base/a.cpp", "#include <../src/math/mean.h>"),
        ("src/base/a.cpp", '#include "mean.h"'),
        ("src/base/a.cpp", '#include_next "math/mean.h"'),
        ("src/base/a.cpp", "#include HEADER"),
        ("src/base/a.cpp", "#include <mpi.h>"),
        ("src/runtime/a.cpp", '#include "flockstep/mpi.h"'),
        ("src/math/a.cpp", "#include <torch/types.h>"),
    ],
)
def test_no_spelling_of_a_forbidden_include_is_missed(check, written, name, line):
    written("src/math/mean.h", "")
    path = written(name, f"{line}\n")
    (problem,) = check.problems_of(path)
    assert problem.startswith(f"{name}: ")


def test_includes_of_layers_before_and_of_the_system_are_fine(check, written):
    lines = ["<compare>", "<sys/types.h>", "<hwy/highway.h>", '"flockstep/error.h"', '"base/a.h"', '"math/a.h"']
    assert check.problems_of(written("src/kernels/a.cpp", "".join(f"#include {line}\n" for line in lines))) == []


def test_a_function_of_a_later_layer_is_found_where_no_include_names_it(check, written):
    mean = "namespace flockstep::math { double mean(double x); }\n"
    sources = {
        "base": f"{mean} double half() {{ return flockstep::math::mean(1); }}",
        "math": f"{mean} double flockstep::math::mean(double x) {{ return x; }}",
        "kernels": f"#include <cmath>\n{mean} double twice(double x) {{ return std::cos(flockstep::math::mean(x)); }}",
    }
    for layer, text in sources.items():
        subprocess.run(["c++", "-c", written(f"{layer}.cpp", text), "-o", f"{layer}.o"], check=True)
        written(f"objects/{layer}.txt", f"{layer}.o\n")
    assert check.symbol_problems(Path("objects")) == [
        "base: uses flockstep::math::mean(double), which math defines, after base in cmake/layers.txt"
    ]


def test_the_build_lists_the_objects_of_every_layer_that_it_has(check):
    """ctest checks the layers that are listed: no layer may be missing there."""
    listed = {path.stem for path in (BUILD / "layers").glob("*.txt")}
    core = check.LAYERS[: check.LAYERS.index("torch")]
    assert listed >= set(core if "train" not in listed else [*core, *check.LAYERS[check.LAYERS.index("train") :]])
