"""Every code block of README.md and docs/ does what it is there for: shell blocks run, Python blocks run on two ranks, C++ is compiled."""

import json
import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from blocks import CODE, NO_CODE, PYTHON, all_blocks, blocks_of, pages_with
from how_to_run import HOW
from launching import environment, run_program, run_torchrun
from paths import BUILD, ROOT, package_is_built

HERE = Path(__file__).parent


@pytest.fixture
def complete(needs, torch):
    """Pages are about a build with everything."""
    needs("mpi", "sim", "mesh")
    if not package_is_built():
        pytest.skip("the PyTorch package is not built")


def test_entries_and_blocks_belong_together():
    for block in all_blocks():
        assert block.language in (*CODE, *NO_CODE), f"{block}: blocks.py does not know {block.language!r}"
        matching = [how.has for how in HOW if how.page == block.page and how.has in block.text]
        assert len(matching) <= 1, f"{block} has several entries in how_to_run.py: {matching}"
    for how in HOW:
        matching = [block for block in all_blocks() if how.page == block.page and how.has in block.text]
        assert len(matching) == 1, f"how_to_run.py: {how.has!r} is in {len(matching)} blocks of {how.page}"
        assert matching[0].language in CODE, f"how_to_run.py: {matching[0]} is no code"
        assert (ROOT / how.elsewhere).exists(), f"how_to_run.py: there is no {how.elsewhere}"


@pytest.fixture
def folder(tmp_path):
    """Looks like the root of the repository after `make build`, but what is written there goes nowhere."""
    root = tmp_path / "repository"
    (root / "build").mkdir(parents=True)
    for entry in ROOT.iterdir():
        if entry.name not in ("build", "runs", ".git", "examples"):
            (root / entry.name).symlink_to(entry)
    shutil.copytree(ROOT / "examples", root / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "build" / "release").symlink_to(BUILD)
    (root / "build" / "venv").symlink_to(Path(sys.prefix))
    (tmp_path / "own").mkdir()  # a folder of the reader's, with the files that a page shows
    return tmp_path


def shell_environment(folder):
    """That of someone who has built everything and has the command and the package at hand."""
    first = [str(HERE / "stand_ins"), str(BUILD / "bin"), str(Path(sys.prefix) / "bin")]
    return environment(
        PATH=os.pathsep.join([*first, os.environ["PATH"]]),
        FLOCKSTEP=str(folder / "repository"),
        flockstep="build/release/bin/flockstep",
        FLOCKSTEP_PYTHON="/bin/true",  # reports take longer to draw than runs: an entry asks for one
        PYTHONDONTWRITEBYTECODE="1",
        CMAKE_CXX_COMPILER_LAUNCHER="ccache",
        CCACHE_BASEDIR=str(folder),  # in whose place another run of the tests has another folder
        CCACHE_NOHASHDIR="1",
        # mpirun may run as root here, with more workers than cores.
        OMPI_ALLOW_RUN_AS_ROOT="1",
        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
        OMPI_MCA_rmaps_base_oversubscribe="1",
        OMPI_MCA_hwloc_base_binding_policy="none",
    )


@pytest.mark.thorough
@pytest.mark.parametrize("page", pages_with("sh"))
def test_the_shell_blocks_of_a_page_run(complete, page, folder):
    """In order, each in a shell of its own, which starts in the root of the repository."""
    for block in blocks_of(page, *CODE):
        if block.how.file:
            (folder / "own" / block.how.file).write_text(block.code)
        elif block.language == "sh" and block.is_run_here:
            place = folder / ("own" if block.how.own else "repository") / block.how.folder
            given = {**shell_environment(folder), **block.how.environment}
            done = run_program(["bash", "-euo", "pipefail", "-c", block.code], cwd=place, env=given)
            assert done.returncode == 0, f"{block} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
            assert re.search(block.how.prints, done.stdout + done.stderr), f"{block}:\n{done.stdout}\n{done.stderr}"


@pytest.mark.thorough
@pytest.mark.parametrize("page", pages_with(*PYTHON))
def test_the_python_blocks_of_a_page_run(complete, page, tmp_path):
    """On two ranks, each block with a model, an optimizer and a loader of its own at hand."""
    for launched in (False, True):
        todo = [block for block in blocks_of(page, *PYTHON) if block.is_run_here and block.how.launched == launched]
        if not todo:
            continue
        listed = tmp_path / "blocks.json"
        listed.write_text(
            json.dumps([[str(block), block.line, block.code, block.how.before, block.how.continues] for block in todo])
        )
        program = HERE / "run_python_blocks.py"
        if launched:
            command = [BUILD / "bin" / "flockstep", "launch", "--workers", 2, "--", sys.executable, program]
            done = run_program([*command, listed, tmp_path], cwd=tmp_path)
        else:
            done = run_torchrun(program, 2, listed, tmp_path)
        assert done.returncode == 0, done.stderr
        assert f"{len(todo)} blocks have run\n" in done.stdout


@pytest.mark.thorough
def test_the_cpp_blocks_compile(complete, tmp_path):
    """All in one file, each a function: the headers of torch take longer than everything else."""
    includes, functions = set(), []
    for block in all_blocks():
        if block.language == "cpp" and block.is_run_here:
            includes |= set(re.findall(r"^#include .*$", block.code, re.MULTILINE))
            functions.append(as_function(block))
    assert functions
    source = tmp_path / "blocks.cpp"
    source.write_text("\n".join([*sorted(includes | COMMON_INCLUDES), *functions]))
    done = run_program([*compiler(), "-fsyntax-only", "-Wno-unused", "-Wno-return-type", source])
    assert done.returncode == 0, done.stderr


COMMON_INCLUDES = {
    "#include <flockstep/flockstep.h>",
    "#include <flockstep/mpi.h>",
    "#include <flockstep/torch.h>",
    "#include <torch/torch.h>",
}


def as_function(block):
    """What is left out for the reader is left out for the compiler, which says lines as the page has them. Code that has a
    namespace stays outside of functions, and so does a whole program, whose main() gets another name."""
    code = re.sub(r"^#(include .*|pragma once)$", "", block.code, flags=re.MULTILINE)
    code = code.replace("for (...)", "for (int step = 0; step < 2; ++step)").replace("= ...;", "= {};")
    code = re.sub(r"^( *)\.\.\.( |$)", r"\1   \2", code, flags=re.MULTILINE)
    code = f'{block.how.before}\n#line {block.line} "{block.page}"\n{code}\n'
    name = re.sub(r"\W", "_", str(block))
    code, programs = re.subn(r"^int main\((.*)\) {$", rf"int {name}(\1) {{", code, flags=re.MULTILINE)
    if programs or re.search(r"^namespace ", code, re.MULTILINE):
        return code
    return f"void {name}() {{\n{code}}}\n"


def compiler():
    """As the library's half with torch is compiled: that one has a precompiled header."""
    commands = json.loads((BUILD / "compile_commands.json").read_text())
    words = next(
        shlex.split(unit["command"])
        for unit in commands
        if "/flockstep_torch.dir/" in unit["command"] and not unit["file"].endswith("cmake_pch.hxx.cxx")
    )
    if words[0].endswith("ccache"):
        del words[0]
    return words[: words.index("-o")]
