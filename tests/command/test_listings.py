"""`flockstep algorithms`, `tasks`, `engines`, `--version`, `--help`."""

import flockstep
import pytest
from conftest import run, run_json


def test_every_listing_is_a_table_and_json():
    for command, first in [("algorithms", "mean"), ("tasks", "linear"), ("engines", "self"), ("platforms", "star")]:
        table = run(command)
        assert table.returncode == 0
        assert first in table.stdout
        assert f'"name": "{first}"' in run(command, "--json").stdout


def test_algorithms_tell_family_bytes_and_options():
    rows = {row["name"]: row for row in run_json("algorithms")}
    assert rows["mean"]["family"] == "gradient"
    assert rows["local_sgd"]["family"] == "model"
    assert rows["mean"]["bytes_per_step"] == "8 D (P-1)/P"
    assert [option["name"] for option in rows["local_sgd"]["options"]] == ["period", "overlap", "guard"]
    options = {name: {option["name"]: option["default"] for option in row["options"]} for name, row in rows.items()}
    assert options["dpsgd"] == {"order": "adapt_first", "guard": "on"}
    assert options["adpsgd"] == {"partners": "random", "guard": "on"}
    assert options["wagma"]["groups"] == options["flock"]["groups"] == "dynamic"
    assert "`flockstep algorithms --json` lists the options" in run("algorithms").stdout


def test_tasks_tell_their_sizes():
    rows = {row["name"]: row for row in run_json("tasks")}
    assert rows["linear"]["sizes"] == []
    sizes = {size["name"]: size for size in rows["vision"]["sizes"]}
    assert list(sizes) == ["tiny", "small", "paper"]
    assert sizes["small"]["steps"] == 400
    assert sizes["small"]["settings"]["depth"] == "14"
    assert sizes["paper"]["batch_per_worker"] == 32


def test_engines_say_what_is_here_or_how_to_get_it():
    listed = run_json("engines")
    assert listed["simd"]
    by_name = {engine["name"]: engine for engine in listed["engines"]}
    assert list(by_name) == ["self", "threads", "mpi", "c10d", "mesh", "sim"]
    for engine in by_name.values():
        assert engine["version"] if engine["available"] else "build with" in engine["reason"]
    if by_name["mpi"]["available"]:
        assert by_name["mpi"]["thread_level"] == "MPI_THREAD_MULTIPLE"


@pytest.mark.parametrize("command", ["", "train", "compare", "bench", "algorithms", "tasks", "engines", "platforms"])
def test_help_is_everywhere(command):
    done = run(*command.split(), "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "--help" in done.stdout


@pytest.mark.parametrize("command", ["train", "compare"])
def test_help_fits_on_a_screen_and_says_how_to_see_the_rest(command):
    short, whole = run(command, "--help").stdout, run(command, "--help-all").stdout
    assert len(short.splitlines()) <= 50
    assert f"`flockstep {command} --help-all` shows all options" in short
    assert "--workers" in short
    for hidden in ("--bucket-kib", "--latency-us", "--wagma.period", "--images.momentum"):
        assert hidden not in short
        assert hidden in whole
    options = {word.split("=")[0] for word in whole.split() if word.startswith("--")}
    assert len(options) > 150


def test_help_shows_the_options_of_what_is_named():
    named = run("train", "--algorithm", "wagma", "--task", "images", "--engine", "sim", "--help").stdout
    for option in ("--wagma.period", "--images.momentum", "--latency-us"):
        assert option in named
    assert "--flock.period" not in named
    assert "--wagma.period" in run("compare", "--algorithms", "mean,wagma:period=3", "--help").stdout


def test_the_command_has_the_version_of_the_package():
    assert run("--version").stdout == f"flockstep {flockstep.__version__}\n"
