"""Runs whose workers are lost, come back and are added: under the launcher, with real kills."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import flockstep
import pytest
import torch
from launching import environment, run_program
from layers import only
from paths import HANG_S

PROGRAM = Path(__file__).with_name("elastic_program.py")
LAUNCH = [sys.executable, "-m", "flockstep.launch"]
WORKERS = 3


class Run:
    """A launcher and what its workers note."""

    def __init__(self, folder, steps, *options, launcher=(), workers=WORKERS, before=()):
        self.folder = folder
        worker = [sys.executable, str(PROGRAM), str(folder), str(steps), *options]
        self.process = subprocess.Popen(
            [*before, *LAUNCH, "--workers", str(workers), *map(str, launcher), "--", *worker],
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def notes(self, rank):
        path = self.folder / f"{rank}.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line) for line in lines if line.endswith("}")]

    def to_join(self):
        """What a launcher takes to add workers to this run, once it trains."""
        self.wait(0, "step", 10)
        announced = self.process.stderr.readline().split()
        return [word for name in ("--join", "--secret-file") for word in (name, announced[announced.index(name) + 1])]

    def wait(self, rank, what, count=1):
        """For the last of so many notes of this kind."""

        def found():
            return [note for note in self.notes(rank) if note["what"] == what]

        self.wait_until(
            lambda: len(found()) >= count, f"worker {rank} has not noted {what}", may_fail=what == "refused"
        )
        return found()[-1]

    def wait_until(self, is_so, otherwise, *, may_fail=False):
        end = time.monotonic() + HANG_S
        while not is_so():
            assert self.process.poll() in (None, 0) or may_fail, self.process.communicate()[1]
            assert time.monotonic() < end, (otherwise, [self.notes(rank)[-3:] for rank in range(8)])
            time.sleep(0.01)

    def take_more_steps(self, rank):
        """Waits until a worker has taken so many more steps that it waits for none that is away."""
        self.wait(rank, "step", len(self.notes(rank)) + 60)

    def end_soon(self):
        """A while after the newest step of all, so that nobody is beyond it."""
        newest = max(note.get("steps", 0) for rank in range(8) for note in self.notes(rank))
        path = self.folder / "new_steps"
        path.write_text(str(newest + 100))
        path.rename(self.folder / "steps")

    def end(self):
        try:
            _, errors = self.process.communicate(timeout=HANG_S)
        finally:
            self.kill()
        assert self.process.returncode == 0, errors
        return errors

    def kill(self):
        self.process.kill()
        for path in self.folder.glob("*.jsonl"):
            for note in self.notes(int(path.stem)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(note["pid"], signal.SIGKILL)


@pytest.fixture
def start(tmp_path):
    runs = []

    def started(*arguments, **keywords):
        runs.append(Run(tmp_path, *arguments, **keywords))
        return runs[-1]

    started.folder = tmp_path
    yield started
    for run in runs:
        run.kill()


def models(run, ranks):
    return {note["model"] for rank in ranks for note in run.notes(rank) if note["what"] == "done"}


@pytest.mark.parametrize("algorithm", only("Flock", of=["Flock", "Wagma"]))
def test_the_others_go_on_without_a_killed_worker_which_joins_them_again(start, algorithm):
    run = start(100_000, f"algorithm={algorithm}", "waits=1")
    for rank in range(WORKERS):
        run.wait(rank, "step", 20)
    os.kill(run.wait(1, "joined")["pid"], signal.SIGKILL)
    for rank in (0, 2):
        run.take_more_steps(rank)
    (run.folder / "return").touch()
    joined = run.wait(1, "joined", 2)
    assert joined["steps"] > 20
    assert joined["incarnation"] == 2
    run.end_soon()
    errors = run.end()
    assert "worker 1 was killed by SIGKILL" in errors
    assert len(models(run, range(WORKERS))) == 1
    for rank in (0, 2):
        steps = [note["steps"] for note in run.notes(rank) if note["what"] == "step"]
        first = run.notes(rank)[0]["steps"] + 1  # of a worker that came too late for the start: a later one
        assert steps == list(range(first, first + len(steps))), "each step once, in its order"


@pytest.mark.parametrize("averager", [flockstep.ADPSGD, flockstep.Swarm])
def test_an_averager_in_pairs_refuses_to_be_elastic(averager):
    model = torch.nn.Linear(2, 1)
    with pytest.raises(
        flockstep.BadInputError, match=r"cannot continue without a lost worker.*Flock or flockstep\.Wagma"
    ):
        averager(torch.optim.SGD(model.parameters(), lr=0.1), model, elastic=True)


@pytest.mark.thorough
def test_a_run_grows(start):
    run = start(100_000, workers=2)
    more = start(100_000, workers=1, launcher=run.to_join())
    joined = more.wait(2, "joined")
    assert joined["steps"] > 0
    run.end_soon()
    more.end()
    run.end()
    assert len(models(run, range(3))) == 1


@pytest.mark.thorough
def test_a_worker_that_was_only_slow_joins_anew(start):
    run = start(100_000, launcher=["--heartbeat", "2s"])
    for rank in range(WORKERS):
        run.wait(rank, "step", 20)
    slow = run.wait(1, "joined")["pid"]
    os.kill(slow, signal.SIGSTOP)
    run.take_more_steps(0)
    os.kill(slow, signal.SIGCONT)
    anew = run.wait(1, "joined anew")
    assert anew["incarnation"] == 2
    run.end_soon()
    run.end()
    assert len(models(run, range(WORKERS))) == 1
    assert len([note for note in run.notes(1) if note["what"] == "joined"]) == 1, "it is the same process"


@pytest.mark.thorough
def test_who_begins_goes_on_from_its_own_step_and_who_joins_from_the_others(start):
    run = start(130, "first_step=100")
    run.end()
    assert {run.notes(rank)[0]["steps"] >= 100 for rank in range(WORKERS)} == {True}
    assert len(models(run, range(WORKERS))) == 1


@pytest.mark.thorough
def test_a_worker_that_is_killed_after_the_end_trains_no_second_run(start):
    run = start(60, "killed_at_end=1", workers=2)
    run.wait(0, "done")
    run.process.stderr.readline()  # that they were started
    ending = run.process.stderr.readline()
    (run.folder / "leave").touch()
    assert "worker 1 was killed by SIGKILL" in ending
    assert "another worker has finished" in ending
    run.end()
    assert [note["restarts"] for note in run.notes(1) if note["what"] == "joined"] == [0]


@pytest.mark.thorough
def test_an_early_end_is_told(start):
    run = start(3000, "ends_early=1", workers=2)
    run.process.stderr.readline()  # that they were started
    assert "worker 1 ended early" in run.process.stderr.readline()
    run.end_soon()
    run.end()


@pytest.mark.thorough
def test_workers_that_all_died_go_on_from_their_checkpoint(start):
    run = start(100_000, f"checkpoint={start.folder / 'run.pt'}", "saves=1", workers=2)
    saved = run.wait(0, "saved", 10)["steps"]
    for pid in [run.wait(rank, "joined")["pid"] for rank in range(2)]:
        os.kill(pid, signal.SIGKILL)
    joined = run.wait(0, "joined", 2)
    assert joined["steps"] >= saved
    assert joined["has_momentum"]
    run.wait(1, "joined", 2)
    run.end_soon()
    run.end()
    assert len(models(run, range(2))) == 1


@pytest.mark.thorough
def test_workers_that_all_died_without_a_checkpoint_begin_no_second_run(start):
    run = start(100_000, workers=1)
    run.wait(0, "step", 10)
    os.kill(run.wait(0, "joined")["pid"], signal.SIGKILL)
    assert "load a checkpoint" in run.wait(0, "refused")["sentence"]


@pytest.mark.thorough
def test_a_worker_that_finds_others_reads_no_checkpoint(start):
    file = start.folder / "run.pt"
    run = start(100_000, f"checkpoint={file}", workers=2)
    for rank in range(2):
        run.wait(rank, "step", 5)
    for damaged in (file, file.with_name("run.pt.previous")):
        damaged.write_bytes(b"no checkpoint")
    os.kill(run.wait(1, "joined")["pid"], signal.SIGKILL)
    assert run.wait(1, "joined", 2)["steps"] > 0
    run.end_soon()
    run.end()


@pytest.mark.thorough
def test_who_has_other_options_is_refused(start):
    run = start(100_000, workers=2)
    other = start(100_000, "period=5", workers=1, launcher=[*run.to_join(), "--restarts", 0])
    refused = other.wait(2, "refused")
    assert "cannot join the run of worker" in refused["sentence"]
    run.end_soon()
    run.end()
    assert len(models(run, range(2))) == 1


def test_without_a_launcher_one_sentence_says_what_to_do():
    done = run_program([sys.executable, PROGRAM, ".", 1], env=environment(FLOCKSTEP_RANK="0", FLOCKSTEP_RESTARTS="0"))
    assert done.returncode == 1
    assert "FLOCKSTEP_" in done.stderr.splitlines()[-1]
