"""scripts/check_layers.py: what `make lint` refuses."""

import importlib.util
from pathlib import Path

import pytest
from paths import ROOT


@pytest.fixture
def check(monkeypatch, tmp_path):
    """What the check has to say of a file with this text."""
    spec = importlib.util.spec_from_file_location("check_layers", ROOT / "scripts" / "check_layers.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.chdir(tmp_path)

    def problems(name, text):
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return module.streams_of(path)

    return problems


@pytest.mark.parametrize("name", ["src/torch/a.cpp", "src/base/a.h", "python/native/a.cpp", "tests/torch/a.cpp"])
@pytest.mark.parametrize("text", ["#include <sstream>\n", "std::ifstream file(path);", 'c10::str("worker ", rank)'])
def test_streams_are_refused_where_torch_is_near(check, name, text):
    (problem,) = check(name, text)
    assert problem.startswith(f"{name}: has ")


def test_the_command_alone_may_have_streams(check):
    assert check("lab/command/a.cpp", "#include <sstream>\n") == []
    assert check("src/torch/a.cpp", 'base::concatenated("worker ", rank);  // no stream\n') == []
