"""Comparisons that are called again, that search a learning rate, and that run in virtual time."""

import json
import signal

import pytest
from conftest import refused, run, run_json
from live_run import end_of, live_run, wait_until

pytestmark = pytest.mark.usefixtures("without_pictures")


def stamps(out):
    """When each run was made."""
    return {path.parent.name: path.stat().st_mtime_ns for path in out.glob("runs/*/summary.json")}


def test_a_second_call_makes_no_run_again(tmp_path):
    call = ["compare", "--algorithms", "mean,local_sgd", "--workers", 2, "--steps", 10, "--seeds", 2]
    call += ["--out", tmp_path]
    first = run_json(*call)
    before = stamps(tmp_path)
    assert len(before) == 4
    second = run(*call, "--json")
    assert json.loads(second.stdout) == first
    assert second.stderr == "flockstep: 4 of 4 runs were already done\n"
    assert stamps(tmp_path) == before
    more = run(*call, "--seeds", 3)
    assert more.stderr == "flockstep: 4 of 6 runs were already done\n"
    assert before.items() < stamps(tmp_path).items()


@pytest.mark.parametrize(
    ("first", "names"),
    [([], "random_delay_s 0.0, not 0.001: choose another --out"), (["independent:1x1ms"], "independent_stragglers")],
)
def test_other_stragglers_are_refused_and_nothing_is_touched(tmp_path, first, names):
    call = ["compare", "--algorithms", "mean", "--workers", 2, "--steps", 10, "--out", tmp_path]
    began = [*call, *(["--straggler", *first] if first else [])]
    run_json(*began)
    before = stamps(tmp_path)
    assert run(*began).stderr == "flockstep: 1 of 1 run was already done\n"
    refused(*call, "--straggler", "1x1ms", names=(f"{tmp_path}/runs/mean-seed-1 holds a run with", names))
    assert stamps(tmp_path) == before


@pytest.mark.parametrize(
    ("number", "jobs"), [(signal.SIGINT, 1), (signal.SIGINT, 2), (signal.SIGKILL, 1)], ids=["ctrl-c", "jobs", "killed"]
)
def test_an_interrupted_comparison_goes_on_to_the_same_figures(tmp_path, number, jobs):
    call = ["compare", "--algorithms", "mean,local_sgd", "--workers", 2, "--steps", 1500, "--seeds", 2, "--jobs", jobs]
    call += ["--deterministic", "--compute-ms", 10, "--evaluate-every", 50]  # a clock that gives the same each time
    whole = run_json(*call, "--out", tmp_path / "whole")
    out = tmp_path / "interrupted"
    with live_run(*call, "--out", out) as process:
        wait_until(lambda: stamps(out), "the end of a run", process)
        _, stdout, _ = end_of(process, number)
    assert ("The same command again continues from there." in stdout) == (number == signal.SIGINT)
    if number == signal.SIGINT:
        kept = json.loads((out / "compare.json").read_text())
        assert kept["interrupted"]
        assert any(row["runs"] for row in kept["cases"][0]["rows"])
    before = stamps(out)
    again = run(*call, "--out", out, "--json")
    assert again.returncode == 0, again.stderr
    assert again.stderr.endswith(f"flockstep: {len(before)} of 4 runs were already done\n")
    assert json.loads(again.stdout) == whole
    assert before.items() <= stamps(out).items()


def test_processes_agree_on_what_is_done(tmp_path):
    call = ["compare", "--algorithms", "mean,local_sgd", "--steps", 10, "--seeds", 2, "--out", tmp_path]
    (case,) = run_json(*call, workers=3)["cases"]
    assert (case["workers"], len(case["rows"])) == (3, 2)
    before = stamps(tmp_path)
    (tmp_path / "runs" / "local_sgd-seed-1" / "summary.json").unlink()
    again = run(*call, "--json", workers=3)
    assert again.returncode == 0, again.stderr
    assert again.stderr.count("3 of 4 runs were already done") == 1
    assert not json.loads(again.stdout)["interrupted"]
    assert {name for name, stamp in stamps(tmp_path).items() if before[name] != stamp} == {"local_sgd-seed-1"}
    refused(*call, "--batch", 60, workers=3, names="holds a run with batch 48, not 60")


def test_the_table_tells_the_time_to_a_target_within_a_hundred_columns():
    call = ["compare", "--task", "images", "--workers", 4, "--steps", 20, "--seeds", 2, "--lr", "0.1,0.3"]
    done = run(*call, "--algorithms", "mean,direction_consensus,wagma", "--target", 0.4)
    assert done.returncode == 0, done.stderr
    table = done.stdout.split("\n")[2:7]
    assert all(len(line) <= 100 for line in table), table
    assert table[0].split("  ")[0] == "algorithm"
    for head in ("learning_rate", "accuracy", "samples/s", "waiting", "fresh", "time to 0.4"):
        assert head in table[0]
    assert " was fastest to 0.4 (" in done.stdout or "None reached 0.4" in done.stdout


def test_who_does_not_wait_for_stragglers_is_faster_than_mean_in_virtual_time():
    algorithms = {"local_sgd": 1.5, "wagma": 1.25, "flock": 1.5, "adpsgd": 2, "swarm": 2}
    call = ["compare", "--engine", "sim", "--workers", 8, "--steps", 64, "--evaluate-every", 16]
    call += ["--straggler", "2x320ms", "--algorithms", ",".join(["mean", *algorithms])]
    rows = {row["algorithm"]: row for row in run_json(*call)["cases"][0]["rows"]}
    for row in rows.values():
        curve = row["curve"]
        assert curve["steps"] == [0, 16, 32, 48, 64]
        assert curve["time_s"] == sorted(curve["time_s"])
        assert curve["time_s"][0] == 0
        assert curve["time_s"][-1] == pytest.approx(row["time_s"]["mean"])
        assert row["time_s"]["mean"] > 64 * 0.1, "a step computes for 100 ms of virtual time"
        assert curve["quality"]["mean"][-1] == row["quality"]["mean"]
    mean = rows["mean"]
    assert mean["time_s"]["mean"] == pytest.approx(64 * 0.42, rel=0.05), "all workers wait for the stragglers"
    for name, least in algorithms.items():
        assert rows[name]["samples_per_s"]["mean"] > least * mean["samples_per_s"]["mean"], name
        # Pairs wait once, at the end, for the worker that was drawn most often.
        assert rows[name]["wait_share"]["mean"] < (0.3 if least == 2 else 1) * mean["wait_share"]["mean"], name
    assert rows["flock"]["samples_per_s"]["mean"] > rows["wagma"]["samples_per_s"]["mean"]
