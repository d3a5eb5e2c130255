"""Two workers train with run_dir=, once with a gradient rule and once with an averager; see test_telemetry.py."""

import logging
import sys
from contextlib import closing
from pathlib import Path

import flockstep
import torch
from cases import run_by_rank, small_model, train_step
from hooks_shared import check_refusals
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
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    with flockstep.Wagma(inner, model, run_dir=OUT / "averager") as optimizer:
        for step in range(STEPS):
            train_step(model, optimizer, rank, step)
        metrics = optimizer.metrics()
    assert metrics["step"] == STEPS
    assert 0 <= metrics["fresh_fraction"] <= 1
    assert "loss" not in metrics, "it was told none"


def two_in_one_folder(rank):
    first, second = DistributedDataParallel(small_model()), DistributedDataParallel(small_model())
    words = f"another gradient state or averager writes to {OUT / 'twice'}: give each"
    with closing(flockstep.adacons(first, run_dir=OUT / "twice")):
        check_refusals((words, lambda: flockstep.adacons(second, run_dir=OUT / "twice")))


def rank_0_logs_what_the_compiled_half_says(rank):
    """An agent that works in pairs has something to log when it ends."""
    heard.clear()
    model = small_model()
    with flockstep.ADPSGD(torch.optim.SGD(model.parameters(), lr=0.1), model) as optimizer:
        for step in range(STEPS):
            train_step(model, optimizer, rank, step)
        optimizer.consolidate()
    if rank:
        assert heard == []
    else:
        assert ("flockstep", "INFO", "worker 0 of 2, deadline 600 s") in heard
        assert any(level == "INFO" and "took part in" in text for _, level, text in heard)


def every_rank_is_heard_without_the_filter(rank):
    heard.clear()
    logger = logging.getLogger("flockstep")
    logger.warning("from rank %d", rank)
    logger.filters.clear()
    logger.warning("again")
    assert [text for _, _, text in heard] == ["from rank 0", "again"][rank:]


run_by_rank(
    a_rule,
    an_averager,
    two_in_one_folder,
    rank_0_logs_what_the_compiled_half_says,
    every_rank_is_heard_without_the_filter,
)
