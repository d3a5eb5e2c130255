"""What the ranks of a program returned, by case: see cases.py."""

import functools
import json
from pathlib import Path

import pytest
from launching import run_workers


class Results:
    """Runs a program as tests ask for its cases, a dozen in each process group.

    A case that hangs, or that ends a worker, has failed; the other cases of its dozen run in the next process group.
    """

    def __init__(self, program, workers, *arguments, only=()):
        self.program, self.workers, self.arguments, self.only = program, workers, arguments, only
        self.outcomes = {}  # what each rank returned or raised, or a text that says why that is not known

    def __getitem__(self, name):
        """What each rank returned. Fails the test if a rank raised something."""
        if name not in self.outcomes:
            self._run_dozen(name)
        outcome = self.outcomes[name]
        assert not isinstance(outcome, str), outcome
        errors = [each["error"] for each in outcome if "error" in each]
        assert not errors, errors[0]
        return [each["value"] for each in outcome]

    def _run_dozen(self, name):
        asked = json.dumps({"first": name, "done": [*self.outcomes], "only": self.only})
        ranks = run_workers(self.program, self.workers, *self.arguments, f"--cases={asked}", torchrun=True)
        last = name
        for line in ranks[0].stdout.splitlines():
            kind, _, text = line.partition(" ")
            if kind == "CASE":
                last = text
            elif kind == "OUTCOME":
                self.outcomes |= json.loads(text)
        if any(rank.returncode for rank in ranks) or name not in self.outcomes:
            ends = [f"rank {number} ended with {rank.returncode}:\n{rank.stderr}" for number, rank in enumerate(ranks)]
            self.outcomes[last] = "\n".join([f"the workers ended in the case {last}, or after it", *ends])


def each_of(cases):
    """For pytest: the name of each of these Cases, and the size of each world that runs it."""
    return pytest.mark.parametrize(
        ("case", "workers"),
        [
            pytest.param(name, workers, marks=[pytest.mark.thorough] * thorough, id=f"{name}, {workers} workers")
            for name, workers, thorough, _ in cases.known
        ],
    )


def worlds(program, *arguments):
    """of(case, workers): runs a case of a program of this folder on so many ranks; what each returned."""
    path = Path(__file__).with_name(program)
    results = functools.cache(lambda workers: Results(path, workers, *arguments))
    return lambda case, workers: results(workers)[case]
