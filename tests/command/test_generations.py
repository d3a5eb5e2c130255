"""Two generations of checkpoints, and files that do not belong where they lie."""

import json
import shutil

import pytest
from conftest import run, run_json
from layers import only
from live_run import generations

STEPS = ["train", "--workers", 3, "--checkpoint-every", 5]


def file_of(out, step, rank):
    [name] = [each["name"] for each in generations(out) if each["step"] == step]
    return out / "checkpoint" / name / f"worker-{rank}.bin"


@pytest.fixture
def out(tmp_path):
    """A run with checkpoints after steps 10 and 15."""
    run_json(*STEPS, "--steps", 15, "--out", tmp_path / "run")
    return tmp_path / "run"


def test_the_last_two_checkpoints_are_kept(out):
    assert sorted(path.name for path in (out / "checkpoint").iterdir()) == ["a", "b", "latest"]
    assert [each["step"] for each in generations(out)] == [15, 10]


def truncate(out, step):
    file = file_of(out, step, 2)
    file.write_bytes(file.read_bytes()[:-100])


def flip_a_bit(out, step):
    file = file_of(out, step, 1)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def remove(out, step):
    file_of(out, step, 0).unlink()


def put_another_workers(out, step):
    shutil.copy(file_of(out, step, 0), file_of(out, step, 1))


def put_one_of_another_size(out, step):
    run_json(*STEPS, "--workers", 2, "--steps", step, "--out", out.parent / "two")
    shutil.copy(file_of(out.parent / "two", step, 1), file_of(out, step, 1))


def put_one_of_another_run(out, step):
    run_json(*STEPS, "--seed", 2, "--steps", step, "--out", out.parent / "other")
    shutil.copy(file_of(out.parent / "other", step, 1), file_of(out, step, 1))


def put_one_of_another_step(out, step):
    shutil.copy(file_of(out, 10, 1), file_of(out, step, 1))


BAD = [
    (truncate, "worker-2.bin is not the file that was saved"),
    (flip_a_bit, "worker-1.bin is not the file that was saved"),
    (remove, "worker-0.bin: No such file"),
    (put_another_workers, "worker-1.bin is the file of worker 0 of 3 after step 15, not of worker 1 of 3"),
    (put_one_of_another_size, "worker-1.bin is not the file that was saved"),
    (put_one_of_another_run, "worker-1.bin is not the file that was saved"),
    (put_one_of_another_step, "worker-1.bin is the file of worker 1 of 3 after step 10, not of worker 1 of 3"),
]


@pytest.mark.parametrize(("damage", "sentence"), BAD, ids=lambda value: getattr(value, "__name__", ""))
@pytest.mark.parametrize("engine", only("threads", of=["threads", "mpi"]))
def test_a_bad_file_sends_everybody_back_one_generation(needs, out, engine, damage, sentence):
    needs(engine)
    damage(out, 15)
    here = {"workers": 3} if engine == "mpi" else {}
    done = run(*STEPS, "--steps", 20, "--out", out, "--resume", "--json", **here)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("flockstep: going back to the checkpoint after step 10: ") == 1
    assert sentence in done.stderr
    result = json.loads(done.stdout)
    assert sentence in result["notes"][0]
    assert result["model_hash"] == run_json("train", "--workers", 3, "--steps", 20)["model_hash"]
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line["kind"] == "step"] == list(range(1, 21))


def test_a_file_of_a_run_with_the_same_options_is_another_runs_too(tmp_path):
    """Where workers wait for nobody two runs differ: only what was written together may be read together."""
    train = [*STEPS, "--algorithm", "local_sgd", "--steps", 5]
    run_json(*train, "--out", tmp_path / "one")
    run_json(*train, "--compute-ms", 1, "--out", tmp_path / "other")  # other times in its measurements
    shutil.copy(file_of(tmp_path / "other", 5, 1), file_of(tmp_path / "one", 5, 1))
    done = run(*train, "--steps", 10, "--out", tmp_path / "one", "--resume")
    assert done.returncode == 1
    assert "worker-1.bin is not the file that was saved" in done.stderr


def test_two_bad_generations_end_the_run_with_one_sentence(out):
    before = (out / "metrics.jsonl").read_bytes()
    truncate(out, 15)
    remove(out, 10)
    done = run(*STEPS, "--steps", 20, "--out", out, "--resume")
    assert done.returncode == 1
    assert f"no checkpoint in {out}/checkpoint is whole: " in done.stderr
    assert "worker-2.bin is not the file that was saved (its checksum is wrong)" in done.stderr
    assert done.stderr.count("\n") == 1
    assert (out / "metrics.jsonl").read_bytes() == before


def test_another_number_of_workers_needs_worker_zeros_file_only(out):
    truncate(out, 15)
    result = run_json(*STEPS, "--workers", 2, "--batch", 48, "--steps", 20, "--out", out, "--resume")
    assert result["steps"] == 20
    assert [note for note in result["notes"] if "going back" in note] == []


@pytest.mark.parametrize(
    "text", ["15 3\n", "", "garbage", '{"schema": 1, "generations": []}', '{"generations": [{"step": "x"}]}', "\0\0"]
)
def test_a_list_of_checkpoints_that_cannot_be_read_is_a_failure(out, text):
    (out / "checkpoint" / "latest").write_text(text)
    done = run(*STEPS, "--steps", 20, "--out", out, "--resume")
    assert done.returncode == 1
    assert "checkpoint/latest does not list checkpoints as this version writes them" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_list_of_a_later_version_is_refused_with_its_number(out):
    latest = out / "checkpoint" / "latest"
    latest.write_text(json.dumps({**json.loads(latest.read_text()), "schema": 99}))
    done = run(*STEPS, "--steps", 20, "--out", out, "--resume")
    assert done.returncode == 1
    assert "latest has schema 99, and this version of flockstep reads up to 1" in done.stderr


def test_resuming_without_the_metrics_says_what_is_missing(out):
    (out / "metrics.jsonl").unlink()
    done = run(*STEPS, "--steps", 20, "--out", out, "--resume")
    assert done.returncode == 1
    assert "metrics.jsonl is missing" in done.stderr
    done = run(*STEPS, "--steps", 20, "--out", out)
    assert done.returncode == 2
    assert "already holds a run" in done.stderr


@pytest.mark.parametrize("engine", ["threads", "mpi"])
def test_a_file_that_one_worker_cannot_write_ends_the_run_with_one_sentence(needs, tmp_path, engine):
    needs(engine)
    beside = tmp_path / "checkpoint" / "a" / "worker-1.bin.part"
    beside.mkdir(parents=True)
    here = {"workers": 3} if engine == "mpi" else {}
    done = run(*STEPS, "--steps", 20, "--out", tmp_path, **here)
    assert done.returncode == 1
    assert done.stderr.count(f"flockstep: cannot write {beside}: Is a directory") == 1
    assert not (tmp_path / "checkpoint" / "latest").exists()
