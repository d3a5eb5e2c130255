"""The tasks' metrics against Python's reference packages, on the same inputs."""

import contextlib
import io
import json
import random
import subprocess

import numpy
import pytest
import sacrebleu
from paths import BUILD, HANG_S
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from sklearn.metrics import log_loss, roc_auc_score

pytestmark = pytest.mark.thorough

TOOL = BUILD / "bin" / "metrics_tool"


def metric(name, given):
    """What the project computes as the metric `name` from the input `given`."""
    done = subprocess.run([TOOL, name], input=json.dumps(given), capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("steps", [1, 3, 20, None], ids=lambda steps: f"{steps}_scores" if steps else "all_differ")
def test_click_metrics_are_those_of_scikit_learn(steps):
    draw = numpy.random.default_rng(steps)
    for count in [2, 5, 40, 5000]:
        scores = draw.normal(0, 3, count)
        if steps:
            scores = numpy.round(draw.uniform(0, 1, count) * steps) / steps - 0.5
        labels = draw.permutation([0, 1, *draw.integers(0, 2, count - 2)])
        found = metric("auc", {"scores": list(scores), "labels": labels.tolist()})
        assert found["auc"] == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)
        assert found["log_loss"] == pytest.approx(log_loss(labels, 1 / (1 + numpy.exp(-scores))), rel=1e-9)


def reference_of_coco(images):
    boxes = [(number, box) for number, image in enumerate(images) for box in image["objects"]]
    objects = [
        {"id": 1 + index, "image_id": number, "category_id": box["category"], "bbox": box["bbox"]}
        | {"area": box["bbox"][2] * box["bbox"][3], "iscrowd": box["iscrowd"]}
        for index, (number, box) in enumerate(boxes)
    ]
    detections = [
        {"image_id": number, "category_id": box["category"], "bbox": box["bbox"], "score": box["score"]}
        for number, image in enumerate(images)
        for box in image["detections"]
    ]
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO()
        numbered = {"images": range(len(images)), "categories": range(10)}
        truth.dataset = {name: [{"id": number} for number in numbers] for name, numbers in numbered.items()}
        truth.dataset |= {"info": {}, "annotations": objects}
        truth.createIndex()
        judged = COCOeval(truth, truth.loadRes(detections), "bbox")
        judged.evaluate()
        judged.accumulate()
        judged.summarize()
    return judged.stats[:3]


def precision_of(images):
    found = metric("coco", {"images": images})
    return [found["all"], found["at50"], found["at75"]]


def draw_coco(draw, images, categories, shift, digits):
    """Objects, and detections `shift` beside some of them or anywhere; scores of few digits meet often."""

    def box():
        return [*draw.uniform(0, 60, 2), *draw.uniform(4, 40, 2)]

    def detection(bbox, category):
        return {"bbox": list(bbox), "category": category, "score": round(draw.uniform(0.05, 1), digits)}

    result = []
    for _ in range(images):
        objects = [
            {"bbox": box(), "category": int(draw.integers(categories)), "iscrowd": int(draw.uniform() < 0.15)}
            for _ in range(draw.integers(0, 8))
        ]
        found = [
            detection(numpy.abs(given["bbox"] + draw.normal(0, shift, 4)), given["category"])
            for given in objects
            for _ in range(draw.integers(0, 3))
        ]
        found += [detection(box(), int(draw.integers(categories))) for _ in range(draw.integers(1, 6))]
        result.append({"objects": objects, "detections": draw.permutation(found).tolist()})
    return result


@pytest.mark.parametrize("digits", [1, 9])
@pytest.mark.parametrize("shift", [0.0, 1.0, 4.0])
def test_mean_precision_is_that_of_pycocotools(shift, digits):
    for images, categories in [(1, 1), (3, 2), (40, 6)]:
        for seed in range(4):
            draw = numpy.random.default_rng([seed, images, digits])
            given = draw_coco(draw, images, categories, shift, digits)
            expected = [max(0, value) for value in reference_of_coco(given)]  # -1: nothing to find
            assert precision_of(given) == pytest.approx(expected, abs=1e-9)


