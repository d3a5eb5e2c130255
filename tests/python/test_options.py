"""What classes and functions say of the options that they take: to people, and to type checkers."""

import inspect
import math
import pickle
import re
import subprocess
import sys
import typing

import flockstep
import pytest
import torch
from flockstep import _rule_options, averagers
from paths import HANG_S, ROOT

RULES = {
    "mean": (flockstep.MeanState, _rule_options.MeanOptions),
    "weighted_mean": (flockstep.WeightedMeanState, _rule_options.RuleOptions),
    "normalized_mean": (flockstep.NormalizedMeanState, _rule_options.RuleOptions),
    "adacons": (flockstep.AdaConsState, _rule_options.AdaConsOptions),
    "direction_consensus": (flockstep.DirectionConsensusState, _rule_options.DirectionConsensusOptions),
    "geometric_median": (flockstep.GeometricMedianState, _rule_options.GeometricMedianOptions),
    "adasum": (flockstep.AdasumState, _rule_options.RuleOptions),
}
CLASSES = [
    *RULES.values(),
    (flockstep.Flock, averagers.RoundOptions),
    (flockstep.Wagma, averagers.RoundOptions),
    (flockstep.LocalSGD, averagers.LocalSGDOptions),
    (flockstep.PostLocalSGD, averagers.PostLocalSGDOptions),
    (flockstep.DiLoCo, averagers.DiLoCoOptions),
    (flockstep.DPSGD, averagers.DPSGDOptions),
    (flockstep.ADPSGD, averagers.ADPSGDOptions),
    (flockstep.SGP, averagers.SGPOptions),
    (flockstep.Swarm, averagers.SwarmOptions),
]


def keywords(signature):
    return [each for each in signature.parameters.values() if each.kind is inspect.Parameter.KEYWORD_ONLY]


@pytest.mark.parametrize(("kind", "options"), CLASSES)
def test_a_signature_and_a_docstring_have_every_option(kind, options):
    signature = inspect.signature(kind)
    assert {each.name: each.annotation for each in keywords(signature)} == typing.get_type_hints(options)
    _, described = kind.__doc__.split("Args:\n")
    for name in signature.parameters:
        assert f"\n    {name}: " in f"\n{described}"


@pytest.mark.parametrize("rule", RULES)
def test_a_short_form_has_the_signature_of_its_state(rule):
    short = inspect.signature(getattr(flockstep, rule))
    state, _ = RULES[rule]
    assert keywords(short) == keywords(inspect.signature(state))
    assert short.return_annotation is state
    assert f'register(ddp_model, "{rule}"' in getattr(flockstep, rule).__doc__


@pytest.mark.parametrize(
    "make", [lambda: flockstep.register(None, "adacons", betta=1), lambda: flockstep.AdaConsState(betta=1)]
)
def test_an_option_that_there_is_not_is_named_with_those_that_there_are(make):
    sentence = r"^AdaConsState has no option 'betta' \(did you mean beta\?\); there are beta, negative, permutation, "
    with pytest.raises(TypeError, match=sentence):
        make()


OF_THE_WRONG_TYPE = [
    ({"beta": "0.9"}, "beta is a number, not '0.9'"),
    ({"beta": True}, "beta is a number, not True"),
    ({"watch": "no"}, "watch is True or False, a whole number or None, not 'no'"),
    ({"watch": 0.5}, "watch is True or False, a whole number or None, not 0.5"),
    ({"guard": "3"}, "guard is a number or \"count\", not '3'"),
    ({"magnitude": 3}, 'magnitude is "own" or "mean_norm" or "median_norm" or "matched", not 3'),
    ({"run_dir": torch.nn.Linear(2, 2)}, "run_dir is a path or None, not Linear("),
    ({"seed": [0] * 99}, "seed is a whole number, not a list"),
    ({"start_step": 1.5}, "start_step is a whole number, not 1.5"),
    ({"timeout": 5}, "timeout is a datetime.timedelta or None, not 5"),
    ({"sketch_length": "long"}, "sketch_length is a whole number or None, not 'long'"),
]
OF_A_VALUE_THAT_IS_NOT_TAKEN = [
    ({"beta": 1.5}, "beta takes a number from 0 to below 1, not 1.5"),
    ({"beta": -1e-9}, "beta takes a number from 0 to below 1, not -1e-09"),
    ({"magnitude": "huge"}, "magnitude"),
    ({"start_step": -1}, "start_step"),
    ({"sketch_length": 0}, "sketch_length"),
    ({"sketch_length": 1000}, "a power of two"),
    ({"transfer": "sketch", "granularity": "tensor"}, 'granularity="tensor" needs transfer="exact"'),
    ({"transfer": "sketch", "wire": "bfloat16"}, 'wire="bfloat16" needs transfer="exact"'),
    ({"transfer": "quick"}, "transfer takes auto, exact or sketch, not 'quick'"),
    ({"guard": -1}, "guard"),
    ({"non_finite_patience": -1}, "non_finite_patience"),
    ({"seed": -1}, "seed is a whole number"),
]


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        *((flockstep.BadTypeError, *row) for row in OF_THE_WRONG_TYPE),
        *((flockstep.BadInputError, *row) for row in OF_A_VALUE_THAT_IS_NOT_TAKEN),
    ],
)
def test_a_wrong_value_is_refused_in_one_sentence_and_in_words_of_python(kind, options, words):
    with pytest.raises(flockstep.Error) as raised:
        flockstep.AdaConsState(**options)
    assert type(raised.value) is kind
    assert words in str(raised.value)
    assert "--" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_adasum_has_no_directions_at_the_median_workers_norm():
    with pytest.raises(flockstep.BadInputError, match=r"^magnitude takes own, mean_norm or median_norm, not 'matched'"):
        flockstep.AdasumState(magnitude="matched")


