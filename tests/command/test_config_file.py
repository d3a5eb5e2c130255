"""--config: options from a TOML file, and what is said about one that cannot be used."""

import os
import re
import threading

import pytest
from conftest import refused, run, run_json

TRAIN = ["train", "--linear.dimension", 10]

# What the file holds, where in it the trouble is, and the sentence. At which column the parser stumbles is its affair.
WRONG = [
    ("steps = [1,2\n", "1:", "parsing array: encountered end-of-file"),
    ("seed = 1\nseed = 2\n", "2:", "cannot redefine existing integer 'seed'"),
    ("seed = 1\n  stpes = 12\n", "2:3", "train does not take --stpes; did you mean --steps?"),
    ("[locl_sgd]\nperiod = 4\n", "2:1", "did you mean --local_sgd.period?"),
    ("seeds = 3\n", "1:1", "train does not take --seeds"),
    ("help = true\n", "1:1", "train does not take --help"),
    ('config = "other.toml"\n', "1:1", "config leads to another file: give it on the command line"),
    ('out = ""\n', "1:7", "out has no value"),
    ("straggler-fixed = []\n", "1:19", "straggler-fixed has no value"),
    ('steps = "12"\n', "1:9", "steps takes a whole number, not text"),
    ("steps = 12.0\n", "1:9", "steps takes a whole number, not a number with a fraction"),
    ("steps = [1, 2]\n", "1:9", "steps takes a whole number, not a list"),
    ("steps = {first = 1}\n", "1:9", "steps takes a whole number, not a table"),
    ("steps = 0\n", "1:9", "--steps"),
    ('deadline = "long"\n', "1:12", "deadline takes a number, not text"),
    ("deterministic = 1\n", "1:17", "deterministic takes true or false, not a whole number"),
    ("task = true\n", "1:8", "task takes a value, not true or false"),
    ("task = 2024-01-01\n", "1:8", "task takes a value or a list of values, not a date or time"),
    ("straggler-fixed = [[1], [2]]\n", "1:19", "straggler-fixed takes a value or a list of values, not a list"),
    ("workers = [2, 4]\n", "1:11", "--workers takes a whole number from 1 to 1048576, not '2,4'"),
]


@pytest.fixture
def config(tmp_path):
    return tmp_path / "run.toml"


@pytest.mark.parametrize(("text", "place", "sentence"), WRONG, ids=lambda value: value.strip())
def test_trouble_is_told_with_file_line_and_column(config, text, place, sentence):
    config.write_text(text)
    message = refused("train", "--config", config, names=sentence)
    assert re.match(rf"flockstep: {config}:{place}{r'[0-9]+' if place.endswith(':') else ''}: ", message)


# All that TOML has to say one thing.
SAME = [
    'algorithm = "local_sgd"\nsteps = 4\nworkers = 3\n[local_sgd]\nperiod = 2\n[linear]\ndimension = 8\n',
    "algorithm = 'local_sgd'\nsteps = 0x4\nworkers = 0b11\nlocal_sgd = {period = 2}\nlinear = {dimension = 0o10}\n",
    'algorithm = """\nlocal_sgd"""\nsteps = +4\nworkers = 3\nlocal_sgd.period = 2\n"linear.dimension" = 8 # more\n',
    'steps = 9\n[train]\nalgorithm = "local_sgd"\nsteps = 4\nworkers = 3\nlinear.dimension = 8\n[train.local_sgd]\n'
    "period = 2\n[compare]\nsteps = 99\nseeds = 7\n",
]


@pytest.mark.parametrize("text", SAME)
def test_every_way_to_write_it_in_toml_is_read(config, text):
    config.write_text(text)
    result = run_json("train", "--config", config)
    assert (result["algorithm"], result["steps"], result["workers"]) == ("local_sgd", 4, 3)
    assert result["algorithm_settings"] == {"period": "2"}
    assert result["task_settings"] == {"dimension": "8"}


def test_lists_are_what_commas_are_on_the_command_line(config, without_pictures):
    config.write_text(
        'workers = [2, 3]\nalgorithms = ["mean", "sgp"]\nsteps = 2\nstraggler-fixed = ["0:1us", "1:2us"]\n'
    )
    result = run_json("compare", "--config", config, "--linear.dimension", 10)
    assert [case["workers"] for case in result["cases"]] == [2, 3]
    assert [row["algorithm"] for row in result["cases"][0]["rows"]] == ["mean", "sgp"]


def test_flags_are_true_or_false_and_the_command_line_wins(config):
    config.write_text('json = true\ndeterministic = false\nsteps = 3\n[mean]\nmagnitude = "mean_norm"\n')
    done = run(*TRAIN, "--config", config, "--steps", 2, "--mean.magnitude", "own")
    assert done.returncode == 0, done.stderr
    assert '"steps": 2' in done.stdout
    assert '"magnitude": "own"' in done.stdout


def test_a_section_of_an_algorithm_that_does_not_run_is_left_alone(config):
    config.write_text("steps = 2\n[sgp]\nneighbours = 2\n[images]\nhidden = 5\n")
    result = run_json(*TRAIN, "--config", config)
    assert result["algorithm_settings"] == {}


@pytest.mark.parametrize("path", ["/dev/zero", "."])
def test_what_is_no_file_is_refused(path):
    refused("train", "--config", path, names=f"--config: cannot read {path}: it is not a file")


def test_a_file_that_is_too_large_is_refused(config):
    config.write_text("# " + "x" * (1 << 20))
    refused("train", "--config", config, names=f"--config: {config} holds more than 1024 KiB")


def test_a_pipe_is_read_to_its_end(config):
    os.mkfifo(config)
    writer = threading.Thread(target=config.write_text, args=("steps = 3\n",), daemon=True)
    writer.start()
    assert run_json(*TRAIN, "--config", config)["steps"] == 3
    writer.join()
