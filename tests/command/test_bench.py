"""`flockstep bench`: verified first, then timed; with --json one object per target."""

from conftest import run, run_json


def check_target(target, name):
    assert target["id"] == name
    assert target["figure"] > 0
    assert target["lower"] <= target["figure"] <= target["upper"]
    assert target["holds"] == (target["figure"] <= target["bar"])


def test_kernels_give_k1_for_every_number_of_workers_that_has_a_bar():
    targets = run_json("bench", "kernels", "--workers", "5,8,16", "--megabytes", 8, "--rounds", 3)
    assert [target["bar"] for target in targets] == [1.1, 1.5]
    for target in targets:
        check_target(target, "K1")


SMALL = ["bench", "adacons", "--floats", 300001, "--bucket-kib", 100, "--rounds", 3, "--compute-ms", 2]


def check_adacons(targets):
    for target, name in zip(targets, ["A1", "A2", "A5", "A6"], strict=True):
        check_target(target, name)
    assert [target["bar"] for target in targets] == [0.8, 0.35, 0.8, 1.0]
    assert targets[3]["holds"]  # memory is no matter of luck


def test_adacons_gives_its_targets_under_mpirun(needs):
    needs("mpi")
    check_adacons(run_json(*SMALL, workers=3))


def test_adacons_gives_its_targets_on_threads():
    check_adacons(run_json(*SMALL, "--engine", "threads", "--workers", 3))
    done = run(*SMALL, "--workers", 2, "--wire", "bfloat16")
    assert "a ring all-reduce (the engine has none)" in done.stdout
    assert "exposed when overlapped with it" in done.stdout


def test_the_table_ends_with_the_ratio():
    done = run("bench", "kernels", "--workers", 8, "--megabytes", 8, "--rounds", 2)
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1].startswith("K1 Gram sweep / read sweep, P = 8")
