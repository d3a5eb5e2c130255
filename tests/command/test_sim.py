"""Virtual time: what a step takes, and how many workers there may be."""

import pytest
from conftest import run_json

SIM = ["train", "--engine", "sim", "--workers", 4]


def test_stragglers_that_draw_for_themselves_are_the_same_on_every_engine():
    call = ["train", "--workers", 4, "--steps", 60, "--compute-ms", 10, "--straggler", "independent:2x320ms"]
    simulated, stepped = (
        run_json(*call, "--evaluate-every", 60, "--engine", *engine)
        for engine in (["sim"], ["threads", "--deterministic"])
    )
    assert simulated["pace"] == stepped["pace"]
    assert simulated["pace"]["independent_stragglers"] is True
    late_steps = (simulated["time_s"] - 60 * 0.01) / 0.32  # all workers wait where one is late
    assert abs(late_steps - (stepped["time_s"] - 60 * 0.01) / 0.32) < 0.2
    assert 40 < late_steps < 59, "each of four is late in 7 of 16 steps, none in one of ten"


def test_256_workers_run():
    result = run_json(*SIM, "--workers", 256, "--steps", 20)
    assert result["workers"] == 256
    assert result["replicas_equal"]


def test_a_step_takes_its_compute_its_straggler_and_its_transfers():
    plain = [*SIM, "--steps", 10, "--compute-ms", 50]
    # 4 kB over 10 Gbit/s and a few latencies of 20 us: far below a millisecond.
    assert abs(run_json(*plain)["time_s"] - 0.5) < 0.005
    assert abs(run_json(*plain, "--straggler-fixed", "2:100ms")["time_s"] - 1.5) < 0.005
    # A model that pretends to be 10^5 times larger: per step 2 x 3/4 of 0.4 GB out of each worker at 1.25 GB/s.
    scaled = run_json(*plain, "--bytes-scale", 100000)["time_s"] / 10 - 0.05
    assert 0.95 * 0.48 < scaled < 1.6 * 0.48


@pytest.mark.parametrize("algorithm", ["mean", "adpsgd", "swarm", "flock"])
def test_a_run_is_as_fast_as_its_slowest_worker_however_often_it_is_evaluated(algorithm):
    late = [*SIM, "--compute-ms", 5, "--straggler-fixed", "3:45ms", "--steps", 60, "--algorithm", algorithm]
    for every in (60, 20, 3):
        result = run_json(*late, "--evaluate-every", every)
        assert abs(result["time_s"] - 60 * 0.05) < 0.03, every
        samples = 60 * 2 * result["batch"]  # two micro-batches a step
        assert abs(result["samples_per_s"] * result["time_s"] / samples - 1) < 1e-6, every
        assert abs(result["wait_share"] - 0.675) < 0.01, every


def test_with_a_delay_transfers_of_diloco_pass_under_local_steps():
    """40 MB over 10 Gbit/s, there and back: about five steps of 10 ms that all workers would wait."""
    train = [*SIM, "--compute-ms", 10, "--steps", 64, "--evaluate-every", 64, "--bytes-scale", 10000]
    train += ["--algorithm", "diloco", "--diloco.period", 16]
    waiting = [run_json(*train, "--diloco.delay", delay)["wait_share"] for delay in (0, 1, 4, 8)]
    assert waiting == sorted(waiting, reverse=True)
    assert waiting[0] > 0.15
    assert waiting[-1] < 0.01
