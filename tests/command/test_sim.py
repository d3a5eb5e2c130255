"""Virtual time: deterministic to the byte, and hundreds of workers on a laptop."""

import json

import pytest
from conftest import run, run_json


def test_the_same_seed_gives_the_same_files_byte_for_byte(needs, tmp_path):
    needs("sim")
    for folder in ("first", "second"):
        run_json(
            *["train", "--engine", "sim", "--workers", 5, "--steps", 30, "--algorithm", "local_sgd"],
            *["--straggler", "2x320ms", "--jitter", "lognormal:0.3", "--out", tmp_path / folder],
        )
    for name in ("metrics.jsonl", "trace.json", "summary.json"):
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes(), name


def test_stragglers_that_draw_for_themselves_are_the_same_on_every_engine(needs):
    needs("sim")
    call = ["train", "--workers", 4, "--steps", 60, "--compute-ms", 10, "--straggler", "independent:2x320ms"]
    call += ["--evaluate-every", 60]
    simulated = run_json(*call, "--engine", "sim")
    stepped = run_json(*call, "--engine", "threads", "--deterministic")
    assert simulated["pace"] == stepped["pace"]
    assert simulated["pace"]["independent_stragglers"] is True
    late_steps = (simulated["time_s"] - 60 * 0.01) / 0.32  # everybody waits where somebody is late
    assert abs(late_steps - (stepped["time_s"] - 60 * 0.01) / 0.32) < 0.2
    assert 40 < late_steps < 59, "each of four is late in 7 of 16 steps, nobody in one of ten"


def test_256_workers_run(needs):
    needs("sim")
    result = run_json("train", "--engine", "sim", "--workers", 256, "--steps", 20)
    assert result["workers"] == 256
    assert result["replicas_equal"]


@pytest.mark.thorough
def test_1024_workers_that_average_in_groups_give_the_same_model_at_the_same_time_twice(needs):
    needs("sim")
    command = ["train", "--engine", "sim", "--workers", 1024, "--steps", 3, "--algorithm", "wagma"]
    first, second = (run_json(*command, "--compute-ms", 100, "--jitter", "lognormal:0.53") for _ in range(2))
    assert first["workers"] == 1024
    for name in ("model_hash", "time_s", "bytes_sent_per_step"):
        assert first[name] == second[name], name


def test_a_step_takes_its_compute_its_straggler_and_its_transfers(needs):
    needs("sim")
    plain = ["train", "--engine", "sim", "--workers", 4, "--steps", 10, "--compute-ms", 50]
    # 4 kB over 10 Gbit/s and a few latencies of 20 us: far below a millisecond.
    assert abs(run_json(*plain)["time_s"] - 0.5) < 0.005
    assert abs(run_json(*plain, "--straggler-fixed", "2:100ms")["time_s"] - 1.5) < 0.005
    # A model that pretends to be 10^5 times larger: per step 2 x 3/4 of 0.4 GB out of each worker at 1.25 GB/s.
    scaled = run_json(*plain, "--bytes-scale", 100000)["time_s"] / 10 - 0.05
    assert 0.95 * 0.48 < scaled < 1.6 * 0.48


def test_local_sgd_waits_less_for_stragglers_than_mean(needs):
    needs("sim")
    done = run(
        *["compare", "--engine", "sim", "--workers", 8, "--steps", 64, "--straggler", "2x320ms", "--json"],
        *["--algorithms", "mean,local_sgd", "--evaluate-every", 64],
    )
    rows = {row["algorithm"]: row for row in json.loads(done.stdout)["cases"][0]["rows"]}
    assert rows["local_sgd"]["samples_per_s"]["mean"] > 1.5 * rows["mean"]["samples_per_s"]["mean"]
    assert rows["local_sgd"]["wait_share"]["mean"] < rows["mean"]["wait_share"]["mean"]


def test_a_run_is_as_fast_as_its_slowest_worker_however_often_it_is_evaluated(needs):
    needs("sim")
    late = ["train", "--engine", "sim", "--workers", 4, "--compute-ms", 5, "--straggler-fixed", "3:45ms"]
    for algorithm in ("mean", "adpsgd", "swarm", "flock"):
        for every in (60, 20, 3):
            result = run_json(*late, "--steps", 60, "--algorithm", algorithm, "--evaluate-every", every)
            assert abs(result["time_s"] - 60 * 0.05) < 0.03, (algorithm, every)
            samples = 60 * 2 * result["batch"]  # two micro-batches a step
            assert abs(result["samples_per_s"] * result["time_s"] / samples - 1) < 1e-6, (algorithm, every)
            assert abs(result["wait_share"] - 0.675) < 0.01, (algorithm, every)


def test_what_agents_send_does_not_depend_on_evaluations(needs):
    needs("sim")
    swarm = ["train", "--engine", "sim", "--workers", 4, "--compute-ms", 5, "--steps", 40, "--algorithm", "swarm"]
    sent = [run_json(*swarm, "--evaluate-every", every)["bytes_sent_per_step"] for every in (40, 4)]
    assert 0.5 < sent[1] / sent[0] < 2


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        (["--platform", "aries"], 'platform "a star of 10 Gbit/s and 10 us", which one with "aries"'),
        (
            ["--latency-us", 7],
            'platform "a star of 10 Gbit/s and 10 us", which one with "a star of 10 Gbit/s and 7 us"',
        ),
        (["--bandwidth-gbps", 7], 'which one with "a star of 7 Gbit/s and 10 us"'),
        (["--bytes-scale", 7], "bytes_scale 1.0, which one with 7.0"),
        (["--memory-gbytes-s", 7], "memory_gbytes_s 0.0, which one with 7.0"),
    ],
)
def test_a_run_goes_on_only_on_the_machine_that_it_began_on(needs, tmp_path, other, sentence):
    needs("sim")
    begun = ["train", "--engine", "sim", "--workers", 2, "--checkpoint-every", 2, "--out", tmp_path]
    run_json(*begun, "--steps", 2)
    refused = run(*begun, "--steps", 4, "--resume", *other)
    assert refused.returncode == 2
    assert f"{sentence} cannot continue: start it like the first" in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert run_json(*begun, "--steps", 4, "--resume")["steps"] == 4
    on_threads = [each if each != "sim" else "threads" for each in begun]
    assert run_json(*on_threads, "--steps", 6, "--resume")["steps"] == 6
