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
from flockstep.bench.exchange_row import sizes
from flockstep.bench.harness import Spread
from flockstep.bench.launch import share_gpu
from flockstep.bench.networks import WORKLOADS
from launching import run_program, run_real_torchrun

pytestmark = pytest.mark.thorough


def bench(*arguments, **keywords):
    return run_program([sys.executable, "-m", "flockstep.bench", *arguments], **keywords)


def test_adacons_ends_with_the_ratio_of_its_target():
    done = bench("adacons", "--workers", 2, "--floats", 100_003, "--rounds", 3)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(
        "2 workers on c10d over Gloo, 100003 floats; medians and quartiles of the slowest worker\n"
    )
    assert re.fullmatch(r"A3 .*: \d+\.\d{3}, at most 0\.80: (holds|does not hold)", done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def rows():
    hooks = "adacons,powerSGD"
    done = bench("ddp", "--workers", 2, "--model", "tiny", "--hooks", hooks, "--rounds", 3, "--json")
    assert done.returncode == 0, done.stderr
    return {row["measure"]: row for row in json.loads(done.stdout)}


def test_ddp_tells_a_target_for_adacons(rows):
    row = rows["a step of tiny, adacons / plain DDP"]
    assert row["id"] == "A4"
    assert row["holds"] == (row["figure"] <= row["bar"])
    assert row["lower"] <= row["figure"] <= row["upper"]


def test_ddp_tells_the_time_that_communication_is_exposed(rows):
    for row in rows.values():
        assert row["step_s"] > 0
        assert row["alone_s"] > 0
        assert row["exposed_s"] < row["step_s"]


def test_a_row_that_outlasts_its_limit_says_so():
    done = bench("ddp", "--workers", 2, "--model", "gpt", "--hooks", "fp16_compress", "--rounds", 1000, "--limit", 1)
    assert done.returncode == 0, done.stderr
    assert "fp16_compress  failed: it was not done after 1 s" in done.stdout


def test_fsdp_ends_with_the_ratios_of_its_target():
    done = bench("fsdp", "--workers", 2, "--model", "tiny", "--rounds", 2)
    assert done.returncode == 0, done.stdout + done.stderr
    first, *_, adacons, consensus = done.stdout.splitlines()
    assert first == "tiny, 2 workers over Gloo; medians and quartiles of the slowest worker"
    for rule, line in (("adacons", adacons), ("direction_consensus", consensus)):
        told = rf"A10 a step of tiny, {rule} / FSDP2 alone, P = 2: .*, at most 1\.02: (holds|does not hold)"
        assert re.fullmatch(told, line)
    assert re.search(r"^mean +\d", done.stdout, re.MULTILINE)


def test_fsdp_tells_why_it_failed():
    done = bench("fsdp", "--workers", 2, "--rounds", 1000, "--limit", 1)
    assert done.returncode == 1
    assert done.stdout == "failed: it was not done after 1 s\n"


@pytest.mark.parametrize(("rule", "factor"), [("mean", 1.0001), ("adacons", 2.0), ("direction_consensus", -1.0)])
def test_fsdp_times_no_rule_whose_gradient_is_wrong(monkeypatch, rule, factor):
    monkeypatch.setattr(fsdp_row.dist, "all_reduce", lambda total: None)  # of one worker
    gradient = torch.ones(10, dtype=torch.float64)
    fsdp_row.check(rule, gradient, gradient)
    with pytest.raises(ArithmeticError, match=f"the first gradient of {rule} is"):
        fsdp_row.check(rule, factor * gradient, gradient)


@pytest.fixture(scope="module")
def with_averager():
    done = bench("averager", "--workers", 2, "--model", "tiny", "--rounds", 2, "--steps", 4, "--late", 20, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return {row["id"]: row for row in json.loads(done.stdout)}


def test_averager_tells_what_a_step_costs_beside_none_and_with_a_late_worker(with_averager):
    for id, key in (("G6", "overlap_over_alone"), ("G7", "overlap_late_over_none")):
        row = with_averager[id]
        assert row["figure"] == with_averager[key]["figure"]
        assert row["holds"] == (row["figure"] <= row["bar"])
        assert row["lower"] <= row["figure"] <= row["upper"]
    assert "G8" not in with_averager  # without a GPU
    assert all(with_averager[f"{name}_s"]["figure"] > 0 for name in ("alone", "flock", "overlap", "flock, late"))


def test_averager_on_a_gpu_has_targets_of_time_and_memory():
    keys = ["overlap_over_alone", "overlap_late_over_none", "overlap_peak_models"]
    figures = averager.Figures("resnet50", 4, 20, 300, {key: Spread(1.01, 1.0, 1.02) for key in keys})
    assert [(target.id, target.bar) for target in figures.targets()] == [("G6", 1.05), ("G7", 1.03), ("G8", 1.0)]


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
@pytest.mark.parametrize("name", ["adacons", "ddp", "fsdp", "averager"])
def test_without_a_gpu_cuda_gets_one_sentence(capsys, name):
    assert main([name, "--device", "cuda"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == "--device cuda needs an NVIDIA GPU that torch can use, and there is none: take --device cpu\n"


def test_contenders_in_processes_of_their_own_end_with_ratios_at_the_best_settings():
    done = run_real_torchrun(Path(__file__).with_name("exchange_program.py"), 2)
    assert done.returncode == 0, done.stdout + done.stderr
    first, *_, g1, g2 = done.stdout.splitlines()
    assert first == "2 workers over Gloo, 400003 floats; medians and quartiles of the slowest worker"
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


def row_on_gpu(transfer, contender="adacons"):
    keys = ["step_s", "over_plain", "medians_over_plain", "host_s", "plain_host_s", "host_longer_s"]
    figures = {key: Spread(0.002, 0.002, 0.002) for key in keys}
    for key in ("memory_over_gradient", "peak_over_gradient", "outside_torch_bytes", "gradient_bytes"):
        figures[key] = Spread(1.5, 1.5, 1.5)
    return ddp.Row("gpt124m", contender, figures, "", transfer, "cuda")


@pytest.mark.parametrize(
    ("transfer", "contender", "ids"),
    [
        ("exact", "adacons", [("G3", 1.10), ("G4", 1.0), ("G5", 1.0)]),
        ("sketch", "adacons", [("G3", 1.02), ("G4", 1.0)]),
        ("sketch", "direction_consensus", [("A4g", 1.02), ("G4", 1.0)]),
    ],
)
def test_a_row_on_a_gpu_has_targets_of_time_host_and_memory(transfer, contender, ids):
    row = row_on_gpu(transfer, contender)
    assert [(target.id, target.bar) for target in [row.target, *row.costs]] == ids
    assert row.costs[0].spread.median == 2.0  # in milliseconds


def test_parameters_of_the_exchange_are_as_long_as_the_gradient():
    assert sum(sizes(25_600_000)) == 25_600_000
    assert list(sizes(10_000)) == [9408, 64, 64, 464]


def test_the_large_gpt_has_more_than_100_million_parameters():
    with torch.device("meta"):
        network = WORKLOADS["gpt124m"].network()
    assert sum(parameter.numel() for parameter in network.parameters()) == 124_046_592
    assert WORKLOADS["gpt124m"].autocast == torch.bfloat16


@pytest.mark.parametrize(("gpus", "device", "settings"), [(1, 0, True), (2, 1, True), (4, 3, False)])
def test_ranks_share_gpus_only_where_there_are_too_few(monkeypatch, gpus, device, settings):
    """The settings of NCCL are made for the former alone."""
    for name in ("NCCL_HOSTID", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_SOCKET_IFNAME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"RANK": "3", "LOCAL_RANK": "3", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "4"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    with monkeypatch.context():
        assert share_gpu() == torch.device("cuda", device)
        found = {name for name in os.environ if name.startswith("NCCL_")}
    for name in found:
        monkeypatch.delenv(name)
    assert bool(found) == settings
