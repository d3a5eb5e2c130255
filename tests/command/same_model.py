"""Runs that have to end with the same bits: on all engines, and after a resume."""

from conftest import run_json


def expect_the_same_model(*train, workers=3):
    """Trains on every engine, and on free threads beside a late worker."""
    here = ["--workers", workers, "--engine"]
    results = [
        run_json(*train, *here, "threads"),
        run_json(*train, *here, "threads", "--straggler", "1x2ms"),
        run_json(*train, *here, "threads", "--deterministic"),
        run_json(*train, *here, "sim"),
        run_json(*train, workers=workers),
    ]
    assert (results[-1]["engine"], results[-1]["workers"]) == ("mpi", workers)
    assert len({(result["model_hash"], result["quality"]) for result in results}) == 1
    assert all(result["replicas_equal"] for result in results)


def expect_a_resume_to_change_nothing(folder, *train, first, steps):
    """A run that ends after the step `first` and goes on ends as one of all steps."""
    whole = run_json(*train, "--steps", steps, "--out", folder / "whole")
    run_json(*train, "--steps", first, "--out", folder / "parts")
    resumed = run_json(*train, "--steps", steps, "--out", folder / "parts", "--resume")
    assert resumed["steps"] == steps
    assert resumed["replicas_equal"]
    assert resumed["model_hash"] == whole["model_hash"]
