"""Checkpoint files of elastic runs: whatever moment a writer is killed at, one whole generation can be read."""

import os

import pytest
from flockstep import BadFileError, _checkpoint


def contents(steps):
    return {"model": {}, "optimizer": {}, "steps": steps}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "run.pt"
    _checkpoint.write(path, contents(100), rank=0)
    _checkpoint.write(path, contents(200), rank=0)
    return path


def test_the_newest_is_read(file):
    assert _checkpoint.read(file)["steps"] == 200


def test_without_files_there_is_none(tmp_path):
    assert _checkpoint.read(tmp_path / "run.pt") is None


@pytest.mark.parametrize("calls", range(4))
def test_a_kill_while_it_is_written_leaves_a_whole_one(file, monkeypatch, calls):
    """The writer ends at each of its calls of the system that change a file's name or content."""
    left = [calls]

    def until_killed(call):
        def called(*arguments):
            if left[0] == 0:
                raise KeyboardInterrupt
            left[0] -= 1
            return call(*arguments)

        return called

    monkeypatch.setattr(os, "fsync", until_killed(os.fsync))
    monkeypatch.setattr(os, "replace", until_killed(os.replace))
    if calls < 3:
        with pytest.raises(KeyboardInterrupt):
            _checkpoint.write(file, contents(300), rank=0)
    else:
        _checkpoint.write(file, contents(300), rank=0)
    assert _checkpoint.read(file)["steps"] == (300 if calls == 3 else 200)


@pytest.mark.parametrize("damage", [lambda whole: whole[: len(whole) // 2], lambda whole: b"", lambda whole: b"text"])
def test_a_damaged_one_is_left_for_the_one_before(file, damage):
    file.write_bytes(damage(file.read_bytes()))
    assert _checkpoint.read(file)["steps"] == 100


def test_where_none_can_be_read_the_files_are_named(file):
    for damaged in (file, _checkpoint.previous(file)):
        damaged.write_bytes(b"text")
    with pytest.raises(BadFileError, match=r"run\.pt and .*run\.pt\.previous: remove the files"):
        _checkpoint.read(file)
