"""Fits of examples/lightning, one after the other, as a worker: what each came to, as JSON, a line for each rank.

torchrun --nproc-per-node 2 lightning_program.py FOLDER
"""

import csv
import hashlib
import json
import logging
import os
import sys
import warnings
from pathlib import Path

import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "lightning"))
import train
from lightning.pytorch import Callback

OUT = Path(sys.argv[1])


def digest(tensors):
    return hashlib.sha256(b"".join(tensor.detach().contiguous().numpy() for tensor in tensors)).hexdigest()


class Looking(Callback):
    """What a user's own callbacks would see."""

    def __init__(self):
        self.saved, self.steps_at_start, self.losses, self.in_validation = {}, None, [], []

    def averager(self, trainer):
        return next((each for each in trainer.optimizers if hasattr(each, "consolidate")), None)

    def on_train_start(self, trainer, pl_module):
        averager = self.averager(trainer)
        rules = [each.state for each in trainer.callbacks if isinstance(each, train.RuleCallback)]
        self.steps_at_start = averager.steps if averager else [rule.step for rule in rules]

    def on_train_batch_end(self, trainer, pl_module, outputs, *others):
        self.losses.append(outputs["loss"].item())

    def on_validation_batch_start(self, trainer, pl_module, *others):
        self.in_validation.append(digest(pl_module.parameters()))

    def on_save_checkpoint(self, trainer, pl_module, checkpoint):
        self.saved[trainer.global_step] = digest(checkpoint["state_dict"].values())


def fitted(name, *options):
    looking = Looking()
    trainer, model = train.fit(train.parse([*options, "--out", str(OUT / name)]), looking)
    return {
        "parameters": digest(model.parameters()),
        "accuracy": float(trainer.callback_metrics["accuracy"]),
        "steps": trainer.global_step,
        "steps_at_start": looking.steps_at_start,
        "losses": looking.losses,
        "saved": looking.saved,
        "in_validation": looking.in_validation,
    }


def rows_of(name):
    with (OUT / name / "metrics.csv").open() as file:
        rows = [{key: float(value) for key, value in row.items() if value} for row in csv.DictReader(file)]
    return [row for row in rows if "flockstep/step" in row]


def error_of(**changes):
    """What the trainer says to a module that an averager cannot have."""
    kept = {name: getattr(train.Classifier, name) for name in changes}
    for name, value in changes.items():
        setattr(train.Classifier, name, value)
    try:
        fitted("refused", "--with", "flock", "--batches", "2")
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        for name, value in kept.items():
            setattr(train.Classifier, name, value)
    return ""


def two_optimizers(self):
    self.automatic_optimization = False
    layers = [self.network[0], self.network[4]]
    return [torch.optim.SGD(layer.parameters(), lr=0.01) for layer in layers]


def fitted_twice():
    """By two trainers with the same callback, the first of which goes on from a checkpoint: how many steps the rule counts."""
    callback = train.RuleCallback("adacons")
    kept, train.parallel = train.parallel, lambda algorithm: (train.DDPStrategy(), [callback])
    counted = []
    for name, more in (("first", ["--resume", str(OUT / "adacons" / "step=40.ckpt")]), ("second", [])):
        fitted(name, "--batches", "40" if more else "5", "--epochs", "2" if more else "1", *more)
        counted.append(callback.state.step)
    train.parallel = kept
    return counted


def run_example():
    """As from the command line, with no more than it needs."""
    given, sys.argv = sys.argv, ["train.py", "--epochs", "1", "--batches", "20"]
    os.chdir(OUT)
    train.main()
    sys.argv = given


def main():
    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    run_example()
    short = ["--batches", "40"]
    mixed = ["--batches", "46", "--accumulate", "2", "--precision", "bf16-mixed"]  # 23 steps: not where Flock meets
    told = {
        "adacons": fitted("adacons", "--with", "adacons", "--epochs", "2", *short),
        "adacons resumed": fitted(
            "resumed", "--with", "adacons", "--epochs", "2", *short, "--resume", str(OUT / "adacons" / "step=40.ckpt")
        ),
        "hook": fitted("hook", "--with", "hook", "--epochs", "2", *mixed),
        "flock": fitted("flock", "--with", "flock", *mixed, "--epochs", "2", "--save-every", "15"),
        "flock resumed": fitted(
            "flock_resumed", "--with", "flock", *mixed, "--epochs", "3", "--resume", str(OUT / "flock" / "step=30.ckpt")
        ),
        "fitted twice": fitted_twice(),
        "two optimizers": error_of(configure_optimizers=two_optimizers),
    }
    dist.barrier()  # rank 0 writes files
    told["rows"] = {name: rows_of(name) for name in ("adacons", "hook", "flock")}
    print(json.dumps(told), flush=True)
    dist.destroy_process_group()


main()
