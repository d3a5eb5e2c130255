"""Comparisons that are called again, that search a learning rate, and that run in virtual time."""

import fcntl
import json
import signal
import subprocess
import time

import pytest
from conftest import COMMAND, run, run_json
from paths import HANG_S

pytestmark = pytest.mark.usefixtures("without_pictures")


def stamps(out):
    """When each run was made."""
    return {path.parent.name: path.stat().st_mtime_ns for path in out.glob("runs/*/summary.json")}


def wait_for(path, process, size=1):
    deadline = time.monotonic() + HANG_S
    while not (path.exists() and path.stat().st_size >= size):
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)


def test_a_second_call_makes_no_run_again(tmp_path):
    out = tmp_path / "comparison"
    call = ["compare", "--algorithms", "mean,local_sgd", "--workers", 2, "--steps", 10, "--seeds", 2, "--out", out]
    first = run_json(*call)
    before = stamps(out)
    assert len(before) == 4
    second = run(*call, "--json")
    assert json.loads(second.stdout) == first
    assert second.stderr == "flockstep: 4 of 4 runs were already done\n"
    assert stamps(out) == before
    more = run(*call, "--seeds", 3)
    assert more.stderr == "flockstep: 4 of 6 runs were already done\n"
    assert before.items() < stamps(out).items()


def test_other_options_are_refused_and_nothing_is_touched(tmp_path):
    out = tmp_path / "comparison"
    call = ["compare", "--algorithms", "mean", "--workers", 2, "--steps", 10, "--out", out]
    run_json(*call)
    before = stamps(out)
    done = run(*call, "--straggler", "1x1ms")
    assert done.returncode == 2
    assert f"{out}/runs/mean-seed-1 holds a run with random_delay_s 0.0, not 0.001: choose another --out" in done.stderr
    assert done.stderr.count("\n") == 1
    assert stamps(out) == before


def test_stragglers_drawn_in_another_way_make_another_run(tmp_path):
    out = tmp_path / "comparison"
    call = ["compare", "--algorithms", "mean", "--workers", 2, "--steps", 10, "--out", out]
    independent = run_json(*call, "--straggler", "independent:1x1ms")
    assert independent["how"]["pace"]["independent_stragglers"] is True
    done = run(*call, "--straggler", "independent:1x1ms")
    assert "1 of 1 run was already done" in done.stderr
    done = run(*call, "--straggler", "1x1ms")
    assert done.returncode == 2
    assert f"{out}/runs/mean-seed-1 holds a run with independent_stragglers" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "killed"])
