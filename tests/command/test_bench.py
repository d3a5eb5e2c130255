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


def test_mean_gives_a5_under_mpirun(needs):
    needs("mpi")
    (target,) = run_json("bench", "mean", "--floats", 300001, "--bucket-kib", 100, "--rounds", 3, workers=3)
    check_target(target, "A5")
    assert target["bar"] == 0.8


def test_the_table_ends_with_the_ratio():
    done = run("bench", "kernels", "--workers", 8, "--megabytes", 8, "--rounds", 2)
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1].startswith("K1 Gram sweep / read sweep, P = 8")
