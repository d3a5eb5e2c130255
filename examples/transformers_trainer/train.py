"""Trains a small GPT-2 with the Trainer of Hugging Face transformers, under a gradient rule or an averager.

The model is made from its configuration, and the text is that of ../pytorch_gpt: nothing is downloaded.

torchrun --standalone --nproc-per-node 2 train.py [--with plain|adacons|...|flock|local_sgd|diloco] [--steps N]
                                                  [--accumulate N] [--out DIR] [--save-every STEPS] [--resume]
"""

import argparse
import sys
from pathlib import Path

import flockstep
import torch
from flockstep.integrations.transformers import AveragerCallback, RuleCallback
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

sys.path.append(str(Path(__file__).resolve().parents[1] / "pytorch_gpt"))  # the same text
from text import BYTES, bigram_loss, read

CONTEXT = 32
RULES = ["mean", "adacons", "direction_consensus", "geometric_median"]
AVERAGERS = {"flock": flockstep.Flock, "local_sgd": flockstep.LocalSGD, "diloco": flockstep.DiLoCo}


class Stretches(Dataset):
    """Stretches of a text, one after the other: a token is a byte."""

    def __init__(self, text: torch.Tensor) -> None:
        self.text = text[: len(text) // CONTEXT * CONTEXT].view(-1, CONTEXT)

    def __len__(self) -> int:
        return len(self.text)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.text[index], "labels": self.text[index]}


def parse(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--with", dest="algorithm", choices=["plain", *RULES, *AVERAGERS], default="adacons")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--accumulate", type=int, default=1, help="batches of a step")
    parser.add_argument("--save-every", type=int, default=100, help="steps between two checkpoints")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint")
    parser.add_argument("--out", type=Path, default=Path("runs/transformers"))
    return parser.parse_args(given)


def trainer_of(arguments: argparse.Namespace, train: torch.Tensor, validation: torch.Tensor) -> Trainer:
    set_seed(1)
    settings = TrainingArguments(
        arguments.out,
        use_cpu=not torch.cuda.is_available(),
        max_steps=arguments.steps,
        per_device_train_batch_size=16,
        per_device_eval_batch_size=128,
        gradient_accumulation_steps=arguments.accumulate,
        learning_rate=5e-3,
        lr_scheduler_type="constant",
        logging_steps=20,
        save_steps=arguments.save_every,
        ddp_find_unused_parameters=False,
        report_to="none",
        disable_tqdm=True,
    )  # which makes the process group
    config = GPT2Config(vocab_size=BYTES, n_positions=CONTEXT, n_embd=64, n_layer=2, n_head=4)
    config.bos_token_id = config.eos_token_id = 0
    config.loss_type = "ForCausalLM"
    model = GPT2LMHeadModel(config).to(settings.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, betas=(0.9, 0.98))
    if arguments.algorithm in AVERAGERS:
        optimizer = AVERAGERS[arguments.algorithm](optimizer, model)
    trainer = Trainer(
        model,
        settings,
        train_dataset=Stretches(train),
        eval_dataset=Stretches(validation),
        optimizers=(optimizer, None),
    )
    if arguments.algorithm in AVERAGERS:
        trainer.add_callback(AveragerCallback(trainer, optimizer))
    elif arguments.algorithm in RULES:
        trainer.add_callback(RuleCallback(trainer, arguments.algorithm))
    return trainer


def main() -> None:
    arguments = parse()
    torch.set_num_threads(1)  # the workers share the processors
    texts = read()
    trainer = trainer_of(arguments, *texts)
    trainer.train(resume_from_checkpoint=arguments.resume)
    loss = trainer.evaluate()["eval_loss"]
    if trainer.is_world_process_zero():
        print(f"validation: {arguments.algorithm} {loss:.3f}, bigram model {bigram_loss(*texts):.3f} nats a byte")


if __name__ == "__main__":
    main()
