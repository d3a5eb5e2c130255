"""An outer optimizer over local steps, through the command: the same bits everywhere, checkpoints, bytes, and words."""

import json

import pytest
from conftest import run, run_json
from layers import only

TRAIN = ["train", "--algorithm", "diloco", "--steps", 40, "--linear.dimension", 1203, "--bucket-kib", 1]
VARIANTS = {
    "plain": {"period": 8},
    "int8": {"period": 8, "wire": "int8", "rule": "direction_consensus"},
    "streaming": {"period": 9, "fragments": 3, "delay": 2, "alpha": 0.5, "wire": "bfloat16"},
}


def options(variant):
    return [word for name, value in VARIANTS[variant].items() for word in (f"--diloco.{name}", value)]


@pytest.mark.parametrize("variant", only(next(iter(VARIANTS)), of=VARIANTS))
def test_every_engine_gives_the_same_model(needs, variant):
    needs("mpi", "sim")
    train, here = [*TRAIN, *options(variant)], ["--workers", 3]
    results = [
        run_json(*train, *here, "--engine", "threads"),
        run_json(*train, *here, "--engine", "threads", "--straggler", "1x2ms"),
        run_json(*train, *here, "--engine", "threads", "--deterministic"),
        run_json(*train, *here, "--engine", "sim"),
        run_json(*train, workers=3),
    ]
    assert len({result["model_hash"] for result in results}) == 1
    assert len({result["quality"] for result in results}) == 1
    assert all(result["replicas_equal"] for result in results)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_resumed_run_ends_on_the_bits_of_one_that_was_never_interrupted(tmp_path, variant):
    train = [*TRAIN, *options(variant), "--workers", 3, "--checkpoint-every", 5]
    whole = run_json(*train, "--out", tmp_path / "whole")
    shorter = [20 if word == 40 else word for word in train]
    run_json(*shorter, "--out", tmp_path / "run")
    resumed = run_json(*train, "--out", tmp_path / "run", "--resume")
    assert resumed["model_hash"] == whole["model_hash"]


def test_with_int8_a_half_percent_of_what_mean_sends_is_sent():
    train = ["train", "--linear.dimension", 100000, "--workers", 4, "--batch", 4]
    mean = run_json(*train, "--algorithm", "mean", "--steps", 2)
    diloco = run_json(*train, "--algorithm", "diloco", "--diloco.wire", "int8", "--steps", 128)
    assert 0.0039 < diloco["bytes_sent_per_step"] / mean["bytes_sent_per_step"] <= 0.005


def test_with_a_delay_transfers_pass_under_local_steps(needs):
    """40 MB over 10 Gbit/s, there and back: about five steps of 10 ms that everybody would wait."""
    needs("sim")
    train = ["train", "--engine", "sim", "--workers", 4, "--compute-ms", 10, "--steps", 64, "--evaluate-every", 64]
    train += ["--bytes-scale", 10000, "--algorithm", "diloco", "--diloco.period", 16]
    waiting = [run_json(*train, "--diloco.delay", delay)["wait_share"] for delay in (0, 1, 4, 8)]
    assert waiting == sorted(waiting, reverse=True)
    assert waiting[0] > 0.15
    assert waiting[-1] < 0.01


def test_compare_takes_variants_of_it():
    done = run(
        *["compare", "--algorithms", "mean,diloco:period=8,diloco:period=8:rate=1:momentum=0,local_sgd:period=8"],
        *["--workers", 3, "--steps", 32, "--evaluate-every", 32, "--json"],
    )
    rows = json.loads(done.stdout)["cases"][0]["rows"]
    quality = [row["quality"]["mean"] for row in rows]
    assert quality[2] == quality[3]
    assert len(set(quality)) == 3


def test_the_list_of_algorithms_has_it():
    listed = run("algorithms").stdout
    assert "diloco" in listed