def test_an_interrupted_comparison_goes_on_to_the_same_figures(tmp_path, number):
    call = ["compare", "--algorithms", "mean,local_sgd", "--workers", "2", "--steps", "800", "--seeds", "2"]
    call += ["--deterministic", "--compute-ms", "10", "--evaluate-every", "50"]  # a clock that gives the same each time
    whole = run_json(*call, "--out", tmp_path / "whole")
    out = tmp_path / "interrupted"
    process = subprocess.Popen(
        [COMMAND, *call, "--out", str(out)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    wait_for(out / "runs" / "mean-seed-2" / "metrics.jsonl", process)
    process.send_signal(number)
    stdout, _ = process.communicate(timeout=HANG_S)
    assert ("The same command again continues from there." in stdout) == (number == signal.SIGINT)
    before = stamps(out)
    again = run(*call, "--out", out, "--json")
    assert again.returncode == 0, again.stderr
    assert again.stderr == "flockstep: 2 of 4 runs were already done\n"
    assert json.loads(again.stdout) == whole
    for done in ("mean-seed-1", "local_sgd-seed-1"):
        assert stamps(out)[done] == before[done]


@pytest.mark.parametrize("engine", ["threads", "sim"])
def test_a_run_with_a_checkpoint_goes_on_from_there(needs, tmp_path, engine):
    needs(engine)
    out = tmp_path / "comparison"
    call = ["compare", "--engine", engine, "--algorithms", "mean", "--workers", 2, "--steps", 30]
    call += ["--checkpoint-every", 20, "--out", out]
    whole = run_json(*call)
    folder = out / "runs" / "mean-seed-1"
    (folder / "summary.json").unlink()
    (folder / "kept").touch()  # gone if the folder is made anew
    resumed = run_json(*call)
    assert resumed["cases"][0]["rows"][0]["quality"] == whole["cases"][0]["rows"][0]["quality"]
    assert resumed["cases"][0]["rows"][0]["curve"]["steps"] == whole["cases"][0]["rows"][0]["curve"]["steps"]
    assert (folder / "kept").exists()
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    steps = [line["step"] for line in lines if line["kind"] == "step"]
    assert steps == list(range(1, 31))


def test_processes_agree_on_what_is_done(needs, tmp_path):
    needs("mpi")
    out = tmp_path / "comparison"
    call = ["compare", "--algorithms", "mean,local_sgd", "--steps", 10, "--seeds", 2, "--out", out]
    run_json(*call, workers=3)
    before = stamps(out)
    (out / "runs" / "local_sgd-seed-1" / "summary.json").unlink()
    again = run(*call, "--json", workers=3)
    assert again.returncode == 0, again.stderr
    assert again.stderr.count("3 of 4 runs were already done") == 1
    assert not json.loads(again.stdout)["interrupted"]
    changed = {name for name, stamp in stamps(out).items() if before[name] != stamp}
    assert changed == {"local_sgd-seed-1"}
    refused = run(*call, "--batch", 60, workers=3)
    assert refused.returncode == 2
    assert refused.stderr.count("holds a run with batch 48, not 60") == 1


@pytest.mark.parametrize("workers", [0, 2])
def test_a_folder_that_another_call_has_is_left_alone(needs, tmp_path, workers):
    if workers:
        needs("mpi")
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = run("compare", "--steps", 5, "--out", tmp_path, workers=workers)
    assert done.returncode == 2
    assert done.stderr.count(f"flockstep: another call is writing to {tmp_path}: wait until it has ended, or") == 1
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


@pytest.mark.thorough
def test_lr_is_a_search_of_the_learning_rate_chosen_by_validation(tmp_path):
    call = ["compare", "--task", "images", "--algorithms", "mean,local_sgd", "--workers", 2, "--steps", 20]
    result = run_json(*call, "--lr", "0.01,0.1,0.3")
    for row in result["cases"][0]["rows"]:
        assert row["searched"]["name"] == "images.learning_rate"
        assert row["searched"]["by"] == "validation"
        best = max(row["tried"], key=lambda tried: tried["validation"]["mean"])
        assert row["searched"]["value"] == best["value"]
        assert row["quality"] == best["quality"]
    done = run(*call, "--lr", "0.01,0.1,0.3")
    assert "best accuracy on the validation split" in done.stdout
    one = run_json(*call, "--lr", "0.1")
    assert one["how"]["task_settings"]["learning_rate"] == "0.1"
    assert "searched" not in one["cases"][0]["rows"][0]


def test_the_table_tells_the_time_to_a_target_within_a_hundred_columns(tmp_path):
    call = ["compare", "--task", "images", "--workers", 4, "--steps", 20, "--seeds", 2, "--lr", "0.1,0.3"]
    done = run(*call, "--algorithms", "mean,direction_consensus,wagma", "--target", 0.4)
    assert done.returncode == 0, done.stderr
    table = done.stdout.split("\n")[2:7]
    assert all(len(line) <= 100 for line in table), table
    assert table[0].split("  ")[0] == "algorithm"
    for head in ("learning_rate", "accuracy", "samples/s", "waiting", "fresh", "time to 0.4"):
        assert head in table[0]
    assert " was fastest to 0.4 (" in done.stdout or "None reached 0.4" in done.stdout


@pytest.mark.thorough
def test_quality_against_virtual_time_with_64_workers(needs):
    needs("sim")
    call = ["compare", "--engine", "sim", "--workers", 64, "--task", "images", "--images.hidden", 8, "--steps", 12]
    call += ["--algorithms", "mean,local_sgd,wagma", "--straggler", "4x320ms", "--evaluate-every", 4]
    rows = {row["algorithm"]: row for row in run_json(*call)["cases"][0]["rows"]}
    for row in rows.values():
        curve = row["curve"]
        assert curve["steps"] == [0, 4, 8, 12]
        assert curve["time_s"] == sorted(curve["time_s"])
        assert curve["time_s"][0] == 0
        assert curve["time_s"][-1] == pytest.approx(row["time_s"]["mean"])
        assert row["time_s"]["mean"] > 12 * 0.1, "a step computes for 100 ms of virtual time"
        assert curve["quality"]["mean"][-1] == row["quality"]["mean"] > curve["quality"]["mean"][0]
    assert rows["mean"]["time_s"]["mean"] == pytest.approx(12 * 0.42, rel=0.05), "everybody waits for the stragglers"
    assert rows["wagma"]["time_s"]["mean"] < rows["mean"]["time_s"]["mean"]
