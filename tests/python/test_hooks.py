"""What gradient states do beside the rules themselves: scalers, join, watching, switching, resuming, errors."""

import json
from pathlib import Path

import pytest
from results import Results

PROGRAM = Path(__file__).with_name("hooks_program.py")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("hooks")


@pytest.fixture(scope="module")
def of(folder):
    """of(case): what a case gave on every rank."""
    return Results(PROGRAM, 3, folder).__getitem__


def test_a_gradient_scaler_keeps_its_meaning(of):
    assert all(distance < 1e-5 for distance in of("a scaler changes nothing"))


def test_an_overflow_on_one_rank_makes_all_skip_the_step_and_back_off(of):
    for rank in of("overflow, propagate"):
        assert rank["moved"] == [True, False, True]
        assert rank["scale"] == 512
        assert rank["guards"]["non_finite"] == 1
        assert rank["distance"] < 1e-5


def test_or_leaves_that_rank_out(of):
    for rank in of("overflow, exclude"):
        assert rank["moved"] == [True, True, True]
        assert rank["scale"] == 1024
        assert rank["guards"]["non_finite"] == 1
        assert rank["distance"] < 1e-5


ON_DIRECTIONS = ["normalized_mean", "adacons", "direction_consensus", "geometric_median"]


@pytest.mark.thorough
@pytest.mark.parametrize("factor", [1000.0, 0.001, 0.0])
@pytest.mark.parametrize("rule", ON_DIRECTIONS)
def test_no_single_rank_sets_the_size_of_the_step(of, rule, factor):
    for ratio in of(f"one worker times {factor}, {rule}"):
        assert 0.2 < ratio < 2


@pytest.mark.thorough
@pytest.mark.parametrize("rule", ON_DIRECTIONS)
def test_one_number_that_two_ranks_disagree_on_is_their_mean(of, rule):
    for rank in of(f"two numbers that disagree, {rule}")[:2]:
        assert rank["gradient"] == pytest.approx(1)
        assert rank["unsafe"] == 1


@pytest.mark.parametrize(
    "case", ["join, adacons", "join, mean over all", "join, mean over those who train", "join, mean after another rule"]
)
def test_a_joined_rank_is_left_out(of, case):
    for number, rank in enumerate(of(case)):
        assert rank["distance"] < 1e-5
        assert rank["counted"] == [3, 3, 3, 3, 2, 2, 2, 1, 1, 1][: 4 + 3 * number]
        assert rank["findings"] == []
        assert rank["equal"]


def test_a_joined_rank_is_not_taken_for_a_dead_one(of):
    assert of("join with a finding to miss") == [[], [], []]


def test_watching_gives_what_ddp_gives_to_the_last_bit(of):
    assert all(rank["same"] for rank in of("watching, three"))
    two = of("watching, two")
    assert two[1] is None
    assert two[0]["same"]
    assert two[2]["same"]


def test_watching_tells_who_agrees_with_whom(of):
    for rank in of("watching, three"):
        for row, expected in zip(rank["agreement"], rank["cosines"], strict=True):
            assert row == pytest.approx(expected, abs=0.1)  # from sketches of 1,024 numbers
        assert rank["coefficients"] == pytest.approx([1 / 3] * 3)
        assert len(rank["norms"]) == 3
        assert all(isinstance(value, float) for value in rank["metrics"].values())
        assert rank["metrics"]["step"] == 4


def test_a_forgotten_sampler_is_reported_within_thirty_steps(of):
    ranks = of("forgotten sampler")
    for rank in ranks:
        assert rank["steps"] <= 30
        assert len(rank["findings"]) == 1
        assert "workers 0, 1 and 2 sent the same gradient" in rank["findings"][0]
    assert [len(rank["warnings"]) for rank in ranks] == [1, 0, 0]
    assert "are they reading the same data?" in ranks[0]["warnings"][0]


@pytest.mark.parametrize("transfer", ["sketch", "exact"])
def test_parameters_that_ddp_was_told_to_ignore_are_neither_checked_nor_counted(of, transfer):
    for rank in of(f"ignored parameters, {transfer}"):
        assert rank["distance"] < 1e-5
        assert (rank["own"], rank["sparse"]) == (8, True)


def test_all_switch_the_rule_with_the_last_who_asks(of):
    for rank in of("switching"):
        assert rank["rules"] == rank["saved"] == ["mean"] * 3 + ["adacons"] * 3
        assert rank["distance"] < 1e-5
        assert rank["refused"]["code"] == "bad_input"


def test_a_rule_that_is_switched_to_begins_anew_at_any_time(of):
    assert all(distance < 1e-5 for distance in of("switching often"))


