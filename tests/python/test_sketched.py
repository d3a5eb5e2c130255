"""Gradient rules with transfer="sketch", against a recomputation in double precision from what every rank hands over."""

from pathlib import Path

import pytest
from layers import only
from results import Results
from rule_oracle import RULES

PROGRAM = Path(__file__).with_name("sketched_program.py")


@pytest.fixture(scope="module")
def of():
    """of(case, workers): what a case gave on every rank."""
    results = {workers: Results(PROGRAM, workers) for workers in (1, 2, 3)}
    return lambda case, workers=3: results[workers][case]


@pytest.mark.parametrize("workers", only(3, of=[1, 2, 3]))
@pytest.mark.parametrize("rule", RULES)
def test_every_rule_gives_what_the_step_before_decides(of, rule, workers):
    for rank in of(f"rule {rule}", workers):
        assert rank["distance"] < 1e-6
        assert rank["same"]
        assert rank["step"] == 6
        assert rank["clipped"] == rank["expected clipped"]


@pytest.mark.thorough
def test_plain_averaging_is_that_of_ddp_to_the_last_bit(of):
    for rank in [*of("mean is DDP, three"), *of("until start_step it is DDP")]:
        assert rank == {"same": True, "clipped": 2}, "counted, and not clipped"
    assert of("mean is DDP, two") == [{"same": True, "clipped": 0}, None, {"same": True, "clipped": 0}]


@pytest.mark.thorough
@pytest.mark.parametrize("workers", [2, 3])
def test_so_it_is_while_ddp_has_collectives_of_its_own_under_way(of, workers):
    assert of("beside collectives of DDP", workers) == [True] * workers


@pytest.mark.thorough
def test_a_thread_comes_with_the_first_pass_and_ends_with_the_state(of):
    for rank in of("threads", 2):
        assert rank == {"counts": [0, 1, 0] * 2, "step": 1}


@pytest.mark.thorough
def test_a_forked_child_leaves_the_state_alone(of):
    assert of("forked", 2) == [{"status": 0, "step": 2}] * 2


TROUBLES = [
    *(f"spike, {rule}" for rule in ("mean", "adacons", "normalized_mean", "direction_consensus")),
    "spike, mean with a guard",
    "spike without a guard",
    "spike at first",
    "a thousandth",
    "zeros",
    "zeros every other step",
    "not finite once",
    "infinite once",
    "not finite at first",
    "not finite for ever",
    "not finite for ever, mean",
    "not finite for ever, no patience",
    "not finite once, excluded",
    "not finite for ever, excluded",
    "all times ten",
    "a scaler doubles",
]


@pytest.mark.thorough
@pytest.mark.parametrize("case", TROUBLES)
def test_steps_gone_wrong_are_met_as_defined(of, case):
    for rank in of(case):
        assert rank["distance"] < 1e-5
        assert rank["same"]
        assert rank["clipped"] == rank["expected clipped"]


IN_STREAM = [*(f"rule {rule}" for rule in RULES), *TROUBLES, "bfloat16", "float16"]
CALLS = [f"calls, {rule}" for rule in RULES]


@pytest.fixture(scope="module")
def in_stream():
    return Results(PROGRAM, 3, "--in-stream", only=[*IN_STREAM, *CALLS])


@pytest.mark.parametrize("case", only("rule adacons", of=IN_STREAM))
def test_so_they_are_where_factors_are_tensors_that_nobody_waits_for(in_stream, case):
    """As on CUDA devices, but for the device."""
    for rank in in_stream[case]:
        assert rank["distance"] < (1e-2 if "float16" in case else 1e-5), rank
        assert rank["same"]
        assert rank["clipped"] == rank["expected clipped"]


EXCHANGE = ["current: copy float64", "side: wait for current", "collectives: wait for side", "collectives: gather"]
EXCHANGE += ["side: wait for collectives", "side: copy uint8", "side: decide", "side: copy float64", "side: event"]
NOBODY, HOST, STREAM = [], ["host: wait for an event of side"], ["current: wait for an event of side"]