def test_arguments_in_the_wrong_order_are_named_without_printing_the_model():
    model = torch.nn.Sequential(*(torch.nn.Linear(2, 2) for _ in range(9)))
    with pytest.raises(TypeError, match=r"^register\(\) takes the model first, .*: register\(model, 'mean'\)$"):
        flockstep.register("mean", model)
    with pytest.raises(TypeError, match=r"such as 'adacons', not as a Sequential$"):
        flockstep.register(model, model)
    with pytest.raises(TypeError, match=r"^a rule is given by its name, such as 'adacons', not as <class"):
        flockstep.register(model, flockstep.AdaConsState)
    with pytest.raises(flockstep.BadInputError, match=r"^there is no gradient rule 'adacon': take one of mean, "):
        flockstep.register(model, "adacon")


@pytest.mark.parametrize("weight", ["8", None, torch.ones(2), math.nan, -1, math.inf])
def test_a_weight_is_one_number(weight):
    with pytest.raises(flockstep.BadInputError, match=r"^weight is a number, 0 or more, not "):
        flockstep.WeightedMeanState().weight = weight


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "weighted_mean"])
def test_a_weight_that_has_no_effect_is_refused(rule):
    state = RULES[rule][0]()
    state.weight = 1
    with pytest.raises(
        flockstep.BadInputError, match=f"^{rule} counts all ranks the same, so that a weight has no effect: "
    ):
        state.weight = 8
    state.set_rule("weighted_mean")
    state.weight = torch.tensor(8)
    assert pickle.loads(pickle.dumps(state)).weight == 8


def test_a_misspelt_attribute_names_the_near_one():
    with pytest.raises(AttributeError, match=r"^MeanState has no attribute 'wieght' \(did you mean weight\?\)$"):
        flockstep.MeanState().wieght = 8


@pytest.mark.parametrize(
    ("saved", "sentence"),
    [
        ({"state": {}, "param_groups": []}, "this has state, param_groups"),
        ({}, "this has nothing"),
        ([1], "not a list"),
        ({"rule": "mean", "step": "two", "memory": 3}, "step and memory of this one are no numbers"),
    ],
)
def test_what_is_no_state_of_a_rule_is_refused(saved, sentence):
    with pytest.raises(
        flockstep.BadInputError, match=r"^load_state_dict\(\) takes what state_dict\(\) of a gradient rule"
    ) as raised:
        flockstep.MeanState().load_state_dict(saved)
    assert str(raised.value).endswith(sentence)


def test_a_rule_that_changes_other_options_than_granularity_keeps_its_memory():
    state = flockstep.AdaConsState()
    state.load_state_dict({"rule": "adacons", "step": 3, "memory": [[0.5, 0.5]]})
    state.set_rule("adacons", beta=0.5)
    assert state.state_dict()["memory"] == [[0.5, 0.5]]
    state.set_rule("adacons", granularity="tensor")
    assert state.state_dict()["memory"] == []


TYPED = """
import flockstep
import torch

model = torch.nn.Linear(1, 1)
reveal_type(flockstep.register(model, "adacons", beta=0.5, wire="bfloat16"))
reveal_type(flockstep.adacons(model, beta=0.5))
reveal_type(flockstep.PeerLostError("gone"))
flockstep.register(model, "adacons", on="raw")
flockstep.adacons(model, magnitude="huge")
flockstep.AdaConsState(betta=0.5)
flockstep.Flock(torch.optim.SGD(model.parameters()), model, period="often")
"""


@pytest.mark.thorough
def test_type_checkers_know_rules_and_options(tmp_path):
    """As `make lint` calls mypy, whose cache saves two minutes; it may tell the same of the same script elsewhere."""
    pytest.importorskip("mypy")
    script = tmp_path / "typed_script.py"
    script.write_text(TYPED)
    command = [sys.executable, "-m", "mypy", "--no-error-summary", script]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANG_S)
    said = re.findall(r"typed_script\.py:(\d+): (note|error): (.*)", done.stdout)
    revealed = [what.split('"')[1] for _, _, what in said if what.startswith("Revealed type")]
    assert revealed == ["flockstep.rules.AdaConsState"] * 2 + ["flockstep._errors.PeerLostError"], done.stdout
    assert [number for number, kind, _ in said if kind == "error"] == ["9", "10", "11", "12"], done.stdout