def test_start_step_averages_before(of):
    for rank in of("starting later"):
        assert rank["rules"] == ["mean", "mean", "normalized_mean", "normalized_mean"]
        assert rank["distance"] < 1e-5


@pytest.mark.parametrize("source", ["pickle", "copy", "state_dict"])
def test_a_resumed_training_gives_what_an_uninterrupted_one_gives(of, source):
    for rank in of(f"resumed from a {source}"):
        assert rank["distance"] < 1e-6
        assert rank["step"] == 6


@pytest.mark.thorough
def test_a_copied_model_says_that_it_lost_its_hook_and_can_get_it_again(of):
    for rank in of("copied model"):
        for copy in rank:
            assert copy["lost"]["type"] == "BadInputError"
            assert "has lost its communication hook" in copy["lost"]["text"]
            assert copy["distance"] < 1e-5


@pytest.mark.thorough
def test_so_does_a_copy_that_torch_hooked_as_far_as_it_can_be_told(of):
    for sentences in of("copied model of torch's form"):
        assert len(sentences) == 1
        assert "has lost its communication hook" in sentences[0]


@pytest.mark.thorough
def test_a_copy_evaluates_without_its_hook(of):
    """Also one that torch.optim.swa_utils has made."""
    assert of("averaged model") == [{"evaluated": True, "trains on": True}] * 3


@pytest.mark.thorough
def test_every_state_can_be_copied_but_not_with_a_process_group_of_its_own(of):
    for rank in of("every state copied"):
        assert all(distance < 1e-5 for distance in rank["distances"].values()), rank
        for refused in rank["refused"]:
            assert refused["code"] == "bad_input"
            assert "process_group" in refused["text"]


@pytest.mark.thorough
def test_a_forked_child_leaves_the_state_alone(of):
    assert of("forked") == [{"status": 0, "step": 3}] * 3


def test_a_sub_group_that_the_state_was_not_told_of_is_named(of):
    for error in of("sub-group in torch's form")[:2]:
        assert error["code"] == "deadline"
        assert error["text"].startswith("rank 2 has not registered a gradient rule within 1 s, as rank ")
        assert "AdaConsState(process_group=...)" in error["text"]


def test_python_threads_run_while_backward_waits(of):
    assert of("a thread counts meanwhile") == [True] * 3


@pytest.mark.parametrize(
    "case",
    [
        "broken backward on one rank",
        "broken in the first of several buckets",
        "broken in the only bucket",
        "broken while unused parameters are looked for",
        "broken with gradients as views",
    ],
)
def test_a_backward_pass_that_breaks_off_leaves_nothing_pending_and_training_goes_on(of, case):
    for number, rank in enumerate(of(case)):
        assert rank["distance"] < 1e-5
        assert len(rank["errors"]) == 2
        for error in rank["errors"]:
            if number == 1:
                assert error["type"] == "ValueError"
            else:
                assert error["type"] == "PeerLostError"
                assert "worker 1's backward pass ended before its last bucket" in error["text"]


@pytest.mark.parametrize("case", ["broken backward on all ranks", "broken in the only bucket on all ranks"])
def test_so_do_passes_that_break_off_on_all_ranks(of, case):
    for rank in of(case):
        assert rank["distance"] < 1e-5
        assert [error["type"] for error in rank["errors"]] == ["ValueError", "ValueError"]


def test_a_step_that_only_the_others_have_taken_ends_the_training_on_all_ranks(of):
    for number, rank in enumerate(of("broken after the last bucket")):
        assert (
            rank["first"] == "ValueError" if number == 1 else rank["first"] in (None, "MismatchError")
        )  # whoever is faster
        assert rank["later"]["code"] == "mismatch"
        assert "a step that worker 1 has not" in rank["later"]["text"]


def test_a_backward_pass_without_all_parameters_gets_the_sentence_of_ddp(of):
    for error in of("unused parameters"):
        assert error["type"] == "RuntimeError"
        assert "find_unused_parameters=True" in error["text"]


@pytest.mark.parametrize(
    ("case", "sentence"),
    [
        ("rules", "rank 1 has rule adacons where rank 0 has mean: "),
        ("transfers", "ranks 1, 2 have transfer exact where rank 0 has sketch: "),
        ("options", "rank 1 has beta 0.5 where rank 0 has 0.9: "),
        ("kinds", "rank 1 has made Flock where rank 0 has registered a gradient rule: "),
        ("averagers", "rank 2 has made Flock where rank 0 has made Wagma: "),
    ],
)
def test_what_ranks_disagree_on_is_named_before_anything_is_exchanged(of, case, sentence):
    for rank in of("disagreements"):
        assert rank[case]["type"] == "MismatchError"
        assert rank[case]["text"] == f"{sentence}give all ranks the same"


