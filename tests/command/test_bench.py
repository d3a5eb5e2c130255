"""`flockstep bench`: verified first, then timed; with --json one object per target."""

import json
import re

import pytest
from conftest import run, run_json

pytestmark = pytest.mark.thorough


def ids(targets):
    """The names of targets, all of which have a figure."""
    assert all(target["figure"] > 0 for target in targets if target["id"] != "W6"), "W6 may be too small for the clock"
    return [target["id"] for target in targets]


def bars(targets):
    return [target["bar"] for target in targets]


def test_kernels_give_k1_for_every_number_of_workers_that_has_a_bar_and_a9_for_all():
    call = ["bench", "kernels", "--workers", "5,8,16", "--megabytes", 8, "--rounds", 3]
    targets = run_json(*call)
    assert bars(targets) == [1.2, 1.1, 1.2, 1.5, 1.2]
    assert ids(targets) == ["A9", "K1", "A9", "K1", "A9"]
    ratios = run(*call).stdout.splitlines()[-2:]
    assert ratios[0].startswith("K1 Gram sweep / read sweep, P = 16")
    assert ratios[1].startswith("A9 sketch kernel / read sweep, one thread, m = 1024")


def test_kernels_on_a_gpu_give_k2_or_say_in_one_sentence_why_there_is_none():
    done = run("bench", "kernels", "--device", "cuda", "--workers", "2,32", "--megabytes", 64, "--json")
    if done.returncode == 0:
        targets = json.loads(done.stdout)
        assert bars(targets) == [0.9, 0.5]
        assert ids(targets) == ["K2", "K2"]
    else:
        assert done.stdout == ""
        assert re.search(r"CUDA.*\.$", done.stderr)


HERE = ["--engine", "threads", "--workers"]
ADACONS = ["bench", "adacons", "--floats", 300001, "--bucket-kib", 100, "--rounds", 3, "--compute-ms", 2]


@pytest.mark.parametrize("call", [{"workers": 3}, {}], ids=["mpirun", "threads"])
def test_adacons_gives_its_targets(call):
    targets = run_json(*ADACONS, *([] if call else [*HERE, 3]), **call)
    assert ids(targets) == ["A1", "A2", "A5", "A6", "A7"]
    assert bars(targets) == [0.7, 0.3, 0.7, 1.0, 1.05]
    assert targets[3]["holds"]  # memory is no matter of luck


GROUP = ["bench", "group", "--floats", 600001, "--rounds", 2]


@pytest.mark.parametrize(
    ("options", "call", "names"),
    [
        ([], {"workers": 4}, "W1 W1 W2 W3 R3 R3 W5 W5 W6"),
        ([*HERE, 8, "--group-size", "3,4,99"], {}, "W1 W1 W2 W1 W2 W3 R3 R3 W5 W5 W6"),
    ],
    ids=["mpirun", "threads"],
)
def test_group_gives_its_targets(options, call, names):
    targets = run_json(*GROUP, *options, **call)
    assert ids(targets) == names.split()
    expected = {"W1": 1.0, "W2": 0.75, "W3": 0.2, "R3": 1.03, "W5": 3.0, "W6": 0.02}
    assert {target["id"]: target["bar"] for target in targets} == expected
    assert all(target["holds"] for target in targets if target["id"] == "W5")  # memory is no matter of luck
    if call:
        assert ["S = 2" in targets[0]["measure"], "S = 4" in targets[1]["measure"]] == [True, True]


STRAGGLER = ["bench", "straggler", "--steps", 6, "--period", 3, "--straggler", "1x20ms", "--compute-ms", 2]


@pytest.mark.parametrize("call", [{"workers": 4}, {}], ids=["mpirun", "threads"])
def test_straggler_gives_w4(call):
    targets = run_json(*STRAGGLER, "--rounds", 1, *([] if call else [*HERE, 4]), **call)
    assert bars(targets) == [1.5, 1.7]
    assert ids(targets) == ["W4", "W4"]


def test_straggler_compares_others_without_a_bar():
    lines = run(*STRAGGLER, "--rounds", 1, "--workers", 3, "--algorithms", "mean,local_sgd,wagma").stdout.splitlines()
    assert [line.split()[0] for line in lines[3:6]] == ["mean", "local_sgd", "wagma"]
    assert lines[-1].startswith("W4 throughput of wagma / mean, stragglers 1 x 20 ms")