@pytest.mark.parametrize("rule", only("adacons", of=RULES))
def test_the_host_waits_for_a_stream_where_buckets_are_new_and_around_a_change_of_the_rule(in_stream, rule):
    passes = [[*waits, *EXCHANGE] for waits in (NOBODY, HOST, HOST, STREAM, HOST, HOST, STREAM, STREAM)]
    first, broken_off, last = in_stream[f"calls, {rule}"]
    assert first == last == passes
    assert broken_off == [*passes[:6], [*STREAM, "ValueError"], [*EXCHANGE, *passes[7]]]


@pytest.mark.thorough
def test_a_spike_is_cut_and_counted(of):
    for case in ("spike, mean", "spike, mean with a guard", "spike, direction_consensus"):
        assert all(rank["clipped"] >= 1 for rank in of(case))
    assert all(rank["clipped"] == 0 for rank in of("spike without a guard"))


@pytest.mark.thorough
@pytest.mark.parametrize("suffix", ["", ", excluded"])
def test_what_is_finite_on_no_rank_has_no_finite_result_however_long_that_lasts(of, suffix):
    """With sketches a rank that excludes itself hears of the others one step later."""
    late = [True] if suffix else []
    for rank in of(f"never finite on any{suffix}"):
        assert rank["finite"] == [True] * 2 + late + [False] * (10 - len(late)) + [True] * 2
        assert rank["distance"] < 1e-5
        assert rank["event"] == "none"


@pytest.mark.thorough
@pytest.mark.parametrize("case", ["not finite for ever", "not finite for ever, mean"])
def test_who_is_not_finite_for_ever_is_left_out_in_the_end(of, case):
    assert all(rank["event"] == "none" for rank in of(case))
    assert all(rank["event"] == "non_finite" for rank in of("not finite for ever, no patience"))


@pytest.mark.thorough
@pytest.mark.parametrize("transfer", ["sketch", "exact"])
@pytest.mark.parametrize("rule", ["mean", "adacons"])
@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("one of two", "worker 1 (1 of 2) sent numbers that are not finite for "),
        ("zeros", "all 2 workers send zeros (20 steps in a row): the model is not being trained"),
    ],
)
def test_training_that_stands_still_is_a_finding_and_a_warning(of, case, words, rule, transfer):
    ranks = of(f"{case}, {rule}, {transfer}", 2)
    for rank in ranks:
        assert any(finding.startswith(words.split("(20")[0]) for finding in rank["findings"]), rank
    assert any(words in warning for warning in ranks[0]["warnings"]), ranks[0]


@pytest.mark.thorough
def test_more_passes_a_step_cost_one_step_at_most(of):
    for rank in of("accumulated"):
        assert rank["clipped"] <= 2
        assert min(rank["sizes"][5:]) > max(rank["sizes"][:4])


@pytest.mark.thorough
@pytest.mark.parametrize(("kind", "tolerance"), [("bfloat16", 1e-2), ("float16", 1e-3)])
def test_factors_of_16_bit_gradients_are_not_rounded(of, kind, tolerance):
    for rank in of(kind):
        assert rank["distance"] < tolerance


@pytest.mark.thorough
@pytest.mark.parametrize("case", ["joining, direction_consensus", "joining, mean", "joining, mean over all"])
def test_a_joined_rank_is_left_out(of, case):
    for number, rank in enumerate(of(case)):
        assert rank["same"]
        assert rank["findings"] == []
        assert len(rank["counted"]) == 3 + 2 * number
        assert rank["counted"][-1] == [3, 2, 1][number] or "consensus" in case


@pytest.mark.thorough
def test_a_mean_over_nobody_is_zero(of):
    for norms in of("zero weights"):
        assert norms[0] == norms[2] == 0
        assert norms[1] > 0


