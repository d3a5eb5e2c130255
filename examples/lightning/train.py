"""Trains the network of ../pytorch_ddp with Lightning: a gradient rule or an averager is one callback.

torchrun --standalone --nproc-per-node 2 train.py [--with plain|hook|adacons|...|flock|local_sgd|diloco] [--epochs N]
                                                  [--batches N] [--accumulate N] [--precision P] [--save-every STEPS]
                                                  [--resume FILE] [--out DIR]
"""

import argparse
import os
import sys
from pathlib import Path

import flockstep
import torch
from flockstep.integrations.lightning import AveragerCallback, RuleCallback
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.strategies import DDPStrategy
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

sys.path.append(str(Path(__file__).resolve().parents[1] / "pytorch_ddp"))  # the same data and network
from fashion import Net, images

RULES = ["mean", "adacons", "direction_consensus", "geometric_median"]
AVERAGERS = {"flock": flockstep.Flock, "local_sgd": flockstep.LocalSGD, "diloco": flockstep.DiLoCo}


class Classifier(LightningModule):
    """Nothing here knows of Flockstep."""

    def __init__(self) -> None:
        super().__init__()
        self.network = Net()

    def training_step(self, batch, index):
        pictures, labels = batch
        loss = cross_entropy(self.network(pictures), labels)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, index):
        pictures, labels = batch
        right = (self.network(pictures).argmax(1) == labels).float().mean()
        self.log("accuracy", right, sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)


def parallel(algorithm: str) -> tuple[DDPStrategy, list[Callback]]:
    """The strategy, and the callback that is all there is to add."""
    if algorithm in AVERAGERS:
        return DDPStrategy(), [AveragerCallback(AVERAGERS[algorithm])]
    if algorithm in RULES:
        return DDPStrategy(), [RuleCallback(algorithm)]
    if algorithm == "hook":  # as with torch's own hooks; the callback registers it on the CPU, logs and saves
        state = flockstep.AdaConsState(beta=0.95)
        return DDPStrategy(ddp_comm_state=state, ddp_comm_hook=flockstep.adacons_hook), [RuleCallback(state)]
    return DDPStrategy(), []


def parse(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--with", dest="algorithm", choices=["plain", "hook", *RULES, *AVERAGERS], default="adacons")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batches", type=int, help="of one rank in an epoch; else all")
    parser.add_argument("--accumulate", type=int, default=1, help="batches of a step")
    parser.add_argument("--precision", default="32-true", help="as Lightning names it, such as bf16-mixed")
    parser.add_argument("--save-every", type=int, help="steps between two checkpoints; else after each epoch")
    parser.add_argument("--resume", type=Path, help="a checkpoint to go on from")
    parser.add_argument("--out", type=Path, default=Path("runs/lightning"), help="for metrics.csv and checkpoints")
    return parser.parse_args(given)


def fit(arguments: argparse.Namespace, *more: Callback) -> tuple[Trainer, Classifier]:
    torch.manual_seed(1)
    strategy, callbacks = parallel(arguments.algorithm)
    saving = ModelCheckpoint(arguments.out, "{step}", save_top_k=-1, every_n_train_steps=arguments.save_every)
    trainer = Trainer(
        accelerator="gpu" if torch.cuda.is_available() else "cpu",
        devices=int(os.environ.get("LOCAL_WORLD_SIZE", "2")),  # without torchrun, Lightning starts two processes itself
        strategy=strategy,
        callbacks=[*callbacks, saving, *more],
        logger=CSVLogger(arguments.out, name=None, version=""),
        max_epochs=arguments.epochs,
        limit_train_batches=arguments.batches,
        accumulate_grad_batches=arguments.accumulate,
        precision=arguments.precision,
        log_every_n_steps=10,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    model = Classifier()
    train, test = DataLoader(images("train"), 32, shuffle=True, drop_last=True), DataLoader(images("t10k"), 500)
    trainer.fit(model, train, test, ckpt_path=arguments.resume)
    return trainer, model


def main() -> None:
    arguments = parse()
    torch.set_num_threads(1)  # the workers share the processors
    trainer, _ = fit(arguments)
    if trainer.is_global_zero:
        accuracy = trainer.callback_metrics["accuracy"]
        print(f"{arguments.algorithm}: accuracy {accuracy:.3f} after {trainer.global_step} steps", flush=True)


if __name__ == "__main__":
    main()
