"""What tests of tasks ask of all engines."""

from conftest import run_json


def expect_one_model_on_every_engine(*train):
    """Three workers end on the same bits on threads, late or scheduled, in virtual time and under mpirun."""
    here = ["--workers", 3, "--engine"]
    results = [
        run_json(*train, *here, "threads"),
        run_json(*train, *here, "threads", "--straggler", "1x5ms"),
        run_json(*train, *here, "threads", "--deterministic"),
        run_json(*train, *here, "sim"),
        run_json(*train, workers=3),
    ]
    assert len({result["model_hash"] for result in results}) == 1
    assert len({result["quality"] for result in results}) == 1
    assert all(result["replicas_equal"] for result in results)
