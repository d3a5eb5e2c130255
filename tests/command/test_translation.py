"""The task `translation`: what it learns, the same bits everywhere, and files of one's own."""

import pytest
from conftest import run, run_json

from engines import expect_one_model_on_every_engine

TRANSLATION = ["train", "--task", "translation", "--size", "tiny"]
STEPS = ["--steps", 6, "--batch", 20, "--evaluate-every", 3]
STEPS += ["--translation.test_sentences", 12, "--translation.width", 16]
SHORT = [*TRANSLATION, *STEPS, "--workers", 3]

# What no model reaches that does not see which sentence it translates: 10 at most, see below.
WITHOUT_SOURCE = 15


def test_tiny_learns(torch):
    result = run_json(*TRANSLATION, "--workers", 4)
    assert result["metric"] == "BLEU"
    assert result["quality"] > 90 > WITHOUT_SOURCE  # 99.1 to 99.7 with three seeds
    assert result["figures"]["exact sentences"] > 0.8
    assert result["validation"] > 90
    assert result["replicas_equal"]


@pytest.mark.parametrize(
    "broken",
    [["--noisy-workers", 4], ["--translation.learning_rate", 0, "--steps", 2]],
    ids=["with_translations_of_other_sentences", "untrained"],
)
def test_what_is_broken_does_not_come_close(torch, broken):
    result = run_json(*TRANSLATION, "--workers", 4, *broken)
    assert result["quality"] < WITHOUT_SOURCE


def test_every_engine_gives_the_same_model(torch, needs):
    needs("mpi", "sim")
    expect_one_model_on_every_engine(*TRANSLATION, *STEPS, "--translation.dropout", 0.1, "--translation.beam", 2)


@pytest.mark.parametrize("algorithm", ["adacons", "local_sgd", "wagma"])
def test_every_kind_of_algorithm_trains_it(torch, algorithm):
    train = [*TRANSLATION, "--workers", 4, "--steps", 150, "--evaluate-every", 150, "--algorithm", algorithm]
    result = run_json(*train, "--deterministic", "--compute-ms", 2)
    assert result["quality"] > 40 > WITHOUT_SOURCE
    assert result["replicas_equal"]


@pytest.mark.parametrize("algorithm", ["mean", "local_sgd"])
def test_a_resumed_run_ends_on_the_same_bits(torch, tmp_path, algorithm):
    train = [*SHORT, "--algorithm", algorithm, "--translation.dropout", 0.1, "--checkpoint-every", 3]
    whole = run_json(*train, "--out", tmp_path / "whole")
    run_json(*train, "--steps", 3, "--out", tmp_path / "parts")
    resumed = run_json(*train, "--resume", "--out", tmp_path / "parts")
    assert resumed["steps"] == 6
    assert resumed["model_hash"] == whole["model_hash"]


def test_steps_that_pretend_to_take_time_are_as_uneven_as_sentences(torch, needs):
    needs("sim")
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
    done = run(*SHORT, *flags, "--out", tmp_path / "out")
    assert done.returncode == 1
    assert done.stderr == f"flockstep: {folder}/train.de is not UTF-8 in line 2\n"
    assert not (tmp_path / "out").exists()


def test_other_languages_are_other_endings(torch, tmp_path):
    folder = parallel_text(tmp_path / "text")
    for part in ["train", "test"]:
        (folder / f"{part}.en").rename(folder / f"{part}.fr")
    assert run_json(*SHORT, "--data", folder, "--translation.source", "fr")["replicas_equal"]
    done = run(*SHORT, "--data", folder)
    assert done.stderr == f"flockstep: {folder}/train.en is not there\n"


def test_wrong_calls_get_one_sentence(torch):
    for arguments, sentence in [
        (["--size", "huge"], "--translation.size takes tiny, small or paper, not 'huge'"),
        (
            ["--translation.heads", "5"],
            "--translation.width takes an even multiple of --translation.heads (5), not '64'",
        ),
        (["--batch", "3"], "a batch of 3 leaves some of 4 workers without a sample: use at least 4"),
    ]:
        done = run("train", "--task", "translation", *arguments)
        assert done.returncode == 2
        assert sentence in done.stderr
        assert done.stderr.count("\n") == 1
