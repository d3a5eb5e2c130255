"""What a training leaves: metrics.jsonl, trace.json and a report as the command's, metrics for trackers, log lines."""

import json
import statistics
import subprocess
from pathlib import Path

import flockstep
import pytest
from conftest import COMMAND
from flockstep.report.reading import read_run
from flockstep.report.timelines import read_trace
from paths import HANG_S
from results import Results
from sample_run import page_of

PROGRAM = Path(__file__).with_name("telemetry_program.py")
WORKERS, STEPS = 2, 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("telemetry")


@pytest.fixture(scope="module")
def results(folder):
    found = Results(PROGRAM, WORKERS, folder)
    assert found["an_averager"], "all cases have run, and left their files"
    return found


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_metrics_are_a_dictionary_of_numbers(results):
    for rank, told in enumerate(results["a_rule"]):
        metrics = told["metrics"]
        assert all(isinstance(value, float) for value in metrics.values())
        assert metrics["step"] == STEPS
        assert metrics["loss"] == told["losses"][-1], rank
        assert {f"{name}/{worker}" for name in ("norm", "coefficient", "agreement") for worker in range(WORKERS)} <= {
            *metrics
        }
        assert metrics["bytes_sent_per_step"] > 0
        assert metrics["guard/non_finite"] == metrics["guard/clipped"] == 0


def test_the_files_are_those_of_the_command(results, folder):
    out = folder / "rule"
    assert {path.name for path in out.iterdir()} >= {
        *("metrics.jsonl", "metrics-1.jsonl", "trace.json", "summary.json")
    }
    steps = [line for line in lines_of(out / "metrics.jsonl") if line["kind"] == "step"]
    assert [line["step"] for line in steps] == list(range(1, STEPS + 1))
    command = out.parent / "command"
    subprocess.run(
        [COMMAND, "train", "--algorithm", "adacons", "--workers", "2", "--steps", "4", "--out", command],
        check=True,
        capture_output=True,
        timeout=HANG_S,
    )
    by_kind = {line["kind"]: set(line) for line in lines_of(command / "metrics.jsonl")}
    for line in lines_of(out / "metrics.jsonl"):
        assert set(line) == by_kind[line["kind"]], line["kind"]
    summary = json.loads((out / "summary.json").read_text())
    assert set(summary) <= set(json.loads((command / "summary.json").read_text()))
    assert summary["algorithm_settings"]["beta"] == "0.5"
    assert (summary["engine"], summary["workers"], summary["steps"]) == ("c10d", WORKERS, STEPS)


def test_the_report_puts_the_workers_together(results, folder):
    run = read_run(folder / "rule")
    losses = [told["losses"] for told in results["a_rule"]]
    assert run.steps.loss.tolist() == pytest.approx([statistics.mean(pair) for pair in zip(*losses, strict=True)])
    assert [evaluation.step for evaluation in run.evaluations] == [4, 8, 12]
    trace = read_trace(folder / "rule")
    assert trace.workers == WORKERS
    assert trace.steps == STEPS
    # Each has its own clock, and yet they train at the same time: every step ends with what both have sent.
    for step in range(STEPS):
        begins, ends = zip(*((begin[step], end[step]) for begin, end in trace.gradients), strict=True)
        if step:
            assert max(begins) < min(ends) + 0.5


def test_the_page_shows_what_was_recorded(results, folder):
    page = flockstep.write_report(folder / "rule")
    assert page == folder / "rule" / "report.html"
    shown = page_of(folder / "rule")
    assert "adacons on PyTorch: accuracy 1.1" in shown.text
    assert "2 workers on c10d, 12 steps" in shown.text
    for title in ("Training loss", "gradient counts", "Timeline"):
        assert any(title in picture for picture in shown.pictures)


def test_a_training_that_tells_nothing_has_a_page_too(results, folder):
    flockstep.write_report(folder / "averager")
    shown = page_of(folder / "averager")
    assert "wagma on PyTorch" in shown.text
    assert not any(words in shown.text for words in ("diverged", "has not ended"))
    assert not any("Training loss" in picture for picture in shown.pictures)


def test_the_command_draws_it_too(results, folder):
    done = subprocess.run(
        [COMMAND, "report", folder / "rule", "--text"], capture_output=True, text=True, timeout=HANG_S
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("adacons on PyTorch: accuracy 1.1")


def test_a_folder_without_a_run_gets_one_sentence(tmp_path):
    with pytest.raises(flockstep.BadInputError, match="holds neither a comparison"):
        flockstep.write_report(tmp_path)
    (tmp_path / "metrics.jsonl").write_text("{}\n")
    with pytest.raises(flockstep.BadFileError, match="is damaged"):
        flockstep.write_report(tmp_path)


@pytest.mark.parametrize(
    "case",
    ["two_in_one_folder", "rank_0_logs_what_the_compiled_half_says", "every_rank_is_heard_without_the_filter"],
)
def test_on_every_rank(results, case):
    assert results[case]


def test_tensorboard_reads_what_was_written(results, folder):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    losses = events.Scalars("flockstep/loss")
    assert [event.step for event in losses] == list(range(1, STEPS + 1))
    assert [event.value for event in losses] == pytest.approx(results["a_rule"][0]["losses"], rel=1e-6)
    assert "flockstep/norm/1" in events.Tags()["scalars"]
    assert len(list((folder / "tensorboard").iterdir())) == 1, "rank 0 writes"
