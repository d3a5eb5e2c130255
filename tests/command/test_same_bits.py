"""Synchronous means identical, on every engine and after a resume; and where time decides, the same seed gives the same time."""

import pytest
from conftest import run_json
from layers import only
from same_model import expect_a_resume_to_change_nothing, expect_the_same_model

GROUPS = ["wagma", "flock", "eager_solo", "eager_majority"]
PAIRS = ["adpsgd", "swarm"]
STEPS = ["--steps", "40", "--linear.dimension", "203", "--bucket-kib", "1"]
DILOCO = {
    "plain": "period=8",
    "int8": "period=8 wire=int8 rule=direction_consensus",
    "streaming": "period=9 fragments=3 delay=2 alpha=0.5 wire=bfloat16",
}


def diloco(variant):
    options = [f"--diloco.{option}" for option in DILOCO[variant].split()]
    return ["--algorithm", "diloco", *options, "--linear.dimension", 1203]


@pytest.mark.parametrize("algorithm", ["mean", "adacons", "direction_consensus", "local_sgd", "dpsgd", "sgp"])
@pytest.mark.parametrize("workers", only(3, of=[1, 3, 4]))
def test_every_engine_gives_the_same_model(algorithm, workers):
    expect_the_same_model("train", "--algorithm", algorithm, *STEPS, workers=workers)


@pytest.mark.parametrize("variant", only("plain", of=DILOCO))
def test_every_engine_gives_the_same_model_with_an_outer_optimizer(variant):
    expect_the_same_model("train", *STEPS, *diloco(variant))


def test_every_engine_gives_the_same_model_of_images_beside_a_noisy_worker():
    call = ["train", "--task", "images", "--steps", 10, "--bucket-kib", 64, "--batch", 50, "--faulty", "1:noise:2"]
    expect_the_same_model(*call, workers=4)


def waits_for_all(algorithm):
    """Every round is fresh, so that nothing depends on who came first; what a guard has heard would."""
    values = {"activation": "quorum", "quorum": 3, "guard": "off"}
    return ["--algorithm", algorithm, *(f"--{algorithm}.{name}={value}" for name, value in values.items())]


def overlapping(period):
    """Checkpoints lie within periods, before the first average, and where one is under way; virtual time is the same."""
    average = ["--local_sgd.overlap", "on", "--local_sgd.period", period, "--local_sgd.guard", "off"]
    simulated = ["--engine", "sim", "--compute-ms", 1, "--bandwidth-gbps", 0.001, "--evaluate-every", 20]
    return ["--algorithm", "local_sgd", *average, *simulated, "--linear.dimension", 1000]


RESUMED = {
    "adacons": ["--algorithm", "adacons"],
    "direction_consensus": ["--algorithm", "direction_consensus"],
    "wagma": waits_for_all("wagma"),
    "flock": waits_for_all("flock"),
    **{f"diloco, {variant}": diloco(variant) for variant in DILOCO},
    **{f"overlap, {period}": overlapping(period) for period in (1, 7, 100)},
}


@pytest.mark.parametrize("run", only(*(name for name in RESUMED if "overlap" not in name), of=RESUMED))
def test_a_resumed_run_ends_on_the_bits_of_one_that_was_never_interrupted(tmp_path, run):
    train = ["train", *STEPS, "--workers", 3, "--checkpoint-every", 10, *RESUMED[run]]
    expect_a_resume_to_change_nothing(tmp_path, *train, first=20, steps=40)


def test_another_seed_gives_another_model():
    first, second = (run_json("train", *STEPS, "--seed", seed) for seed in (1, 2))
    assert first["model_hash"] != second["model_hash"]


def test_averaging_learns():
    result = run_json("train", "--workers", 4)
    assert result["steps"] == 500
    assert result["quality"] < 200  # from 327 at the start; single runs spread widely below that


@pytest.mark.parametrize("algorithm", ["mean", "local_sgd", *GROUPS, *PAIRS])
@pytest.mark.parametrize("engine", [["sim"], ["threads", "--deterministic"]], ids=["sim", "threads"])
def test_the_same_seed_gives_the_same_files_byte_for_byte(tmp_path, algorithm, engine):
    for folder in ("first", "second"):
        run_json(
            *["train", *STEPS, "--algorithm", algorithm, "--workers", 5, "--compute-ms", 10, "--engine", *engine],
            *["--straggler", "2x32ms", "--jitter", "lognormal:0.3", "--out", tmp_path / folder],
        )
    for name in ("metrics.jsonl", "trace.json", "summary.json"):
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes(), name


@pytest.mark.parametrize("algorithm", PAIRS)
def test_a_lone_worker_of_pairs_takes_the_steps_of_plain_sgd(algorithm):
    alone = ["train", *STEPS, "--algorithm", algorithm]
    expected = run_json("train", *STEPS, "--workers", 1)["model_hash"]
    for engine in ("threads", "self", "sim"):
        assert run_json(*alone, "--workers", 1, "--engine", engine)["model_hash"] == expected, engine
    assert run_json(*alone, workers=1)["model_hash"] == expected


@pytest.mark.parametrize("algorithm", only("wagma", "flock", *PAIRS, of=[*GROUPS, *PAIRS]))
@pytest.mark.parametrize("workers", only(2, of=[2, 3, 4]))
def test_workers_that_wait_for_nobody_end_with_one_model_under_mpirun(algorithm, workers):
    result = run_json("train", *STEPS, "--algorithm", algorithm, "--straggler", "1x2ms", workers=workers)
    assert (result["engine"], result["workers"], result["steps"]) == ("mpi", workers, 40)
    assert result["replicas_equal"]
    assert result["bytes_sent_per_step"] > 0
    if algorithm in GROUPS:
        assert sum(result["staleness"]) == workers * 40
        assert 0 < result["fresh_fraction"] <= 1
