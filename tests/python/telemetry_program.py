"""Two workers train with run_dir=, once with a gradient rule and once with an averager; see test_telemetry.py."""

import logging
import sys
from pathlib import Path

import flockstep
import torch
import torch.distributed as dist
from cases import backward, run_by_rank, small_model, train_step
from torch.nn.parallel import DistributedDataParallel

OUT = Path(sys.argv[1])
STEPS = 12
heard = []


class Ear(logging.Handler):
    def emit(self, record):
        heard.append((record.name, record.levelname, record.getMessage()))


logging.getLogger("flockstep").addHandler(Ear())
logging.getLogger("flockstep").setLevel(logging.INFO)


def a_rule(rank):
    model = DistributedDataParallel(small_model())
    state = flockstep.adacons(model, run_dir=OUT / "rule", beta=0.5, guard=0.0)
    writer = flockstep.TensorBoardWriter(OUT / "tensorboard")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for step in range(STEPS):
        losses.append(train_step(model, optimizer, rank, step))
        state.record(loss=losses[-1])
        if step % 4 == 3:
            state.record_evaluation("accuracy", 0.1 * step)
        writer.add(state)
    metrics = state.metrics()
    writer.close()
    state.close()
    return {"losses": losses, "metrics": metrics}


def an_averager(rank):
    model = small_model()
    optimizer = flockstep.Wagma(torch.optim.SGD(model.parameters(), lr=0.1), model, run_dir=OUT / "averager")
    for step in range(STEPS):
        optimizer.zero_grad()
        backward(model, rank, step)
        optimizer.step()
    metrics = optimizer.metrics()
    optimizer.close()
    return metrics


def two_in_one_folder(rank):
    first, second = DistributedDataParallel(small_model()), DistributedDataParallel(small_model())
    state = flockstep.adacons(first, run_dir=OUT / "twice")
    try:
        flockstep.adacons(second, run_dir=OUT / "twice")
    except flockstep.Error as error:
        return error.code, str(error)
    finally:
        state.close()


def pairs(rank):
    """Its agent has something to log when it ends."""
    model = small_model()
    optimizer = flockstep.ADPSGD(torch.optim.SGD(model.parameters(), lr=0.1), model)
    for step in range(STEPS):
        train_step(model, optimizer, rank, step)
    optimizer.consolidate()
    optimizer.close()
    return heard


def every_rank(rank):
    heard.clear()
    logger = logging.getLogger("flockstep")
    logger.warning("from rank %d", dist.get_rank())
    alone = list(heard)
    logger.filters.clear()
    logger.warning("from rank %d", dist.get_rank())
    return alone, heard[len(alone) :]


run_by_rank(a_rule, an_averager, two_in_one_folder, pairs, every_rank)