def random_text(draw):
    """Words, numbers, punctuation of all kinds, entities and spaces that are not ASCII."""
    words = ["the", "cat", "sat", "fünf", "Straße", "3.14", "1,000", "5-3", "x-y", "it's", "e.g.", "€5", "100%", "a/b"]
    signs = [*',.!?()-"\u00a0\u3000', *["...", "[x]", "&quot;", "&amp;", "&lt;", "--", "<skipped>"]]
    spaces = ["", " ", " ", " ", "  ", "\t"]
    return "".join(
        draw.choice(words if draw.random() < 0.7 else signs) + draw.choice(spaces) for _ in range(draw.randrange(12))
    )


def changed(text, draw):
    words = text.split(" ")
    for _ in range(draw.randrange(0, 3)):
        place = draw.randrange(len(words))
        words[place : place + draw.randrange(0, 2)] = [random_text(draw)]
        words = words or [""]
    return " ".join(words)


@pytest.mark.parametrize("sentences", [1, 3, 40])
def test_bleu_is_that_of_sacrebleu(sentences):
    draw = random.Random(sentences)
    for _ in range(200 // sentences):
        references = [random_text(draw) for _ in range(sentences)]
        translations = [changed(text, draw) for text in references]
        theirs = sacrebleu.corpus_bleu(translations, [references])
        ours = metric("bleu", {"pairs": list(zip(translations, references, strict=True))})
        assert ours["bleu"] == pytest.approx(theirs.score, abs=1e-9)
        assert ours["matches"] == theirs.counts
        assert ours["ngrams"] == theirs.totals
        assert (ours["words"], ours["reference_words"]) == (theirs.sys_len, theirs.ref_len)


def test_bleu_of_sentences_that_people_wrote_is_that_of_sacrebleu():
    pairs = [
        ("The quick brown fox jumped over the lazy dog.", "The quick brown fox jumps over the lazy dog."),
        ("Er kostet 1.234,56 Euro (inkl. MwSt.).", "Es kostet 1.234,56 Euro (inkl. MwSt.)!"),
        ('"Well," she said, "it\'s 5 o\'clock."', '"Well", she said, "it is five o\'clock".'),
        ("In 2016-17, U.S. exports rose 3.5%.", "In 2016-2017 U.S. exports grew by 3.5 %."),
        ("https://example.org/a_b?c=d&e", "See https://example.org/a_b?c=d&e."),
    ]
    for some in [pairs[:1], pairs[1:3], pairs]:
        theirs = sacrebleu.corpus_bleu([a for a, _ in some], [[b for _, b in some]])
        assert metric("bleu", {"pairs": some})["bleu"] == pytest.approx(theirs.score, abs=1e-9)


UP_TO_TWELVE = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
]
ENGLISH = [*UP_TO_TWELVE, *(stem + "teen" for stem in ["thir", "four", "fif", "six", "seven", "eigh", "nine"])]
ENGLISH += [
    stem + "ty" + ones
    for stem in ["twen", "thir", "for", "fif", "six", "seven", "eigh", "nine"]
    for ones in ["", *("-" + word for word in UP_TO_TWELVE[1:10])]
]
ONES = ["ein", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun"]
GERMAN = ["null", "eins", *ONES[1:], "zehn", "elf", "zwölf"]
GERMAN += [stem + "zehn" for stem in ["drei", "vier", "fünf", "sech", "sieb", "acht", "neun"]]
GERMAN += [
    ones + tens
    for tens in ["zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig"]
    for ones in ["", *(one + "und" for one in ONES)]
]


def number_in_words(number):
    """Both languages, from tables of all that is below a hundred, unlike the project's own composition."""
    hundreds, rest = divmod(number % 1000, 100)
    thousands = number // 1000
    en, de = [], ""
    if thousands:
        words = number_in_words(thousands)
        en += [words[0], "thousand"]
        de += words[1].removesuffix("s") if words[1].endswith("eins") else words[1]
        de += "tausend"
    if hundreds:
        en += [ENGLISH[hundreds], "hundred"]
        de += ONES[hundreds - 1] + "hundert"
    if rest or number == 0:
        en.append(ENGLISH[rest])
        de += GERMAN[rest]
    return [" ".join(en), de]


def test_number_words_are_those_of_another_generator():
    draw = random.Random(1)
    numbers = [*range(2200), *(draw.randrange(1000 ** draw.choice([1, 2, 2])) for _ in range(5000)), 999_999]
    assert metric("number_words", {"numbers": numbers}) == [number_in_words(number) for number in numbers]
