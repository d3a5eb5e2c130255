"""--config: options from a TOML file, and what is said about one that cannot be used."""

import os
import re
import subprocess
import threading

import pytest
from conftest import COMMAND, run, run_json

TRAIN = ["train", "--linear.dimension", 10]

# What the file holds, where in it the trouble is, and the sentence. At which column the parser stumbles is its affair.
WRONG = [
    ("steps = [1,2\n", "1:", "parsing array: encountered end-of-file"),
    ("seed = 1\nsteps = \n", "2:", "expected value, saw '\\n'"),
    ("steps 12\n", "1:", "expected '=', saw '1'"),
    ("steps = 12 13\n", "1:", "expected a comment or whitespace, saw '1'"),
    ('log = "quiet\n', "1:", "parsing string"),
    ("steps = 012\n", "1:", "leading zeroes are prohibited"),
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


@pytest.mark.parametrize(("text", "place", "sentence"), WRONG, ids=lambda value: value.strip())
def test_trouble_is_told_with_file_line_and_column(tmp_path, text, place, sentence):
    config = tmp_path / "run.toml"
    config.write_text(text)
    done = run("train", "--config", config)
    assert done.returncode == 2
    assert re.match(rf"flockstep: {config}:{place}{r'[0-9]+' if place.endswith(':') else ''}: ", done.stderr)
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


# All that TOML has to say one thing.
SAME = [
    'algorithm = "local_sgd"\nsteps = 4\nworkers = 3\n[local_sgd]\nperiod = 2\n[linear]\ndimension = 8\n',
    "algorithm = 'local_sgd'\nsteps = 0x4\nworkers = 0b11\nlocal_sgd = {period = 2}\nlinear = {dimension = 0o10}\n",
    'algorithm = """\nlocal_sgd"""\nsteps = +4\nworkers = 3\nlocal_sgd.period = 2\n"linear.dimension" = 8 # more\n',
    'steps = 9\n[train]\nalgorithm = "local_sgd"\nsteps = 4\nworkers = 3\nlinear.dimension = 8\n[train.local_sgd]\n'
    "period = 2\n[compare]\nsteps = 99\nseeds = 7\n",
]


@pytest.mark.parametrize("text", SAME)
def test_every_way_to_write_it_in_toml_is_read(tmp_path, text):
    config = tmp_path / "run.toml"
    config.write_text(text)
    result = run_json("train", "--config", config)
    assert (result["algorithm"], result["steps"], result["workers"]) == ("local_sgd", 4, 3)
    assert result["algorithm_settings"] == {"period": "2"}
    assert result["task_settings"] == {"dimension": "8"}


def test_lists_are_what_commas_are_on_the_command_line(tmp_path, without_pictures):
    config = tmp_path / "run.toml"
    config.write_text(
        'workers = [2, 3]\nalgorithms = ["mean", "sgp"]\nsteps = 2\nstraggler-fixed = ["0:1us", "1:2us"]\n'
    )
    result = run_json("compare", "--config", config, "--linear.dimension", 10)
    assert [case["workers"] for case in result["cases"]] == [2, 3]
    assert [row["algorithm"] for row in result["cases"][0]["rows"]] == ["mean", "sgp"]


def test_flags_are_true_or_false_and_the_command_line_wins(tmp_path):
    config = tmp_path / "run.toml"
    config.write_text('json = true\ndeterministic = false\nsteps = 3\n[mean]\nmagnitude = "mean_norm"\n')
    done = run(*TRAIN, "--config", config, "--steps", 2, "--mean.magnitude", "own")
    assert done.returncode == 0, done.stderr
    assert '"steps": 2' in done.stdout
    assert '"magnitude": "own"' in done.stdout


def test_a_section_of_an_algorithm_that_does_not_run_is_left_alone(tmp_path):
    config = tmp_path / "run.toml"
    config.write_text("steps = 2\n[sgp]\nneighbours = 2\n[images]\nhidden = 5\n")
    result = run_json(*TRAIN, "--config", config)
    assert result["algorithm_settings"] == {}


def test_what_never_ends_is_refused(tmp_path):
    large = tmp_path / "large.toml"
    large.write_text("# " + "x" * (1 << 20))
    for path, sentence in [
        ("/dev/zero", "--config: cannot read /dev/zero: it is not a file"),
        (tmp_path, f"--config: cannot read {tmp_path}: it is not a file"),
        (large, f"--config: {large} holds more than 1024 KiB: options take less"),
    ]:
        done = run("train", "--config", path)
        assert done.returncode == 2
        assert done.stderr == f"flockstep: {sentence}\n"


def test_a_pipe_is_read_to_its_end(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("steps = 3\n",), daemon=True)
    writer.start()
    assert run_json(*TRAIN, "--config", pipe)["steps"] == 3
    writer.join()


def test_commands_without_a_config_file_say_so(tmp_path):
    done = subprocess.run([COMMAND, "bench", "--config", tmp_path / "none.toml"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "bench does not take --config" in done.stderr
