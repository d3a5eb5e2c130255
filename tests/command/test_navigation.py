"""The task `navigation`, beside what test_tasks.py asks of all: uneven episodes, and files of mazes."""

import pytest
from conftest import refused, run_json
from live_run import lines_of

pytestmark = pytest.mark.thorough

NAVIGATION = ["train", "--task", "navigation", "--size", "tiny"]
SHORT = [*NAVIGATION, "--workers", 3, "--steps", 7, "--batch", 20, "--evaluate-every", 7]


def test_a_run_goes_on_with_fewer_workers(torch, tmp_path):
    run_json(*SHORT, "--steps", 3, "--checkpoint-every", 3, "--out", tmp_path)
    fewer = [*NAVIGATION, "--workers", 2, "--steps", 7, "--batch", 20, "--evaluate-every", 7]
    assert run_json(*fewer, "--checkpoint-every", 3, "--resume", "--out", tmp_path)["steps"] == 7


def test_simulated_steps_are_as_uneven_as_episodes(torch, tmp_path):
    train = [*NAVIGATION, "--workers", 4, "--steps", 40, "--evaluate-every", 40, "--engine", "sim", "--compute-ms", 100]
    run_json(*train, "--out", tmp_path)
    times = [line["seconds"] for line in lines_of(tmp_path, "step")]
    assert len(times) == 40
    collecting = times[::4]
    learning = [seconds for step, seconds in enumerate(times) if step % 4]
    for alike in [collecting, learning]:  # were episodes even, so would these be
        assert max(alike) > 2 * min(alike)


def test_mazes_are_read_and_bad_files_are_told(torch, tmp_path):
    (tmp_path / "train.txt").write_text("S.G\n\n#####\n#S.G#\n#####\n")
    (tmp_path / "test.txt").write_text("S.G\n")
    result = run_json(*SHORT, "--data", tmp_path, "--steps", 20)
    assert result["replicas_equal"]
    (tmp_path / "train.txt").write_text("S.G\n\nS?G\n")
    names = f"{tmp_path}/train.txt line 3: cell 2 is none of # . S G and blanks"
    refused(*SHORT, "--data", tmp_path, "--out", tmp_path / "out", names=names, code=1)
    assert not (tmp_path / "out").exists()
