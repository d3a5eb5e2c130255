"""`python -m flockstep.bench` at tiny sizes: figures are left to docs/benchmarks.md."""

import json
import os
import re
import sys
from pathlib import Path

import pytest
import torch
from flockstep.bench import averager, ddp, exchange, fsdp_row
from flockstep.bench.__main__ import main
from flockstep.bench.harness import Spread
from flockstep.bench.launch import share_gpu
from launching import run_program, run_real_torchrun

pytestmark = pytest.mark.thorough


def bench(*arguments, **keywords):
    return run_program([sys.executable, "-m", "flockstep.bench", *arguments], **keywords)


def ends_well(*arguments):
    """What a bench prints that measures 2 workers."""
    done = bench(*arguments, "--workers", 2)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rows_of(*arguments, key):
    return {row[key]: row for row in json.loads(ends_well(*arguments, "--json"))}


def assert_a_verdict(row):
    assert row["holds"] == (row["figure"] <= row["bar"])
    assert row["lower"] <= row["figure"] <= row["upper"]


@pytest.mark.parametrize(
    ("arguments", "targets"),
    [
        (["adacons", "--floats", 100_003, "--rounds", 3], [r"A3 .*: \d+\.\d{3}, at most 0\.80"]),
        (
            ["fsdp", "--model", "tiny", "--rounds", 2],
            [
                r"A10 a step of tiny, adacons / FSDP2 alone, P = 2: .*, at most 1\.02",
                r"A10 a step of tiny, direction_consensus / FSDP2 alone, P = 2: .*, at most 1\.02",
            ],
        ),
    ],
    ids=["adacons", "fsdp"],
)
def test_a_bench_ends_with_the_ratios_of_its_targets(arguments, targets):
    lines = ends_well(*arguments).splitlines()
    assert re.search(r"2 workers .*; medians and quartiles of the slowest worker", lines[0])
    for line, target in zip(lines[-len(targets) :], targets, strict=True):
        assert re.fullmatch(f"{target}: (holds|does not hold)", line)


def test_ddp_tells_a_target_for_adacons_and_the_time_that_communication_is_exposed():
    rows = rows_of("ddp", "--model", "tiny", "--hooks", "adacons,powerSGD", "--rounds", 3, key="measure")
    row = rows["a step of tiny, adacons / plain DDP"]
    assert row["id"] == "A4"
    assert_a_verdict(row)
    for row in rows.values():
        assert row["alone_s"] > 0
        assert row["exposed_s"] < row["step_s"]


def test_a_row_that_outlasts_its_limit_says_so():
    hooks = ["--model", "gpt", "--hooks", "fp16_compress", "--rounds", 1000, "--limit", 1]
    assert "fp16_compress  failed: it was not done after 1 s" in ends_well("ddp", *hooks)
    done = bench("fsdp", "--workers", 2, "--rounds", 1000, "--limit", 1)
    assert (done.returncode, done.stdout) == (1, "failed: it was not done after 1 s\n")


@pytest.mark.parametrize(("rule", "factor"), [("mean", 1.0001), ("adacons", 2.0), ("direction_consensus", -1.0)])
def test_fsdp_times_no_rule_whose_gradient_is_wrong(monkeypatch, rule, factor):
    monkeypatch.setattr(fsdp_row.dist, "all_reduce", lambda total: None)  # of one worker
    gradient = torch.ones(10, dtype=torch.float64)
    fsdp_row.check(rule, gradient, gradient)
    with pytest.raises(ArithmeticError, match=f"the first gradient of {rule} is"):
        fsdp_row.check(rule, factor * gradient, gradient)


def test_averager_tells_what_a_step_costs_beside_none_and_with_a_late_worker():
    arguments = ["averager", "--model", "tiny", "--rounds", 2, "--steps", 4, "--late", 20]
    rows = rows_of(*arguments, key="id")
    for id, key in (("G6", "overlap_over_alone"), ("G7", "overlap_late_over_none")):
        assert rows[id]["figure"] == rows[key]["figure"]
        assert_a_verdict(rows[id])
    assert "G8" not in rows  # without a GPU
    assert all(rows[f"{name}_s"]["figure"] > 0 for name in ("alone", "flock", "overlap", "flock, late"))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["ddp", "--model", "vgg"], "'vgg' is none of resnet50, gpt, gpt124m, tiny"),
        (["fsdp", "--rules", "median"], "'median' is none of adacons, direction_consensus, mean"),
        (["adacons", "--contenders", "nccl"], "'nccl' is none of adacons, all_reduce, two_all_reduces, ddp"),
        (["ddp", "--device", "tpu"], "invalid choice: 'tpu'"),
        (["adacons", "--workers", "1"], "'1' is not a whole number of at least 2"),
    ],
)
def test_a_wrong_call_gets_one_sentence(capsys, arguments, sentence):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_cuda_gets_one_sentence(capsys):
    for name in ("adacons", "ddp", "fsdp", "averager"):
        assert main([name, "--device", "cuda"]) == 2
        sentence = "--device cuda needs an NVIDIA GPU that torch can use, and there is none: take --device cpu\n"
        assert capsys.readouterr() == ("", sentence)


