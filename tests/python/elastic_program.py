"""A worker of an elastic run, which tells what it does in lines of JSON. Started by the launcher.

elastic_program.py FOLDER [OPTION=VALUE ...]    options of the averager, and `algorithm`, `steps`, `saves`=1, `timeout_s`,
                                                `killed_at_end`, the rank that is killed after close(), and `waits`=1: one
                                                that is started again waits for the file `return`

It trains for `steps`, or until the file `end` is there: worker 0 then writes the number of the last step into the file `steps`.
"""

import hashlib
import json
import logging
import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

import flockstep
import torch
from torch import nn


def main(folder, *options):
    torch.set_num_threads(1)
    chosen = dict(option.split("=") for option in options)
    averager = getattr(flockstep, chosen.pop("algorithm", "Flock"))
    first_step, steps = int(chosen.pop("first_step", 0)), int(chosen.pop("steps", 100_000))
    killed_at_end, saves = chosen.pop("killed_at_end", None), chosen.pop("saves", None)
    waits = chosen.pop("waits", None)
    timeout = timedelta(seconds=float(chosen.pop("timeout_s", 300)))
    more = {name: value if name == "checkpoint" else int(value) for name, value in chosen.items()}
    rank, restarts = (int(os.environ[f"FLOCKSTEP_{name}"]) for name in ("RANK", "RESTARTS"))
    notes = open(Path(folder) / f"{rank}.jsonl", "a", buffering=1)  # noqa: SIM115 (open to the end)

    def note(what, **more):
        notes.write(json.dumps({"what": what, "pid": os.getpid(), "restarts": restarts, **more}) + "\n")

    while waits and restarts and not (Path(folder) / "return").exists():
        time.sleep(0.01)

    class Notes(logging.Handler):
        def emit(self, record):
            note("warning", sentence=record.getMessage())

    logging.getLogger("flockstep").addHandler(Notes(logging.WARNING))
    torch.manual_seed(rank)  # all begin with models of their own
    model = nn.Sequential(nn.Linear(20, 30), nn.BatchNorm1d(30), nn.Linear(30, 2))
    inner = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    try:
        optimizer = averager(inner, model, elastic=True, first_step=first_step, timeout=timeout, **more)
    except flockstep.Error as error:
        note("refused", sentence=str(error))
        raise
    has_momentum = len(inner.state) > 0
    note("joined", steps=optimizer.steps, incarnation=optimizer.incarnation, has_momentum=has_momentum)
    lives = {optimizer.incarnation}
    ending, last = Path(folder) / "end", Path(folder) / "steps"

    def is_last():
        if rank == 0 and ending.exists() and not last.exists():  # no other worker is that far ahead
            unfinished = last.with_name("unfinished")
            unfinished.write_text(str(optimizer.steps + 100))
            unfinished.rename(last)
        return optimizer.steps >= (int(last.read_text()) if last.exists() else steps)

    while not is_last():
        optimizer.zero_grad()
        model(torch.randn(8, 20)).square().mean().backward()
        time.sleep(0.01)
        try:
            optimizer.step()
        except flockstep.Error as error:
            note("failed", sentence=str(error))
            raise
        if optimizer.incarnation not in lives:
            lives.add(optimizer.incarnation)
            note("joined anew", steps=optimizer.steps, incarnation=optimizer.incarnation)
        note("step", steps=optimizer.steps)
        if saves and rank == 0:
            optimizer.save_checkpoint()
            note("saved", steps=optimizer.steps)
    optimizer.consolidate()
    state = b"".join(tensor.numpy().tobytes() for tensor in model.state_dict().values() if tensor.is_floating_point())
    note("done", steps=optimizer.steps, model=hashlib.sha256(state).hexdigest())
    optimizer.close()
    if killed_at_end == str(rank):
        os.kill(os.getpid(), signal.SIGKILL)
    while killed_at_end and not (Path(folder) / "leave").exists():
        time.sleep(0.01)


if __name__ == "__main__":
    main(*sys.argv[1:])
