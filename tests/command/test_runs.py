"""Run folders, checkpoints, comparisons and their interruption."""

import json
import re
import signal
import subprocess

import pytest
from conftest import COMMAND, MPIRUN, expect_documented, refused, run, run_json
from live_run import end_of, lines_of, live_run, newest_step, steps_of, wait_until
from paths import HANG_S


def test_a_run_folder_holds_metrics_trace_and_summary(tmp_path):
    call = ["train", "--workers", 3, "--steps", 20, "--evaluate-every", 5, "--straggler", "1x1ms"]
    run_json(*call, "--out", tmp_path)
    evaluations = lines_of(tmp_path, "evaluation")
    assert steps_of(tmp_path) == list(range(1, 21))
    assert [line["step"] for line in evaluations] == [0, 5, 10, 15, 20]
    trace = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {event["pid"] for event in trace} == {0, 1, 2}
    spans = {event["name"] for event in trace if event["ph"] == "X"}
    assert spans >= {"gradient", "update", "all_to_all", "all_gather"}
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["quality"] == evaluations[-1]["quality"]
    told = [summary[name] for name in ("task", "algorithm", "engine", "workers")]
    assert told == ["linear", "mean", "threads", 3]
    assert summary["pace"]["random_stragglers"] == 1


SIM = "--engine sim --workers 2 --checkpoint-every 2"
STAR = 'platform "a star of 10 Gbit/s and 10 us", which one with'
# Options of the first call, more options of the second, and what the message names.
OTHERS = [
    ("", "", "already holds a run"),
    ("", "--resume", "holds a run without a checkpoint"),
    ("--checkpoint-every 5", "--resume --seed 2", "holds a run with seed 1, which one with 2 cannot continue"),
    (
        "--checkpoint-every 5 --faulty 3:scale:-5,2:nan:4",
        "--resume --faulty 3:scale:-4",
        'holds a run with faulty "3:scale:-5,2:nan:4"',
    ),
    (
        "--checkpoint-every 5 --algorithm local_sgd --workers 6 --batch 48",
        "--resume --workers 4",
        "holds a run with workers 6, which one with 4 cannot continue",
    ),
    (SIM, "--resume --platform aries", f'{STAR} "aries" cannot continue: start it like the first'),
    (SIM, "--resume --latency-us 7", f'{STAR} "a star of 10 Gbit/s and 7 us"'),
    (SIM, "--resume --bandwidth-gbps 7", f'{STAR} "a star of 7 Gbit/s and 10 us"'),
    (SIM, "--resume --bytes-scale 7", "bytes_scale 1.0, which one with 7.0"),
    (SIM, "--resume --memory-gbytes-s 7", "memory_gbytes_s 0.0, which one with 7.0"),
    (f"{SIM} --no-gradients --pretend-parameters 9", "--resume --pretend-parameters 8", "pretend_parameters"),
]


@pytest.mark.parametrize(("first", "second", "names"), OTHERS, ids=[f"{row[0]} {row[1]}" for row in OTHERS])
def test_a_folder_with_another_run_is_left_alone(tmp_path, first, second, names):
    call = ["train", "--steps", 10, "--out", tmp_path, *first.split()]
    run_json(*call)
    before = (tmp_path / "metrics.jsonl").read_bytes()
    refused(*call, "--steps", 20, *second.split(), names=names)
    assert (tmp_path / "metrics.jsonl").read_bytes() == before


def test_a_simulated_run_goes_on_on_threads(tmp_path):
    begun = ["train", "--workers", 2, "--checkpoint-every", 2, "--out", tmp_path]
    run_json(*begun, "--engine", "sim", "--steps", 2)
    assert run_json(*begun, "--engine", "threads", "--steps", 6, "--resume")["steps"] == 6


@pytest.mark.parametrize("options", ["--algorithm local_sgd --deterministic", "--algorithm mean"])
def test_a_killed_run_resumes_to_the_same_bits(tmp_path, options):
    plain = ["train", "--workers", 3, "--steps", 60, *options.split()]
    kept = ["--out", tmp_path, "--checkpoint-every", 10]
    with live_run(*plain, *kept, "--compute-ms", 10) as process:
        wait_until(lambda: newest_step(tmp_path) >= 20, "its second checkpoint", process)
        end_of(process, signal.SIGKILL)
    assert not (tmp_path / "summary.json").exists()
    resumed, whole = run_json(*plain, *kept, "--resume"), run_json(*plain)
    assert steps_of(tmp_path) == list(range(1, 61))
    assert resumed["model_hash"] == whole["model_hash"]
    assert resumed["quality"] == whole["quality"]


def test_resuming_a_finished_run_changes_nothing_and_more_steps_go_on(tmp_path):
    kept = ["--checkpoint-every", 5, "--evaluate-every", 4, "--out", tmp_path]
    first = run_json("train", "--steps", 10, *kept)
    before = (tmp_path / "metrics.jsonl").read_bytes()
    again = run_json("train", "--steps", 10, *kept, "--resume")
    for same in ("model_hash", "quality", "train_loss", "steps"):
        assert again[same] == first[same]
    assert (tmp_path / "metrics.jsonl").read_bytes() == before
    longer = run_json("train", "--steps", 20, *kept, "--resume")
    assert longer["model_hash"] == run_json("train", "--steps", 20)["model_hash"]
    evaluated = [line["step"] for line in lines_of(tmp_path, "evaluation")]
    assert evaluated == sorted(set(evaluated))