@pytest.mark.parametrize(
    ("case", "failing", "error"),
    [
        ("one misspelt", 1, "BadTypeError: AdaConsState has no option 'betta' (did you mean beta?); there are "),
        ("one rule unknown", 0, "BadInputError: there is no gradient rule 'meen': take one of mean, "),
    ],
)
def test_the_error_that_one_rank_alone_raises_is_raised_by_all_at_once(of, case, failing, error):
    for number, rank in enumerate(of("disagreements")):
        kind, _, sentence = error.partition(": ")
        if number == failing:
            assert rank[case]["type"] == kind
            assert rank[case]["text"].startswith(sentence)
        else:
            assert rank[case]["type"] == "MismatchError"
            assert rank[case]["text"].startswith(f"rank {failing} has not registered a gradient rule: {error}")


def test_ranks_that_do_not_come_are_named_and_later_all_may_meet(of):
    ranks = of("disagreements")
    alone = ranks[0]["one alone"]
    assert alone["type"] == "DeadlineExceededError"
    assert alone["text"].startswith("ranks 1, 2 have not registered a gradient rule within 1 s, as rank 0 has: ")
    for rank in ranks[1:]:
        assert rank["all but the first"]["type"] == "DeadlineExceededError"
        assert rank["all but the first"]["text"].startswith("rank 0 has not made Flock within 1 s, as rank ")
    assert [(rank["step"], rank["keys"]) for rank in ranks] == [(1, [])] * 3


def test_steps_that_differ_after_loading_keep_their_error_type_through_backward_and_in_a_future(of):
    for errors in of("error of a future"):
        for error in errors:
            assert error["type"] == "MismatchError"
            assert error["code"] == "mismatch"
            assert "worker 1 has step 5 where worker 0 has 0" in error["text"]
            assert "[mismatch" not in error["text"]


def test_a_closed_state_says_so(of):
    for error in of("closed state"):
        assert error["code"] == "unavailable"
        assert "was closed" in error["text"]


OF_THE_WRONG_TYPE = [
    "plain model",
    "no model",
    "a state for a rule",
    "half a step",
    "timeout",
    "watch",
    "watch, switched",
]


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("no model", "is registered on a DistributedDataParallel, not on 3"),
        (
            "unknown rule",
            "there is no gradient rule 'adacon': take one of mean, weighted_mean, normalized_mean, adacons,",
        ),
        ("a state for a rule", "a rule is given by its name, such as 'adacons', not as <class"),
        ("plain model", "Net is not a DistributedDataParallel"),
        ("second hook", "has a communication hook already"),
        ("built-in hook", "can only be called once"),
        ("two devices", "on several devices (cpu, meta)"),
        ("another device", "parameters are on meta"),
        ("sparse", "table has sparse gradients"),
        ("sparse in a hook", "sparse=False"),
        ("double", "parameter first.weight is float64"),
        ("double in a hook", "type float64"),
        ("complex", "parameter weight is complex64"),
        ("complex in a hook", "a parameter is complex"),
        ("frozen", "no parameter of this model requires a gradient"),
        ("mixed precision", "mixed_precision"),
        ("skips buckets", "skip_all_reduce_unused_params"),
        ("tensor parallel", "DTensors, and not those of fully_shard()"),
        ("unknown word", "magnitude"),
        ("adasum matched", "magnitude takes own, mean_norm or median_norm, not 'matched'"),
        ("beta", "beta"),
        ("start_step", "start_step"),
        ("half a step", "start_step is a whole number, not 1.5"),
        ("timeout", "timeout is a datetime.timedelta or None, not 5"),
        ("watch", "watch is True or False, a whole number or None, not 'no'"),
        ("watch, switched", "watch is True or False, a whole number or None, not 'no'"),
        ("in an averager", "an averager has this DDP model, whose hook would never run"),
    ],
)
def test_bad_input_gets_one_sentence(of, case, words):
    for rank in of("bad input"):
        assert rank[case]["type"] == ("BadTypeError" if case in OF_THE_WRONG_TYPE else "BadInputError")
        assert rank[case]["code"] == "bad_input"
        assert words in rank[case]["text"]
        assert "--" not in rank[case]["text"]
        assert "\n" not in rank[case]["text"]


def test_a_state_that_nobody_closes_leaves_whole_files(of, folder):
    of("left open")
    folder = folder / "left open"
    steps = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in steps if "seconds" in line or "loss" in line][-1] == 3
    assert json.loads((folder / "trace.json").read_text())
