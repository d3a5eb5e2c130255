"""Fits of examples/lightning, one after the other, as a worker: what each came to, as JSON, a line for each rank.

torchrun --nproc-per-node 2 lightning_program.py FOLDER
"""

import csv
import json
import logging
import sys
import warnings
from pathlib import Path
from unittest.mock import patch

import flockstep
import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "lightning"))
import train
from lightning.pytorch import Callback
from trainer_runs import digest, run_example

OUT = Path(sys.argv[1])


class Looking(Callback):
    """What a user's own callbacks would see."""

    def __init__(self):
        self.saved, self.steps_at_start, self.losses, self.in_validation = {}, None, [], []

    def on_train_start(self, trainer, pl_module):
        averagers = [each.steps for each in trainer.optimizers if hasattr(each, "consolidate")]
        self.steps_at_start = averagers or [
            each.state.step for each in trainer.callbacks if isinstance(each, train.RuleCallback)
        ]

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
        **{name: getattr(looking, name) for name in ("saved", "steps_at_start", "losses", "in_validation")},
    }


def rows_of(name):
    with (OUT / name / "metrics.csv").open() as file:
        rows = [{key: float(value) for key, value in row.items() if value} for row in csv.DictReader(file)]
    return [row for row in rows if "flockstep/step" in row]


def two_optimizers(self):
    self.automatic_optimization = False
    return [torch.optim.SGD(self.network[layer].parameters(), lr=0.01) for layer in (0, 4)]


@patch.object(train.Classifier, "configure_optimizers", two_optimizers)
def refusal_of_two_optimizers():
    try:
        fitted("refused", "--with", "flock", "--batches", "2")
    except flockstep.Error as error:
        return f"{type(error).__name__}: {error}"
    return ""


def fitted_twice():
    """By two trainers with the same callback, the first of which goes on from a checkpoint: how many steps the rule counts."""
    callback = train.RuleCallback("adacons")
    counted = []
    with patch.object(train, "parallel", lambda algorithm: (train.DDPStrategy(), [callback])):
        for options in (
            ["--batches", "40", "--epochs", "2", *resuming("adacons", 40)],
            ["--batches", "5", "--epochs", "1"],
        ):
            fitted(f"fitted {len(counted)}", *options)
            counted.append(callback.state.step)
    return counted


def resuming(name, step):
    return ["--resume", str(OUT / name / f"step={step}.ckpt")]


def main():
    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    run_example(train, OUT, "--epochs", "1", "--batches", "20")
    rule = ["--with", "adacons", "--epochs", "2", "--batches", "40"]
    mixed = ["--batches", "46", "--accumulate", "2", "--precision", "bf16-mixed"]  # 23 steps: not where Flock meets
    told = {
        "adacons": fitted("adacons", *rule),
        "adacons resumed": fitted("resumed", *rule, *resuming("adacons", 40)),
        "hook": fitted("hook", "--with", "hook", "--epochs", "2", *mixed),
        "flock": fitted("flock", "--with", "flock", *mixed, "--epochs", "2", "--save-every", "15"),
        "flock resumed": fitted("flock_resumed", "--with", "flock", *mixed, "--epochs", "3", *resuming("flock", 30)),
        "fitted twice": fitted_twice(),
        "two optimizers": refusal_of_two_optimizers(),
    }
    dist.barrier()  # rank 0 writes files
    told["rows"] = {name: rows_of(name) for name in ("adacons", "hook", "flock")}
    print(json.dumps(told), flush=True)
    dist.destroy_process_group()


main()
