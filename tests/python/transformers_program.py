"""Trainings of examples/transformers_trainer, one after the other, as a worker: what each came to, as JSON, a line a rank.

torchrun --nproc-per-node 2 transformers_program.py FOLDER
"""

import json
import sys
import warnings
from pathlib import Path

import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "transformers_trainer"))
import train
from text import read
from trainer_runs import digest, run_example
from transformers import GPT2LMHeadModel, PrinterCallback, TrainerCallback

OUT = Path(sys.argv[1])


class Looking(TrainerCallback):
    """What is there when a checkpoint is written, which each rank tells for itself."""

    def __init__(self):
        self.saved = {}

    def on_save(self, args, state, control, model=None, **others):
        self.saved[state.global_step] = digest(model.parameters())


def trained(name, texts, *options, resume=False):
    trainer = train.trainer_of(train.parse([*options, "--out", str(OUT / name)]), *texts)
    looking = Looking()
    trainer.add_callback(looking)
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=str(OUT / name / "checkpoint-20") if resume else None)
    return {
        "parameters": digest(trainer.model.parameters()),
        "saved": looking.saved,
        "logs": trainer.state.log_history,
        "steps": getattr(trainer.optimizer.optimizer, "steps", None),
    }


def main():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    run_example(train, OUT, "--steps", "20")
    texts = read()
    rule = ["--steps", "40", "--save-every", "20"]
    flock = ["--with", "flock", "--accumulate", "2", *rule]
    told = {"adacons": trained("adacons", texts, *rule), "flock": trained("flock", texts, *flock)}
    dist.barrier()  # rank 0 has written
    saved = GPT2LMHeadModel.from_pretrained(OUT / "flock" / "checkpoint-40")
    told["saved flock"] = digest(saved.parameters())
    told["adacons resumed"] = trained("adacons", texts, *rule, resume=True)
    told["flock resumed"] = trained("flock", texts, *flock, resume=True)
    print(json.dumps(told), flush=True)
    dist.barrier()
    dist.destroy_process_group()


main()
