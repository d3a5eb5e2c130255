"""The console script `flockstep` and `python -m flockstep`: what they offer, and one sentence for what they do not have."""

import os
import re
import sys

import flockstep
import pytest
from flockstep import _command
from launching import run_program
from paths import ROOT

FLOCKSTEP = [sys.executable, "-m", "flockstep"]


@pytest.mark.parametrize("arguments", [[], ["--help"], ["help"]])
def test_help_lists_what_there_is(arguments, capsys):
    assert _command.main(arguments) == 0
    out, errors = capsys.readouterr()
    assert errors == ""
    for name in ("doctor", "launch", "report", "bench"):
        assert re.search(rf"^  {name}  +\w", out, re.MULTILINE)


@pytest.mark.parametrize("name", ["doctor", "launch", "report", "bench"])
def test_a_subcommand_explains_itself(name, capsys):
    try:
        code = _command.main([name, "--help"])
    except SystemExit as end:  # argparse
        code = end.code
    out, errors = capsys.readouterr()
    assert (code, errors) == (0, "")
    assert out.startswith(f"usage: flockstep {name} ")


def test_arguments_reach_the_subcommand():
    done = run_program([*FLOCKSTEP, "launch", "--workers", 2, "--", "sh", "-c", "echo rank $FLOCKSTEP_RANK; exit 3"])
    assert done.returncode == 3
    assert "rank 0" in done.stdout
    assert run_program([*FLOCKSTEP, "report"]).stderr.startswith("flockstep: report takes one folder")


def test_the_subcommands_of_the_cpp_command_are_known():
    """All that the C++ command has, and that the package does not have itself."""
    sources = "".join(path.read_text() for path in (ROOT / "lab" / "command").glob("*.cpp"))
    there = {*re.findall(r'(?:add_subcommand\(\s*|\badd\(app, chosen, )"(\w+)"', sources)}
    assert {"train", "platforms"} <= there
    assert there - _command._SUBCOMMANDS.keys() == set(_command._OF_THE_CPP_COMMAND)


@pytest.mark.parametrize("is_there", [False, True])
def test_what_the_cpp_command_has_is_pointed_to(is_there, tmp_path, monkeypatch, capsys):
    programs = {"scripts": b"#!/bin/sh\nexit 1\n"}  # that of a package: not the C++ command
    for name, text in (programs | {"bin": b"\x7fELF"} if is_there else programs).items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "flockstep").write_bytes(text)
        (tmp_path / name / "flockstep").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/scripts{os.pathsep}{tmp_path}/bin")
    assert _command.main(["train", "--task", "linear"]) == 2
    how = f"it is {tmp_path}/bin/flockstep" if is_there else 'build it as README.md, "Building by hand", says'
    sentence = "train is a subcommand of the C++ command flockstep, which the Python package does not contain"
    assert capsys.readouterr().err == f"flockstep: {sentence}: {how}\n"


@pytest.mark.parametrize(("name", "rest"), [("dcotor", "; did you mean doctor?"), ("x", " (see `flockstep --help`)")])
def test_a_name_that_is_not_there(name, rest, capsys):
    assert _command.main([name]) == 2
    assert capsys.readouterr().err == f"flockstep: there is no subcommand {name}{rest}\n"


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["launch", "--workers", "1", "--", "true"], 1, "flockstep was built for torch .*, but there is no torch here"),
        (["report"], 2, "report takes one folder"),
        (["--version"], 0, ""),
    ],
)
def test_without_torch_there_is_one_sentence_and_no_traceback(arguments, code, sentence):
    """-S: without the folder that torch is installed in."""
    done = run_program([sys.executable, "-S", "-m", "flockstep", *arguments])
    assert re.search(sentence, done.stderr)
    assert "Traceback" not in done.stderr
    assert done.returncode == code
    assert (done.stdout == f"flockstep {flockstep.__version__}\n") == (arguments == ["--version"])
