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


def test_kernels_give_k1_for_every_number_of_workers_that_has_a_bar_and_a9_for_all():
    targets = run_json("bench", "kernels", "--workers", "5,8,16", "--megabytes", 8, "--rounds", 3)
    assert [target["bar"] for target in targets] == [1.2, 1.1, 1.2, 1.5, 1.2]
    assert ids(targets) == ["A9", "K1", "A9", "K1", "A9"]


def test_kernels_on_a_gpu_give_k2_or_say_in_one_sentence_why_there_is_none():
    done = run("bench", "kernels", "--device", "cuda", "--workers", "2,32", "--megabytes", 64, "--json", check=False)
    if done.returncode == 0:
        targets = json.loads(done.stdout)
        assert [target["bar"] for target in targets] == [0.9, 0.5]
        assert ids(targets) == ["K2", "K2"]
    else:
        assert done.stdout == ""
        assert re.fullmatch(r"flockstep: .*CUDA.*\.", done.stderr.strip().splitlines()[-1])


def test_kernels_run_on_devices_that_exist():
    done = run("bench", "kernels", "--device", "tpu", check=False)
    assert done.returncode == 2
    assert "--device takes cpu or cuda, not 'tpu'" in done.stderr


SMALL = ["bench", "adacons", "--floats", 300001, "--bucket-kib", 100, "--rounds", 3, "--compute-ms", 2]


def check_adacons(targets):
    assert ids(targets) == ["A1", "A2", "A5", "A6", "A7"]
    assert [target["bar"] for target in targets] == [0.7, 0.3, 0.7, 1.0, 1.05]
    assert targets[3]["holds"]  # memory is no matter of luck


def test_adacons_gives_its_targets_under_mpirun(needs):
    needs("mpi")
    check_adacons(run_json(*SMALL, workers=3))


def test_adacons_gives_its_targets_on_threads():
    check_adacons(run_json(*SMALL, "--engine", "threads", "--workers", 3))
    done = run(*SMALL, "--workers", 2, "--wire", "bfloat16")
    assert "a ring all-reduce (the engine has none)" in done.stdout
    assert "exposed when overlapped with it" in done.stdout
    assert "A ratio is the median of the ratios within a round, not the ratio of the medians above.\nA1 " in done.stdout


GROUP = ["bench", "group", "--floats", 600001, "--rounds", 2]


def check_group(targets, names):
    assert ids(targets) == names
    bars = {target["id"]: target["bar"] for target in targets}
    assert bars == {"W1": 1.0, "W2": 0.75, "W3": 0.2, "R3": 1.03, "W5": 3.0, "W6": 0.02}
    assert all(target["holds"] for target in targets if target["id"] == "W5")  # memory is no matter of luck


def test_group_gives_its_targets_under_mpirun(needs):
    needs("mpi")
    targets = run_json(*GROUP, workers=4)
    check_group(targets, ["W1", "W1", "W2", "W3", "R3", "R3", "W5", "W5", "W6"])
    assert "S = 2" in targets[0]["measure"]
    assert "S = 4" in targets[1]["measure"]


def test_group_gives_its_targets_on_threads():
    targets = run_json(*GROUP, "--engine", "threads", "--workers", 8, "--group-size", "3,4,99")
    check_group(targets, ["W1", "W1", "W2", "W1", "W2", "W3", "R3", "R3", "W5", "W5", "W6"])
    done = run(*GROUP, "--workers", 6, "--group-size", 4)
    assert "a ring all-reduce in each group (the engine has none)" in done.stdout
    assert "needs equal powers of two" in done.stdout


def test_group_needs_a_group():
    assert "at least two workers" in run(*GROUP, "--workers", 1).stderr
    assert "--group-size" in run(*GROUP, "--workers", 2, "--group-size", 1).stderr


STRAGGLER = [
    "bench",
    "straggler",
    "--steps",
    6,
    "--period",
    3,
    "--straggler",
    "1x20ms",
    "--compute-ms",
    2,
    "--rounds",
    1,
]


def check_straggler(targets):
    assert [target["bar"] for target in targets] == [1.5, 1.7]
    assert ids(targets) == ["W4", "W4"]


def test_straggler_gives_w4_under_mpirun(needs):
    needs("mpi")
    check_straggler(run_json(*STRAGGLER, workers=4))


def test_straggler_gives_w4_on_threads_and_compares_others_without_a_bar():
    check_straggler(run_json(*STRAGGLER, "--engine", "threads", "--workers", 4))
    done = run(*STRAGGLER, "--workers", 3, "--algorithms", "mean,local_sgd,wagma")
    assert [line.split()[0] for line in done.stdout.splitlines()[3:6]] == ["mean", "local_sgd", "wagma"]
    assert done.stdout.splitlines()[-1].startswith("W4 throughput of wagma / mean, stragglers 1 x 20 ms")


def test_the_table_ends_with_the_ratio():
    done = run("bench", "kernels", "--workers", 8, "--megabytes", 8, "--rounds", 2)
    assert done.returncode == 0
    assert done.stdout.splitlines()[-2].startswith("K1 Gram sweep / read sweep, P = 8")
    assert done.stdout.splitlines()[-1].startswith("A9 sketch kernel / read sweep, one thread, m = 1024")
