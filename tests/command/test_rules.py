"""Gradient rules from the command: their options, what they tell about the workers, and resuming with other workers."""

import json

import pytest
from conftest import run, run_json
from live_run import lines_of, steps_of

RULES = ["mean", "weighted_mean", "normalized_mean", "adacons", "adasum", "direction_consensus", "geometric_median"]


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_trains_with_every_common_option(rule):
    plain = run_json("train", "--algorithm", rule, "--steps", 30)
    assert plain["replicas_equal"]
    options = {"magnitude": "median_norm", "granularity": "bucket", "non_finite": "exclude", "watch": "always"}
    given = [f"--{rule}.{name}={value}" for name, value in options.items()]
    other = run_json("train", "--algorithm", rule, "--steps", 30, "--bucket-kib", 1, *given)
    assert other["replicas_equal"]
    assert other["algorithm_settings"] == options
    assert other["findings"] == []


def test_metrics_tell_coefficients_norms_agreement_and_cosines(tmp_path):
    out = tmp_path / "run"
    run_json("train", "--algorithm", "adacons", "--workers", 3, "--steps", 40, "--out", out)
    steps = lines_of(out, "step")
    assert len(steps) == 40
    for line in steps:
        assert len(line["coefficients"]) == len(line["norms"]) == len(line["agreement"]) == 3
        assert all(-1 <= value <= 1 for value in line["agreement"])
        # Coefficients of directions add up to one.
        assert sum(c * n for c, n in zip(line["coefficients"], line["norms"], strict=True)) == pytest.approx(
            1, abs=1e-4
        )
    matrices = lines_of(out, "cosines")
    assert sum(line["steps"] for line in matrices) == 40
    for line in matrices:
        for i in range(3):
            assert line["matrix"][i][i] == pytest.approx(1, abs=1e-5)
            assert line["matrix"][i] == [row[i] for row in line["matrix"]]
    evaluations = lines_of(out, "evaluation")
    guards = ("skipped_steps", "non_finite", "all_zero", "unsafe", "clipped")
    assert evaluations[-1]["guards"] == dict.fromkeys(guards, 0)


def test_resuming_with_other_workers_re_samples_the_momentum_and_says_so(tmp_path):
    out = tmp_path / "run"
    kept = ["--algorithm", "adacons", "--batch", 48, "--checkpoint-every", 10, "--out", out]
    run_json("train", "--workers", 6, "--steps", 20, *kept)
    done = run("train", "--workers", 4, "--steps", 30, *kept, "--resume")
    assert done.returncode == 0, done.stderr
    said = "resumed after step 20 with 4 workers where there had been 6; the sorted momentum of 6 workers was re-sampled for 4"
    assert f"note: {said}" in done.stdout
    assert json.loads((out / "summary.json").read_text())["notes"] == [said]
    assert steps_of(out) == list(range(1, 31))
    assert [len(line["coefficients"]) for line in lines_of(out, "step")[19:21]] == [6, 4]


@pytest.mark.parametrize("rule", ["mean", "adacons", "direction_consensus"])
def test_a_broken_worker_is_found_whatever_the_rule(tmp_path, rule):
    """The tests of Watch in tests/math have the other ways to be broken."""
    train = ["train", "--task", "images", "--algorithm", rule, "--steps", 60, "--faulty", "2:scale:-5,3:nan:7"]
    result = run_json(*train, f"--{rule}.watch=always", f"--{rule}.magnitude=mean_norm", "--out", tmp_path)
    found = {
        "worker 3 sent numbers that are not finite in 1 step": [3],
        "worker 2 points against the others": [2],
    }
    lines = lines_of(tmp_path, "finding")
    for finding, line in zip(result["findings"], lines, strict=True):
        assert line["workers"] == finding["workers"]
        assert 1 <= line["first_step"] <= line["step"]
    for sentence, workers in found.items():
        (finding,) = [each for each in result["findings"] if each["sentence"].startswith(sentence)]
        assert finding["workers"] == workers


SKEWED = "--task images --images.shard skewed"
HEALTHY = [
    *(
        f"{task} --algorithm {rule}"
        for rule in ("adacons", "direction_consensus", "adasum")
        for task in ("--task images", SKEWED, "--task linear", "--task linear --batch 8")
    ),
    *(
        f"{SKEWED} --workers {workers} --algorithm {rule} --{rule}.watch=always {more}"
        for workers in (2, 3, 8, 16)
        for rule in ("mean", "direction_consensus")
        for more in ("", "--images.hidden 2", f"--batch {2 * workers}")
    ),
]


@pytest.mark.thorough
@pytest.mark.parametrize("options", HEALTHY)
def test_healthy_workers_are_left_in_peace(options):
    """Also those that see their own classes alone."""
    assert run_json("train", "--steps", 300, *options.split())["findings"] == []


def test_findings_outlive_a_resume(tmp_path):
    kept = ["--task", "images", "--algorithm", "adacons", "--faulty", "1:zeros", "--checkpoint-every", 10]
    first = run_json("train", *kept, "--steps", 40, "--out", tmp_path / "run")
    again = run_json("train", *kept, "--steps", 50, "--out", tmp_path / "run", "--resume")
    assert [finding["sentence"] for finding in again["findings"]] == [f["sentence"] for f in first["findings"]]


def test_guards_are_counted_and_shown(tmp_path):
    plain = ["train", "--task", "images", "--steps", 20, "--algorithm", "adacons", "--faulty", "2:nan:7"]
    result = run_json(*plain, "--out", tmp_path / "run")
    assert result["guards"] == {"skipped_steps": 4, "non_finite": 1, "all_zero": 0, "unsafe": 0, "clipped": 0}
    assert [line["step"] for line in lines_of(tmp_path / "run", "step") if line.get("event") == "non_finite"] == [7]
    assert "1 step with non-finite gradients" in run(*plain).stdout
    left_out = run_json(*plain, "--adacons.non_finite", "exclude")
    assert left_out["guards"]["skipped_steps"] == 0
    assert left_out["guards"]["non_finite"] == 1


def test_transfers_overlap_with_the_computation_of_the_gradient(tmp_path):
    out = tmp_path / "run"
    train = ["train", "--task", "images", "--algorithm", "adacons", "--steps", 5, "--compute-ms", 30]
    run_json(*train, "--bucket-kib", 16, "--out", out)
    spans = [event for event in json.loads((out / "trace.json").read_text())["traceEvents"] if event["ph"] == "X"]
    for worker in range(4):
        mine = [span for span in spans if span["pid"] == worker]
        backward = [span for span in mine if span["name"] == "gradient"]
        sent = [span for span in mine if span["name"] == "all_to_all" and span["dur"] > 0]
        inside = [
            transfer
            for transfer in sent
            for span in backward
            if span["ts"] < transfer["ts"] and transfer["ts"] + transfer["dur"] < span["ts"] + span["dur"]
        ]
        assert len(backward) == 5
        assert len(inside) > len(sent) / 2  # begun and over while later buckets were still being made