@pytest.mark.thorough
def test_a_rule_is_followed_one_step_after_it_was_asked_for(of):
    for rank in of("switching"):
        assert rank["rules"] == ["mean"] * 3 + ["direction_consensus"] * 2
        assert 'granularity="tensor" needs transfer="exact"' in rank["refused"][0]["text"]
        assert "set_rule() cannot change it" in rank["refused"][1]["text"]
    for error in of("switching apart"):
        assert error["type"] == "MismatchError"
        assert "worker 1 has asked for another rule" in error["text"]


@pytest.mark.thorough
def test_start_step_averages_before(of):
    for rules in of("starting later"):
        assert rules == ["mean"] * 2 + ["normalized_mean"] * 2


@pytest.mark.thorough
@pytest.mark.parametrize("how", ["pickle", "deepcopy", "state_dict"])
def test_a_resumed_training_is_an_uninterrupted_one_to_the_last_bit(of, how):
    for rank in of(f"resumed, {how}", 2):
        assert rank["same"]
        assert rank["step"] == 6


@pytest.mark.thorough
def test_buckets_can_have_coefficients_of_their_own(of):
    for rank in of("by bucket"):
        assert rank["same"]
        assert rank["step"] == 5


@pytest.mark.thorough
def test_workers_are_watched_as_often_as_asked_for(of):
    assert all(rank == {"told": [False] * 4, "norms": 3} for rank in of("watching, never"))
    assert all(rank["told"] == [True, False, True, False] for rank in of("watching, every other"))
    assert all(rank["told"] == [True] * 4 for rank in of("watching, always"))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("seeds", "ranks 1, 2 have seed 1 where rank 0 has 0"),
        ("lengths", "rank 2 has sketch_length 128 where rank 0 has 64"),
        ("options", "rank 1 has beta 0.5 where rank 0 has 0.9"),
    ],
)
def test_what_differs_between_ranks_is_named(of, case, words):
    for error in of(case):
        assert error["type"] == "MismatchError"
        assert words in error["text"]


@pytest.mark.thorough
def test_a_loss_belongs_to_the_step_that_was_just_taken(of):
    assert all(figures == [[1, 0], [2, 1], [3, 2]] for figures in of("recorded losses"))


@pytest.mark.thorough
def test_a_model_that_changes_its_shape_is_refused(of):
    for error in of("grown"):
        assert error["code"] == "bad_input"
        assert "the model has changed its shape: its gradient has 3923 numbers where it had 520" in error["text"]


@pytest.mark.thorough
@pytest.mark.parametrize("case", ["broken in the first bucket", "broken later"])
def test_a_step_that_one_rank_lacks_ends_the_training_on_all(of, case):
    for number, errors in enumerate(of(case)):
        assert errors[:2] == [None, None]
        assert errors[2] is None or (number == 1 and errors[2]["type"] == "ValueError")
        assert errors[3]["type"] == "MismatchError"
        assert "a step that worker 1 has not" in errors[3]["text"]


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("too long", "is longer than the gradient of 3923"),
        ("too long, late", "is longer than the gradient of 3923"),
        ("zero", "sketch_length"),
        ("no power", "a power of two"),
        ("no number", "sketch_length is a whole number or None, not 'long'"),
        ("tensor", 'granularity="tensor" needs transfer="exact"'),
        ("wire", 'wire="bfloat16" needs transfer="exact"'),
        ("transfer", "transfer takes auto, exact or sketch, not 'quick'"),
        ("guard", "guard"),
        ("guard, type", "guard is a number or \"count\", not 'three'"),
        ("patience", "non_finite_patience"),
        ("seed", "seed is a whole number"),
        ("watch", "watch is True or False, a whole number or None, not 0.5"),
    ],
)
def test_bad_input_gets_one_sentence(of, case, words):
    for rank in of("bad input"):
        assert rank[case]["code"] == "bad_input"
        assert words in rank[case]["text"]
        assert "--" not in rank[case]["text"]
        assert "\n" not in rank[case]["text"]
