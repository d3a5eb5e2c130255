"""Runs for which time alone counts: a stand-in for the task, of any pretended size."""

import json

import pytest
from conftest import run, run_json

SIM = ["train", "--engine", "sim", "--workers", 4, "--steps", 10, "--no-gradients"]
RESNET = 25559081


def test_a_step_takes_its_compute_and_the_transfers_of_the_pretended_model():
    result = run_json(*SIM, "--pretend-parameters", RESNET, "--compute", "200ms", "--bandwidth-gbps", 100)
    # Each worker sends 3/4 of 102 MB twice at 12.5 GB/s, 12 ms, of which all-to-alls hide behind the compute.
    assert 0.2 + 0.006 < result["time_s"] / 10 < 0.2 + 0.03
    assert result["share_of_ideal"] == pytest.approx(2 / result["time_s"])
    assert result["bytes_sent_per_step"] == pytest.approx(2 * 0.75 * 4 * RESNET, rel=0.01)
    for name in ("metric", "quality", "evaluations", "train_loss", "validation"):
        assert name not in result


@pytest.mark.thorough
@pytest.mark.parametrize("algorithm", ["mean", "wagma", "adpsgd"])
def test_a_stand_in_takes_as_long_as_the_task(algorithm):
    """The same run with gradients on a network that is slow enough to matter. A round of wagma takes a model in chunks of
    half a million numbers, of which this one has eight, and the stand-in one: what overlaps differs a little."""
    run_of = [
        *["train", "--engine", "sim", "--workers", 4, "--steps", 6, "--batch", 4, "--algorithm", algorithm],
        *["--linear.dimension", 4000000, "--compute", "lognormal:50ms:0.3", "--bandwidth-gbps", 1],
    ]
    with_gradients = run_json(*run_of, "--evaluate-every", 6)
    without = run_json(*run_of, "--no-gradients")
    assert without["time_s"] == pytest.approx(with_gradients["time_s"], rel=0.05)
    assert without["samples_per_s"] == pytest.approx(with_gradients["samples_per_s"], rel=0.05)


@pytest.mark.parametrize(("workers", "reads"), [(12, 1), (60, 4)])
def test_a_sweep_of_all_pairs_takes_longer_than_a_read_beyond_15_workers(workers, reads):
    """Each worker sweeps 60 MB, which take 60 ms to read; mean only sums them, as direction_consensus does too."""
    mean, matrix = (
        run_json(
            *["train", "--engine", "sim", "--workers", workers, "--steps", 4, "--no-gradients", "--compute-ms", 1],
            *["--pretend-parameters", 15000000, "--bucket-kib", 65536, "--algorithm", algorithm],
            *["--memory-gbytes-s", 1, "--bandwidth-gbps", 100000, "--latency-us", 0.01],
        )["time_s"]
        / 4
        for algorithm in ("mean", "direction_consensus")
    )
    assert matrix - mean == pytest.approx(0.06 * reads, rel=0.03)


def test_figures_about_gradients_do_not_grow_with_the_pretended_model():
    """adacons sends two numbers per worker beside the gradients; that of all others is the same as of mean."""
    call = [*SIM, "--workers", 100, "--steps", 4, "--pretend-parameters", RESNET, "--bucket-kib", 200000]
    mean, adacons = (
        run_json(*call, "--memory-gbytes-s", 1e6, "--algorithm", algorithm) for algorithm in ("mean", "adacons")
    )
    assert adacons["bytes_sent_per_step"] == pytest.approx(mean["bytes_sent_per_step"], rel=1e-4)
    assert adacons["bytes_sent_per_step"] > mean["bytes_sent_per_step"]
    assert adacons["time_s"] == pytest.approx(mean["time_s"], rel=0.01)


@pytest.mark.thorough
def test_hundreds_of_workers_are_compared_by_time_alone(tmp_path):
    call = ["compare", "--engine", "sim", "--no-gradients", "--workers", "64,256", "--algorithms", "mean,adacons,wagma"]
    call += ["--steps", 8, "--pretend-parameters", RESNET, "--bucket-kib", 65536, "--out", tmp_path]
    call += ["--compute", "lognormal:200ms:0.5"]
    done = run(*call)
    assert done.returncode == 0, done.stderr
    assert "64 workers on sim" in done.stdout
    assert "batch 1024: time alone, without gradients" in done.stdout
    assert "of ideal" in done.stdout
    assert "wagma had the highest throughput" in done.stdout
    assert "loss" not in done.stdout
    saved = json.loads((tmp_path / "compare.json").read_text())
    assert "metric" not in saved
    assert saved["how"]["gradients"] is False
    for case in saved["cases"]:
        rows = {row["algorithm"]: row for row in case["rows"]}
        assert rows["wagma"]["share_of_ideal"]["mean"] > rows["mean"]["share_of_ideal"]["mean"]
        for row in case["rows"]:
            assert not {"quality", "curve", "validation", "target_time_s", "diverged"} & set(row)
    assert run(*call).stdout == done.stdout, "what is done is read back"
    page = (tmp_path / "report.html").read_text()
    assert "Time alone, without gradients." in page
    assert "of ideal" in page
    assert "Quality" not in page
    assert "of ideal" in run("report", tmp_path, "--text").stdout
    one = run("report", next(tmp_path.glob("runs/*/wagma-seed-1")), "--text")
    assert "of the throughput of workers who never wait" in one.stdout


def test_a_run_without_gradients_resumes(tmp_path):
    call = [*SIM, "--pretend-parameters", RESNET, "--checkpoint-every", 5, "--out"]
    whole = run_json(*call, tmp_path / "whole")
    run_json(*call, tmp_path / "run", "--steps", 5)
    resumed = run_json(*call, tmp_path / "run", "--resume")
    for name in ("time_s", "share_of_ideal"):
        assert resumed[name] == pytest.approx(whole[name], rel=1e-3)
