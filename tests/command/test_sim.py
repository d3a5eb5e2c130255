"""Virtual time: deterministic to the byte, and hundreds of workers on a laptop."""

import json

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


def test_256_workers_run(needs):
    needs("sim")
    result = run_json("train", "--engine", "sim", "--workers", 256, "--steps", 20)
    assert result["workers"] == 256
    assert result["replicas_equal"]


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
    done = run("compare", "--engine", "sim", "--workers", 8, "--steps", 64, "--straggler", "2x320ms", "--json")
    rows = {row["algorithm"]: row for row in json.loads(done.stdout)["cases"][0]["rows"]}
    assert rows["local_sgd"]["samples_per_s"]["mean"] > 1.5 * rows["mean"]["samples_per_s"]["mean"]
    assert rows["local_sgd"]["wait_share"]["mean"] < rows["mean"]["wait_share"]["mean"]
