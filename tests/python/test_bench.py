"""`python -m flockstep.bench` at tiny sizes: figures are left to docs/benchmarks.md."""

import json
import re
import sys

import pytest
from flockstep.bench.__main__ import main
from launching import run_program


def bench(*arguments, **keywords):
    return run_program([sys.executable, "-m", "flockstep.bench", *arguments], **keywords)


def test_adacons_ends_with_the_ratio_of_its_target():
    done = bench("adacons", "--workers", 2, "--floats", 100_003, "--rounds", 3)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(
        "2 workers on c10d over Gloo, 100003 floats; medians and quartiles of the slowest worker\n"
    )
    assert re.fullmatch(r"A3 .*: \d+\.\d{3}, at most 0\.80: (holds|does not hold)", done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def rows():
    hooks = "adacons,powerSGD"
    done = bench("ddp", "--workers", 2, "--model", "tiny", "--hooks", hooks, "--rounds", 3, "--json")
    assert done.returncode == 0, done.stderr
    return {row["measure"]: row for row in json.loads(done.stdout)}


def test_ddp_tells_a_target_for_adacons(rows):
    row = rows["a step of tiny, adacons / plain DDP"]
    assert row["id"] == "A4"
    assert row["holds"] == (row["figure"] <= row["bar"])
    assert row["lower"] <= row["figure"] <= row["upper"]


def test_ddp_tells_the_time_that_communication_is_exposed(rows):
    for row in rows.values():
        assert row["step_s"] > 0
        assert row["alone_s"] > 0
        assert row["exposed_s"] < row["step_s"]


def test_a_row_that_outlasts_its_limit_says_so():
    done = bench("ddp", "--workers", 2, "--model", "gpt", "--hooks", "fp16_compress", "--rounds", 1000, "--limit", 1)
    assert done.returncode == 0, done.stderr
    assert "fp16_compress  failed: it was not done after 1 s" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["ddp", "--model", "vgg"], "'vgg' is none of resnet50, gpt, tiny"),
        (["adacons", "--workers", "1"], "'1' is not a whole number of at least 2"),
    ],
)
def test_a_wrong_call_gets_one_sentence(capsys, arguments, sentence):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err
