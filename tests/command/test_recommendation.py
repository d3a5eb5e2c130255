"""The task `recommendation`, beside what test_tasks.py asks of all: click logs."""

import random

import pytest
from conftest import refused, run_json

pytestmark = pytest.mark.thorough

CLICKS = ["train", "--task", "recommendation"]
SHORT = [*CLICKS, "--workers", 3, "--steps", 6, "--batch", 20, "--evaluate-every", 3]


def write_log(path, lines, seed=1):
    """A click log in which whoever has 00000000 for the first category clicks, and a high first number means none."""
    draw = random.Random(seed)
    with path.open("w") as file:
        for _ in range(lines):
            clicks = draw.random() < 0.5
            numbers = [draw.choice(["", draw.randrange(-1, 100)]) for _ in range(13)]
            numbers[0] = draw.randrange(0, 40) + (0 if clicks else 60)
            categories = [draw.choice(["", f"{draw.randrange(5):08x}"]) for _ in range(26)]
            categories[0] = "00000000" if clicks == (draw.random() < 0.9) else "0000ffff"
            file.write("\t".join(map(str, [int(clicks), *numbers, *categories])) + "\n")
    return path


def test_a_click_log_is_learned(torch, tmp_path):
    log = write_log(tmp_path / "train.txt", 3000)
    train = [*CLICKS, "--workers", 2, "--steps", 60, "--recommendation.buckets", 50]
    result = run_json(*train, "--data", log)
    assert result["quality"] > 0.9
    assert set(result["figures"]) == {"log loss"}  # what is best is known for generated clicks only
    assert run_json(*train, "--data", tmp_path)["model_hash"] == result["model_hash"]


def test_bad_logs_are_told_in_one_sentence(torch, tmp_path):
    log = write_log(tmp_path / "log.tsv", 100)
    text = log.read_text()
    for bad, sentence in [
        ("", "is empty"),
        (text[: len(text) // 2].rstrip("\n") + "\tx", "is not a click log of Criteo, or is damaged: line "),
        (text.replace("1\t", "2\t", 1), "is not a click log of Criteo, or is damaged: line "),
        ("\n".join(text.splitlines()[:10]), "has 0 lines for validation, and not both labels among them"),
    ]:
        log.write_text(bad)
        refused(*SHORT, "--data", log, "--out", tmp_path / "out", names=f"{log} {sentence}", code=1)
        assert not (tmp_path / "out").exists()
