"""Runs whose workers are lost, come back and are added: under the launcher, with real kills."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from launching import environment, run_program
from layers import only
from paths import HANG_S

PROGRAM = Path(__file__).with_name("elastic_program.py")
LAUNCH = [sys.executable, "-m", "flockstep.launch"]
WORKERS = 3


class Run:
    """A launcher, what it says, and what its workers note."""

    def __init__(self, folder, *options, launcher=(), workers=WORKERS, before=()):
        self.folder = folder
        worker = [sys.executable, str(PROGRAM), str(folder), *options]
        with tempfile.NamedTemporaryFile(dir=folder, suffix=".txt", delete=False) as said:
            self.said = Path(said.name)
            self.process = subprocess.Popen(
                [*before, *LAUNCH, "--workers", str(workers), *map(str, launcher), "--", *worker],
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                start_new_session=True,
            )

    def errors(self):
        return self.said.read_text()

    def notes(self, rank, *kinds):
        path = self.folder / f"{rank}.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        notes = [json.loads(line) for line in lines if line.endswith("}")]
        return [note for note in notes if not kinds or note["what"] in kinds]

    def to_join(self):
        """What a launcher takes to add workers to this run, once it trains."""
        self.wait(0, "step", 10)
        announced = self.wait_to_say("--secret-file").split()
        return [word for name in ("--join", "--secret-file") for word in (name, announced[announced.index(name) + 1])]

    def wait(self, rank, what, count=1):
        """For the last of so many notes of this kind."""
        may_fail = what == "refused"
        self.wait_until(lambda: len(self.notes(rank, what)) >= count, f"worker {rank}: {what}", may_fail=may_fail)
        return self.notes(rank, what)[-1]

    def wait_to_say(self, words):
        """For words of the launcher; returns all that it has said."""
        self.wait_until(lambda: words in self.errors(), words)
        return self.errors()

    def wait_until(self, is_so, otherwise, *, may_fail=False):
        end = time.monotonic() + HANG_S
        while not is_so():
            assert self.process.poll() in (None, 0) or may_fail, self.errors()
            assert time.monotonic() < end, (otherwise, self.errors(), [self.notes(rank)[-3:] for rank in range(8)])
            time.sleep(0.01)

    def train(self, steps=20):
        for rank in range(WORKERS):
            self.wait(rank, "step", steps)

    def take_more_steps(self, rank):
        """Waits until a worker has taken so many more steps that it waits for none that is away."""
        self.wait(rank, "step", len(self.notes(rank)) + 60)

    def kill_worker(self, rank):
        os.kill(self.wait(rank, "joined")["pid"], signal.SIGKILL)

    def end(self, at_once=False):
        """Ends well; what the launcher has said. Worker 0 chooses the last step, unless all workers end by themselves."""
        if not at_once:
            (self.folder / "end").touch()
        try:
            self.process.wait(timeout=HANG_S)
        finally:
            self.kill()
        assert self.process.returncode == 0, self.errors()
        return self.errors()

    def kill(self):
        self.process.kill()
        self.process.wait()
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


def assert_one_model(run, workers):
    assert len({note["model"] for rank in range(workers) for note in run.notes(rank, "done")}) == 1


@pytest.mark.parametrize("algorithm", only("Flock", of=["Flock", "Wagma"]))
def test_the_others_go_on_without_a_killed_worker_which_joins_them_again(start, algorithm):
    run = start(f"algorithm={algorithm}", "waits=1")
    run.train()
    run.kill_worker(1)
    for rank in (0, 2):
        run.take_more_steps(rank)
    (run.folder / "return").touch()
    joined = run.wait(1, "joined", 2)
    assert joined["steps"] > 20
    assert joined["incarnation"] >= 2
    assert "worker 1 was killed by SIGKILL" in run.end()
    assert_one_model(run, WORKERS)
    for rank in (0, 2):
        steps = [note["steps"] for note in run.notes(rank, "step")]
        first = run.notes(rank)[0]["steps"] + 1  # of a worker that came too late for the start: a later one
        assert steps == list(range(first, first + len(steps))), "each step once, in its order"


@pytest.mark.thorough
def test_a_run_grows(start):
    run = start(workers=2)
    more = start(workers=1, launcher=run.to_join())
    assert more.wait(2, "joined")["steps"] > 0
    more.end()
    run.end()
    assert_one_model(run, 3)


@pytest.mark.thorough
def test_a_worker_that_was_only_slow_joins_anew(start):
    run = start(launcher=["--heartbeat", "2s"])
    run.train()
    slow = run.wait(1, "joined")["pid"]
    os.kill(slow, signal.SIGSTOP)
    run.take_more_steps(0)
    os.kill(slow, signal.SIGCONT)
    assert run.wait(1, "joined anew")["incarnation"] >= 2
    run.end()
    assert_one_model(run, WORKERS)
    assert len(run.notes(1, "joined")) == 1, "it is the same process"


@pytest.mark.thorough
def test_a_worker_that_begins_goes_on_from_its_own_step_and_one_that_joins_from_the_others(start):
    run = start("steps=130", "first_step=100")
    run.end(at_once=True)
    assert {run.notes(rank)[0]["steps"] >= 100 for rank in range(WORKERS)} == {True}
    assert_one_model(run, WORKERS)


@pytest.mark.thorough
def test_a_worker_that_is_killed_after_the_end_trains_no_second_run(start):
    run = start("steps=60", "killed_at_end=1", workers=2)
    run.wait(0, "done")
    assert "worker 1 was killed by SIGKILL" in run.wait_to_say("another worker has finished")
    (run.folder / "leave").touch()
    run.end(at_once=True)
    assert [note["restarts"] for note in run.notes(1, "joined")] == [0]


@pytest.mark.thorough
def test_workers_that_all_died_go_on_from_their_checkpoint(start):
    run = start(f"checkpoint={start.folder / 'run.pt'}", "saves=1", workers=2)
    saved = run.wait(0, "saved", 10)["steps"]
    for pid in [run.wait(rank, "joined")["pid"] for rank in range(2)]:
        os.kill(pid, signal.SIGKILL)
    joined = run.wait(0, "joined", 2)
    assert joined["steps"] >= saved
    assert joined["has_momentum"]
    run.wait(1, "joined", 2)
    run.end()
    assert_one_model(run, 2)


@pytest.mark.thorough
def test_a_worker_that_finds_others_reads_no_checkpoint(start):
    file = start.folder / "run.pt"
    run = start(f"checkpoint={file}", workers=2)
    for rank in range(2):
        run.wait(rank, "step", 5)
    for damaged in (file, file.with_name("run.pt.previous")):
        damaged.write_bytes(b"no checkpoint")
    run.kill_worker(1)
    assert run.wait(1, "joined", 2)["steps"] > 0
    run.end()


@pytest.mark.thorough
def test_a_worker_with_other_options_is_refused(start):
    run = start(workers=2)
    other = start("period=5", workers=1, launcher=[*run.to_join(), "--restarts", 0])
    assert "cannot join the run of worker" in other.wait(2, "refused")["sentence"]
    run.end()
    assert_one_model(run, 2)


def test_without_a_launcher_one_sentence_says_what_to_do():
    done = run_program([sys.executable, PROGRAM, "."], env=environment(FLOCKSTEP_RANK="0", FLOCKSTEP_RESTARTS="0"))
    assert done.returncode == 1
    assert "FLOCKSTEP_" in done.stderr.splitlines()[-1]
