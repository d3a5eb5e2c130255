"""Two generations of checkpoints, and files that do not belong where they lie."""

import json
import shutil

import pytest
from conftest import refused, run, run_json
from layers import only
from live_run import generations, steps_of

STEPS = ["train", "--workers", 3, "--checkpoint-every", 5]


def file_of(out, step, rank):
    [name] = [each["name"] for each in generations(out) if each["step"] == step]
    return out / "checkpoint" / name / f"worker-{rank}.bin"


@pytest.fixture
def out(tmp_path):
    """A run with checkpoints after steps 10 and 15."""
    run_json(*STEPS, "--steps", 15, "--out", tmp_path / "run")
    return tmp_path / "run"


def truncate(out, step):
    file = file_of(out, step, 2)
    file.write_bytes(file.read_bytes()[:-100])


def put_another_workers(out, step):
    shutil.copy(file_of(out, step, 0), file_of(out, step, 1))


BAD = [
    (truncate, "worker-2.bin is not the file that was saved"),
    (put_another_workers, "worker-1.bin is the file of worker 0 of 3 after step 15, not of worker 1 of 3"),
]


@pytest.mark.parametrize(("damage", "sentence"), BAD, ids=lambda value: getattr(value, "__name__", ""))
@pytest.mark.parametrize("workers", only(0, of=[0, 3]), ids=["threads", "mpi"])
def test_a_bad_file_sends_all_workers_back_one_generation(out, workers, damage, sentence):
    """CheckpointsTest in tests/session has the other ways to be bad."""
    damage(out, 15)
    done = run(*STEPS, "--steps", 20, "--out", out, "--resume", "--json", workers=workers)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("flockstep: going back to the checkpoint after step 10: ") == 1
    assert sentence in done.stderr
    result = json.loads(done.stdout)
    assert sentence in result["notes"][0]
    assert result["model_hash"] == run_json("train", "--workers", 3, "--steps", 20)["model_hash"]
    assert steps_of(out) == list(range(1, 21))


def test_a_file_of_a_run_with_the_same_options_is_another_runs_too(tmp_path):
    """Where workers wait for nobody two runs differ: only what was written together may be read together."""
    train = [*STEPS, "--algorithm", "local_sgd", "--steps", 5]
    one, other = tmp_path / "one", tmp_path / "other"
    run_json(*train, "--out", one)
    run_json(*train, "--compute-ms", 1, "--out", other)  # other times in its measurements
    shutil.copy(file_of(other, 5, 1), file_of(one, 5, 1))
    names = "worker-1.bin is not the file that was saved"
    refused(*train, "--steps", 10, "--out", one, "--resume", names=names, code=1)


def test_two_bad_generations_end_the_run_with_one_sentence(out):
    before = (out / "metrics.jsonl").read_bytes()
    truncate(out, 15)
    file_of(out, 10, 0).unlink()
    names = (f"no checkpoint in {out}/checkpoint is whole: ", "worker-2.bin is not the file that was saved")
    refused(*STEPS, "--steps", 20, "--out", out, "--resume", names=names, code=1)
    assert (out / "metrics.jsonl").read_bytes() == before


NO_LIST = "checkpoint/latest does not list checkpoints as this version writes them"
LATER = "latest has schema 99, and this version of flockstep reads up to 1"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        *((text, NO_LIST) for text in ("15 3\n", "", '{"schema": 1, "generations": []}')),
        ('{"generations": [{"step": "x"}]}', NO_LIST),
        ('{"schema": 99, "generations": [{"step": 15}]}', LATER),
    ],
)
def test_a_list_of_checkpoints_that_cannot_be_read_is_a_failure(out, text, names):
    (out / "checkpoint" / "latest").write_text(text)
    refused(*STEPS, "--steps", 20, "--out", out, "--resume", names=names, code=1)


def test_resuming_without_the_metrics_says_what_is_missing(out):
    (out / "metrics.jsonl").unlink()
    refused(*STEPS, "--steps", 20, "--out", out, "--resume", names="metrics.jsonl is missing", code=1)
    refused(*STEPS, "--steps", 20, "--out", out, names="already holds a run")


@pytest.mark.parametrize("workers", [0, 3], ids=["threads", "mpi"])
def test_a_file_that_one_worker_cannot_write_ends_the_run_with_one_sentence(tmp_path, workers):
    beside = tmp_path / "checkpoint" / "a" / "worker-1.bin.part"
    beside.mkdir(parents=True)
    names = f"flockstep: cannot write {beside}: Is a directory"
    refused(*STEPS, "--steps", 20, "--out", tmp_path, names=names, code=1, workers=workers)
    assert not (tmp_path / "checkpoint" / "latest").exists()