def test_workers_that_do_not_share_the_folder_are_told(needs, tmp_path):
    needs("mpi")
    train = [COMMAND, "train", "--steps", "10", "--checkpoint-every", "5", "--out", "run"]
    folders = [tmp_path / "here", tmp_path / "there"]
    for folder in folders:
        folder.mkdir()
    here, there = (["--wdir", str(folder), "-n", "1", *train] for folder in folders)
    done = subprocess.run([*MPIRUN, *here, ":", *there], capture_output=True, text=True, timeout=HANG_S)
    expect_documented(done.returncode, done.stdout, done.stderr)
    assert done.returncode == 1
    assert "the folder must be one that all workers share" in done.stderr
    assert not (tmp_path / "here" / "run" / "checkpoint" / "latest").exists()


def test_compare_writes_a_folder_per_run_and_a_table(tmp_path):
    call = ["compare", "--algorithms", "mean,local_sgd", "--workers", 3, "--steps", 10, "--seeds", 2]
    done = run(*call, "--out", tmp_path)
    assert done.returncode == 0
    assert "±" in done.stdout
    assert "ended with the best loss" in done.stdout
    (case,) = json.loads((tmp_path / "compare.json").read_text())["cases"]
    assert (case["workers"], case["batch"]) == (3, 48)
    assert [row["algorithm"] for row in case["rows"]] == ["mean", "local_sgd"]
    assert case["rows"][0]["folders"] == ["runs/mean-seed-1", "runs/mean-seed-2"]
    made = {path.name for path in (tmp_path / "runs").iterdir()}
    assert made == {f"{name}-seed-{seed}" for name in ("local_sgd", "mean") for seed in (1, 2)}


def test_compare_studies_sizes_variants_and_values(tmp_path, without_pictures):
    call = ["compare", "--workers", "2,4", "--batch", "16,32", "--steps", 10, "--search", "local_sgd.period=2,4,8"]
    call += ["--algorithms", "mean,local_sgd,local_sgd:period=5", "--out", tmp_path]
    result = run_json(*call)
    assert result == json.loads((tmp_path / "compare.json").read_text())
    assert [(case["workers"], case["batch"]) for case in result["cases"]] == [(2, 16), (2, 32), (4, 16), (4, 32)]
    mean, searched, fixed = result["cases"][3]["rows"]
    assert [row["algorithm"] for row in (mean, searched, fixed)] == ["mean", "local_sgd", "local_sgd:period=5"]
    assert "searched" not in mean
    assert [tried["value"] for tried in searched["tried"]] == ["2", "4", "8"]
    best = min(searched["tried"], key=lambda tried: tried["quality"]["mean"])
    assert searched["searched"]["value"] == best["value"]
    assert searched["folders"] == [f"runs/workers-4-batch-32/local_sgd-seed-1-{best['value']}"]

    def summary_of(row):
        return json.loads((tmp_path / row["folders"][0] / "summary.json").read_text())

    for tried in searched["tried"]:
        summary = summary_of(tried)
        assert summary["algorithm_settings"] == {"period": tried["value"]}
        assert (summary["workers"], summary["batch"]) == (4, 32)
    assert summary_of(fixed)["algorithm_settings"] == {"period": "5"}
    # A variant is its algorithm with these options: the same run, bit for bit.
    variant = ["--algorithm", "local_sgd", "--local_sgd.period", 5]
    alone = run_json("train", "--workers", 4, "--batch", 32, "--steps", 10, *variant)
    assert alone["model_hash"] == summary_of(fixed)["model_hash"]
    table = run(*call).stdout
    assert "local_sgd.period" in table
    assert "(edge)" in table
    assert "try values beyond it" in table


@pytest.mark.parametrize(
    ("engine", "number", "code"),
    [("threads", signal.SIGINT, 130), ("sim", signal.SIGINT, 130), ("sim", signal.SIGTERM, 143)],
)
def test_a_signal_ends_a_comparison_with_what_was_measured(tmp_path, engine, number, code):
    """On sim it has to reach the child that simulates."""
    call = ["compare", "--engine", engine, "--compute-ms", 5, "--evaluate-every", 5, "--steps", 1000000]
    metrics = tmp_path / "runs" / "mean-seed-1" / "metrics.jsonl"
    with live_run(*call, "--out", tmp_path) as process:
        wait_until(lambda: metrics.exists() and metrics.stat().st_size > 2000, "its metrics", process)
        ended, stdout, stderr = end_of(process, number)
    assert ended == code, stderr
    assert re.search(r"^mean, seed 1 \(1 of \d+\) was stopped after step \d+, and has no row\.$", stdout, re.MULTILINE)
    assert "Interrupted" in stdout
    kept = json.loads((tmp_path / "compare.json").read_text())
    assert kept["interrupted"]
    assert kept["cases"] == []
    assert len(kept["unfinished"]) == 1
