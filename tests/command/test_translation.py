"""The task `translation`, beside what test_tasks.py asks of all: uneven sentences, and files of one's own."""

import pytest
from conftest import refused, run_json

pytestmark = pytest.mark.thorough

SHORT = ["train", "--task", "translation", "--workers", 3, "--steps", 6, "--batch", 20, "--evaluate-every", 3]
SHORT += ["--translation.test_sentences", 12, "--translation.width", 16]


def test_steps_that_pretend_to_take_time_are_as_uneven_as_sentences(torch):
    times = run_json(*SHORT, "--engine", "sim", "--compute-ms", 100, "--steps", 30)["step_times"]
    assert 0.07 < times["median_s"] < 0.13
    assert times["longest_s"] > 1.5 * times["median_s"]


def parallel_text(folder, count=60):
    folder.mkdir()
    words = [("house", "Haus"), ("tree", "Baum"), ("bird", "Vogel"), ("street", "Straße"), ("two", "zwei")]
    chosen = [[words[(i // 5**place) % 5] for place in range(1 + i % 3)] for i in range(count)]
    for part, some in [("train", chosen), ("test", chosen[::7])]:
        (folder / f"{part}.en").write_text("".join(" ".join(en for en, _ in line) + "\n" for line in some))
        (folder / f"{part}.de").write_text("".join(" ".join(de for _, de in line) + "\n" for line in some))
    return folder


def test_parallel_text_is_read_and_bad_files_are_told_in_one_sentence(torch, tmp_path):
    folder = parallel_text(tmp_path / "text")
    flags = ["--data", folder, "--shard", "skewed", "--noisy-workers", 1, "--translation.tokens", "bpe"]
    result = run_json(*SHORT, *flags)
    assert result["replicas_equal"]
    assert result["task_settings"]["noisy_workers"] == "1"
    assert result["model_hash"] != run_json(*SHORT, "--data", folder)["model_hash"]
    (folder / "train.de").write_bytes(b"Haus\nB\xe4ume\n")
    refused(*SHORT, *flags, "--out", tmp_path / "out", names=f"{folder}/train.de is not UTF-8 in line 2", code=1)
    assert not (tmp_path / "out").exists()


def test_other_languages_are_other_endings(torch, tmp_path):
    folder = parallel_text(tmp_path / "text")
    for part in ["train", "test"]:
        (folder / f"{part}.en").rename(folder / f"{part}.fr")
    assert run_json(*SHORT, "--data", folder, "--translation.source", "fr")["replicas_equal"]
    refused(*SHORT, "--data", folder, names=f"{folder}/train.en is not there", code=1)