def test_contenders_in_processes_of_their_own_end_with_ratios_at_the_best_settings():
    done = run_real_torchrun(Path(__file__).with_name("exchange_program.py"), 2)
    assert done.returncode == 0, done.stdout + done.stderr
    *_, g1, g2 = done.stdout.splitlines()
    assert re.fullmatch(r"G1 adacons \(.*\) / dist.all_reduce \(.*\), P = 2: .*, at most 0\.90: .*hold.*", g1)
    assert re.fullmatch(r"G2 adacons \(.*\) / two all-reduces \(.*\), P = 2: .*, at most 0\.45: .*hold.*", g2)
    assert done.stdout.count("4x4-sockets") >= len(exchange.CONTENDERS)


def test_the_ratio_that_counts_is_that_of_the_best_settings():
    measured = [
        exchange.Measured("adacons", "defaults", [1.0, 1.0]),
        exchange.Measured("adacons", "4x4-sockets", [0.8, 0.8]),
        exchange.Measured("all_reduce", "defaults", [1.0, 1.0]),
        exchange.Measured("all_reduce", "4x4-sockets", [2.0, 2.0]),
        exchange.Measured("two_all_reduces", "defaults", [], "it was not done after 1 s"),
    ]
    (target,) = exchange.targets(measured, 2)
    assert target.line() == (
        "G1 adacons (4x4-sockets) / dist.all_reduce (defaults), P = 2: 0.800 (95%: 0.800 to 0.800), at most 0.90: holds"
    )


@pytest.mark.parametrize(
    ("transfer", "contender", "ids"),
    [
        ("exact", "adacons", [("G3", 1.10), ("G4", 1.0), ("G5", 1.0)]),
        ("sketch", "adacons", [("G3", 1.02), ("G4", 1.0)]),
        ("sketch", "direction_consensus", [("A4g", 1.02), ("G4", 1.0)]),
    ],
)
def test_a_row_on_a_gpu_has_targets_of_time_host_and_memory(transfer, contender, ids):
    seconds = ["step_s", "over_plain", "medians_over_plain", "host_s", "plain_host_s", "host_longer_s"]
    of_memory = ["memory_over_gradient", "peak_over_gradient", "outside_torch_bytes", "gradient_bytes"]
    figures = {key: Spread(0.002, 0.002, 0.002) for key in seconds} | {key: Spread(1.5, 1.5, 1.5) for key in of_memory}
    row = ddp.Row("gpt124m", contender, figures, "", transfer, "cuda")
    assert [(target.id, target.bar) for target in [row.target, *row.costs]] == ids
    assert row.costs[0].spread.median == 2.0  # in milliseconds


def test_the_averager_on_a_gpu_has_targets_of_time_and_memory():
    keys = ["overlap_over_alone", "overlap_late_over_none", "overlap_peak_models"]
    figures = averager.Figures("resnet50", 4, 20, 300, {key: Spread(1.01, 1.0, 1.02) for key in keys})
    assert [(target.id, target.bar) for target in figures.targets()] == [("G6", 1.05), ("G7", 1.03), ("G8", 1.0)]


@pytest.mark.parametrize(("gpus", "device", "settings"), [(1, 0, True), (2, 1, True), (4, 3, False)])
def test_ranks_share_gpus_only_where_there_are_too_few(monkeypatch, gpus, device, settings):
    """The settings of NCCL are made for the former alone."""
    place = {"RANK": "3", "LOCAL_RANK": "3", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "4"}
    monkeypatch.setattr(os, "environ", place)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    assert share_gpu() == torch.device("cuda", device)
    assert any(name.startswith("NCCL_") for name in place) == settings
