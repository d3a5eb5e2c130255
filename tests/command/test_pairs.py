"""Averaging in pairs, through the command: on every engine, alone, and beside slow workers."""

import json

import pytest
from conftest import run, run_json

PAIRS = ["adpsgd", "swarm"]
# Three buckets, so that an average takes several transfers.
TRAIN = ["train", "--task", "linear", "--steps", "40", "--bucket-kib", "2"]


@pytest.mark.parametrize("algorithm", PAIRS)
@pytest.mark.parametrize("workers", [2, 3, 4])
def test_pairs_train_under_mpirun(needs, algorithm, workers):
    needs("mpi")
    result = run_json(*TRAIN, "--algorithm", algorithm, workers=workers)
    assert (result["engine"], result["workers"], result["steps"]) == ("mpi", workers, 40)
    assert result["replicas_equal"]
    assert result["bytes_sent_per_step"] > 0


@pytest.mark.parametrize("algorithm", PAIRS)
def test_a_lone_worker_takes_the_steps_of_plain_sgd(needs, algorithm):
    needs("mpi", "sim")
    alone = ["--algorithm", algorithm, "--workers", 1]
    hashes = {
        run_json(*TRAIN, "--algorithm", "mean", "--workers", 1)["model_hash"],
        run_json(*TRAIN, *alone, "--engine", "threads")["model_hash"],
        run_json(*TRAIN, *alone, "--engine", "self")["model_hash"],
        run_json(*TRAIN, *alone, "--engine", "sim")["model_hash"],
        run_json(*TRAIN, "--algorithm", algorithm, workers=1)["model_hash"],
    }
    assert len(hashes) == 1


def test_pairs_do_not_wait_for_stragglers(needs):
    needs("sim")
    done = run(
        *["compare", "--engine", "sim", "--workers", 8, "--steps", 64, "--straggler", "2x320ms", "--json"],
        *["--algorithms", "mean,adpsgd,swarm", "--evaluate-every", 64],
    )
    rows = {row["algorithm"]: row for row in json.loads(done.stdout)["cases"][0]["rows"]}
    for algorithm in PAIRS:
        assert rows[algorithm]["samples_per_s"]["mean"] > 2 * rows["mean"]["samples_per_s"]["mean"]
        # Once, at the end, for whoever was drawn most often.
        assert rows[algorithm]["wait_share"]["mean"] < 0.3 * rows["mean"]["wait_share"]["mean"]
