"""Run folders, checkpoints, configuration files, interruption."""

import json
import os
import pty
import re
import signal
import subprocess
import time

import pytest
from conftest import COMMAND, MPIRUN, run, run_json
from live_run import newest_step, wait_until
from paths import HANG_S


def lines_of(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_a_run_folder_holds_metrics_trace_and_summary(tmp_path):
    out = tmp_path / "run"
    run_json("train", "--workers", 3, "--steps", 20, "--evaluate-every", 5, "--out", out)
    lines = lines_of(out)
    assert [line["step"] for line in lines if line["kind"] == "step"] == list(range(1, 21))
    assert [line["step"] for line in lines if line["kind"] == "evaluation"] == [0, 5, 10, 15, 20]
    trace = json.loads((out / "trace.json").read_text())["traceEvents"]
    assert {event["pid"] for event in trace} == {0, 1, 2}
    assert {event["name"] for event in trace if event["ph"] == "X"} >= {
        "gradient",
        "update",
        "all_to_all",
        "all_gather",
    }
    summary = json.loads((out / "summary.json").read_text())
    assert summary["quality"] == lines[-1]["quality"]


def test_a_run_folder_is_never_overwritten(tmp_path):
    out = tmp_path / "run"
    run_json("train", "--steps", 5, "--out", out)
    before = (out / "metrics.jsonl").read_bytes()
    done = run("train", "--steps", 6, "--out", out)
    assert done.returncode == 2
    assert "already holds a run" in done.stderr
    assert (out / "metrics.jsonl").read_bytes() == before


def killed_and_resumed(tmp_path, *arguments):
    """Kills a slow run after its second checkpoint, resumes it without the delay, and returns both results."""
    out = tmp_path / "run"
    plain = ["train", "--steps", "60", *map(str, arguments)]
    kept = ["--out", str(out), "--checkpoint-every", "10"]
    process = subprocess.Popen([COMMAND, *plain, *kept, "--compute-ms", "10"], stdout=subprocess.DEVNULL)
    wait_until(lambda: newest_step(out) >= 20, process, "its second checkpoint")
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (out / "summary.json").exists()
    resumed = run_json(*plain, *kept, "--resume")
    assert [line["step"] for line in lines_of(out) if line["kind"] == "step"] == list(range(1, 61))
    return resumed, run_json(*plain)


def test_a_killed_run_resumes_to_the_same_bits(tmp_path):
    resumed, whole = killed_and_resumed(tmp_path, "--workers", 3, "--algorithm", "local_sgd", "--deterministic")
    assert resumed["model_hash"] == whole["model_hash"]
    assert resumed["quality"] == whole["quality"]


def test_a_killed_run_of_mean_resumes_on_free_threads_too(tmp_path):
    resumed, whole = killed_and_resumed(tmp_path, "--workers", 3)
    assert resumed["model_hash"] == whole["model_hash"]


def test_deterministic_threads_give_the_same_files_byte_for_byte(tmp_path):
    for folder in ("first", "second"):
        run_json(
            *["train", "--workers", 4, "--steps", 30, "--algorithm", "local_sgd", "--deterministic"],
            *["--straggler", "2x320ms", "--jitter", "lognormal:0.3", "--compute-ms", 10, "--out", tmp_path / folder],
        )
    for name in ("metrics.jsonl", "trace.json", "summary.json"):
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes(), name


def test_resuming_without_a_checkpoint_leaves_the_run_alone(tmp_path):
    out = tmp_path / "run"
    run_json("train", "--steps", 10, "--out", out)
    before = (out / "metrics.jsonl").read_bytes()
    done = run("train", "--steps", 5, "--out", out, "--resume")
    assert done.returncode == 2
    assert "holds a run without a checkpoint" in done.stderr
    assert (out / "metrics.jsonl").read_bytes() == before


def test_resuming_a_finished_run_changes_nothing_and_more_steps_go_on(tmp_path):
    out = tmp_path / "run"
    kept = ["--checkpoint-every", 5, "--evaluate-every", 4, "--out", out]
    first = run_json("train", "--steps", 10, *kept)
    before = (out / "metrics.jsonl").read_bytes()
    again = run_json("train", "--steps", 10, *kept, "--resume")
    for same in ("model_hash", "quality", "train_loss", "steps"):
        assert again[same] == first[same]
    assert (out / "metrics.jsonl").read_bytes() == before
    longer = run_json("train", "--steps", 20, *kept, "--resume")
    assert longer["model_hash"] == run_json("train", "--steps", 20)["model_hash"]
    evaluated = [line["step"] for line in lines_of(out) if line["kind"] == "evaluation"]
    assert evaluated == sorted(set(evaluated))


def test_workers_that_do_not_share_the_folder_are_told(needs, tmp_path):
    needs("mpi")
    train = [COMMAND, "train", "--steps", "10", "--checkpoint-every", "5", "--out", "run"]
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    both = [["--wdir", str(folder), "-n", "1", *train] for folder in (here, there)]
    done = subprocess.run([*MPIRUN, *both[0], ":", *both[1]], capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 1
    assert "the folder must be one that all workers share" in done.stderr
    assert not (here / "run" / "checkpoint" / "latest").exists()


def test_a_run_folder_says_what_run_it_was(tmp_path):
    out = tmp_path / "run"
    run_json("train", "--steps", 5, "--workers", 2, "--straggler", "1x1ms", "--out", out)
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["task"], summary["algorithm"], summary["engine"], summary["workers"]) == (
        "linear",
        "mean",
        "threads",
        2,
    )
    assert summary["pace"]["random_stragglers"] == 1


def test_resuming_another_run_is_refused(tmp_path):
    out = tmp_path / "run"
    run_json("train", "--steps", 10, "--checkpoint-every", 5, "--out", out)
    done = run("train", "--steps", 20, "--out", out, "--resume", "--seed", 2)
    assert done.returncode == 2
    assert "holds a run with seed 1, which one with 2 cannot continue" in done.stderr


def test_a_config_file_gives_options_and_the_command_line_wins(tmp_path):
    config = tmp_path / "run.toml"
    config.write_text('algorithm = "local_sgd"\nsteps = 12\nworkers = 3\nseed = 9\n\n[local_sgd]\nperiod = 4\n')
    result = run_json("train", "--config", config, "--seed", 5)
    assert (result["algorithm"], result["steps"], result["workers"], result["seed"]) == ("local_sgd", 12, 3, 5)
    assert result["algorithm_settings"] == {"period": "4"}
    config.write_text("seed = 3\n[train]\nsteps = 7\n[compare]\nsteps = 9\n")
    assert run_json("train", "--config", config)["steps"] == 7


def test_compare_writes_a_folder_per_run_and_a_table(tmp_path):
    out = tmp_path / "comparison"
    done = run(
        *["compare", "--algorithms", "mean,local_sgd", "--workers", 3, "--steps", 10, "--seeds", 2, "--out", out],
    )
    assert done.returncode == 0
    assert "±" in done.stdout
    assert "ended with the best loss" in done.stdout
    saved = json.loads((out / "compare.json").read_text())
    (case,) = saved["cases"]
    assert (case["workers"], case["batch"]) == (3, 48)
    assert [row["algorithm"] for row in case["rows"]] == ["mean", "local_sgd"]
    assert case["rows"][0]["folders"] == ["runs/mean-seed-1", "runs/mean-seed-2"]
    assert sorted(path.name for path in (out / "runs").iterdir()) == [
        *["local_sgd-seed-1", "local_sgd-seed-2", "mean-seed-1", "mean-seed-2"],
    ]


def test_compare_under_mpirun(needs):
    needs("mpi")
    result = run_json("compare", "--steps", 20, "--algorithms", "mean,local_sgd", workers=2)
    (case,) = result["cases"]
    assert case["workers"] == 2
    assert len(case["rows"]) == 2


@pytest.mark.thorough
def test_compare_studies_sizes_variants_and_values(tmp_path):
    out = tmp_path / "study"
    arguments = ["--workers", "2,4", "--batch", "16,32", "--steps", 10, "--search", "local_sgd.period=2,4,8"]
    result = run_json("compare", *arguments, "--algorithms", "mean,local_sgd,local_sgd:period=5", "--out", out)
    assert result == json.loads((out / "compare.json").read_text())
    assert [(case["workers"], case["batch"]) for case in result["cases"]] == [(2, 16), (2, 32), (4, 16), (4, 32)]
    mean, searched, fixed = result["cases"][3]["rows"]
    assert [row["algorithm"] for row in (mean, searched, fixed)] == ["mean", "local_sgd", "local_sgd:period=5"]
    assert "searched" not in mean
    assert [tried["value"] for tried in searched["tried"]] == ["2", "4", "8"]
    best = min(searched["tried"], key=lambda tried: tried["quality"]["mean"])
    assert searched["searched"]["value"] == best["value"]
    assert searched["folders"] == [f"runs/workers-4-batch-32/local_sgd-seed-1-{best['value']}"]
    for tried in searched["tried"]:
        summary = json.loads((out / tried["folders"][0] / "summary.json").read_text())
        assert summary["algorithm_settings"] == {"period": tried["value"]}
        assert (summary["workers"], summary["batch"]) == (4, 32)
    summary = json.loads((out / fixed["folders"][0] / "summary.json").read_text())
    assert summary["algorithm_settings"] == {"period": "5"}
    # A variant is its algorithm with these options: the same run, bit for bit.
    alone = run_json(
        *["train", "--workers", 4, "--batch", 32, "--steps", 10, "--algorithm", "local_sgd"],
        *["--local_sgd.period", 5],
    )
    assert alone["model_hash"] == summary["model_hash"]


def test_a_search_shows_the_value_it_chose():
    plain = ["compare", "--algorithms", "mean,local_sgd", "--workers", 2, "--steps", 8]
    done = run(*plain, "--search", "local_sgd.period=2,4")
    assert done.returncode == 0
    head, rows = done.stdout.split("\n")[2], done.stdout.split("\n")[4:6]
    assert "local_sgd.period" in head
    assert rows[0].split()[1] == "-"
    assert "(edge)" in rows[1]
    assert "try values beyond it" in done.stdout


def test_piped_output_has_no_progress_bar():
    done = run("train", "--steps", 200)
    assert done.stderr == ""


def test_a_terminal_gets_a_progress_bar():
    terminal, inside = pty.openpty()
    process = subprocess.Popen([COMMAND, "train", "--steps", "50"], stderr=inside, stdout=subprocess.DEVNULL)
    os.close(inside)
    shown = b""
    while True:
        try:
            chunk = os.read(terminal, 4096)
        except OSError:
            break
        if not chunk:
            break
        shown += chunk
    assert process.wait() == 0
    assert b"50/50 steps" in shown


def test_signals_reach_the_child_of_a_simulated_comparison(needs, tmp_path):
    needs("sim")
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        out = tmp_path / number.name
        command = ["compare", "--engine", "sim", "--steps", "1000000", "--evaluate-every", "50", "--out", str(out)]
        process = subprocess.Popen([COMMAND, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        metrics = out / "runs" / "mean-seed-1" / "metrics.jsonl"
        deadline = time.monotonic() + HANG_S
        while not (metrics.exists() and metrics.stat().st_size > 2000):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(number)
        stdout, _ = process.communicate(timeout=HANG_S)  # returns only when the child has let go of the pipes, too
        assert process.returncode == code
        assert "Interrupted" in stdout


def test_ctrl_c_ends_a_comparison_with_what_was_measured(tmp_path):
    out = tmp_path / "comparison"
    process = subprocess.Popen(
        [COMMAND, "compare", "--compute-ms", "5", "--evaluate-every", "5", "--steps", "5000", "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    metrics = out / "runs" / "mean-seed-1" / "metrics.jsonl"
    deadline = time.monotonic() + HANG_S
    while not (metrics.exists() and metrics.stat().st_size > 2000):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=HANG_S)
    assert process.returncode == 130, stderr
    assert re.search(r"^mean, seed 1 \(1 of \d+\) was stopped after step \d+, and has no row\.$", stdout, re.MULTILINE)
    assert "Interrupted" in stdout
    kept = json.loads((out / "compare.json").read_text())
    assert kept["interrupted"]
    assert kept["cases"] == []
    assert len(kept["unfinished"]) == 1
