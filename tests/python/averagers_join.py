"""Workers with different numbers of batches, and a worker that is away for a while. Three workers."""

import time

import cases
import flockstep
import torch.distributed as dist
from cases import numbers, sgd, small_model, tell, train_step, wait_to_hear
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel as DDP

AVERAGERS = [
    flockstep.Flock,
    flockstep.Wagma,
    flockstep.LocalSGD,
    flockstep.PostLocalSGD,
    flockstep.DiLoCo,
    flockstep.DPSGD,
    flockstep.ADPSGD,
    flockstep.SGP,
    flockstep.Swarm,
]


def shard(rank, epoch):
    """So many batches: in the first epoch more with the rank, in the second fewer, and none for the last."""
    return [2 + 5 * rank, 14 - 7 * rank][epoch]


def uneven_shards(rank):
    seen = {}
    for make in AVERAGERS:
        for kind in ("plain", "DDP"):
            model = small_model(rank)
            model = DDP(model) if kind == "DDP" else model
            with make(sgd(model), model) as optimizer:
                ends, step = [], 0
                for epoch in range(2):
                    with optimizer.join():
                        for _ in range(shard(rank, epoch)):
                            train_step(model, optimizer, rank, step)
                            step += 1
                    optimizer.consolidate()
                    ends.append({"steps": optimizer.metrics()["step"], "model": numbers(model)})
                train_step(model, optimizer, rank, step)  # nobody is away any more
                optimizer.consolidate()
                ends.append({"steps": optimizer.metrics()["step"], "model": numbers(model)})
            seen[f"{make.__name__}, {kind}"] = ends
    return seen


def post_local_sgd_switches_inside_of_join(rank):
    ends = []
    for kind in ("plain", "DDP"):
        model = small_model(rank)
        model = DDP(model) if kind == "DDP" else model
        with flockstep.PostLocalSGD(sgd(model), model, switch_after=4, period=3) as optimizer:
            with optimizer.join():
                for step in range(shard(rank, 0)):
                    train_step(model, optimizer, rank, step)
            optimizer.consolidate()
        ends.append(numbers(model))
    return ends


def local_sgd_averages_over_those_who_are_there(rank):
    """Batches for 3, 6 and 9 steps, and a meeting every second one."""
    model = small_model()
    inner = sgd(model)
    updated = []
    inner.register_step_post_hook(lambda *_: updated.append(numbers(model)))
    met = []
    with flockstep.LocalSGD(inner, model, period=2, guard=False) as optimizer, optimizer.join():
        for step in range(3 * (rank + 1)):
            train_step(model, optimizer, rank, step)
            met.append(numbers(model))
    return {"updated": updated, "met": met, "end": numbers(model)}


def torchs_own_context(rank):
    """Join() by hand, with DDP or without."""
    ends = {}
    for make in (flockstep.Flock, flockstep.LocalSGD):
        for name in ("optimizer", "DDP and optimizer"):
            model = DDP(small_model(rank))
            with make(sgd(model), model) as optimizer:
                with Join([optimizer] if name == "optimizer" else [model, optimizer]):
                    for step in range(shard(rank, 0)):
                        train_step(model, optimizer, rank, step)
                optimizer.consolidate()
            ends[f"{make.__name__}, {name}"] = numbers(model)
    return ends


def torchs_own_context_in_the_wrong_order(rank):
    model = DDP(small_model(rank))
    with flockstep.Flock(sgd(model), model) as optimizer:
        try:
            with Join([optimizer, model]):
                train_step(model, optimizer, rank, 0)
        except flockstep.Error as error:
            return str(error)


# Rank 0 stays away until the others have taken many more steps than a period: should they wait for it, nobody goes on.
def a_long_evaluation_on_rank_0(rank):
    seen = {}
    for make in (flockstep.Flock, flockstep.Wagma, flockstep.ADPSGD, flockstep.Swarm):
        model = small_model()
        options = {"period": 3} if make in (flockstep.Flock, flockstep.Wagma) else {}
        with make(sgd(model), model, **options) as optimizer:
            train_step(model, optimizer, rank, 0)
            dist.barrier()
            refused = ""
            if rank == 0:
                optimizer.pause()
                before = numbers(model)
                wait_to_hear(*(f"{make.__name__}, {other}" for other in (1, 2)))
                untouched = numbers(model) == before
                try:
                    optimizer.step()
                except flockstep.Error as error:
                    refused = str(error)
                optimizer.resume()
                taken_over = numbers(model) != before
            for step in range(1, 41 if rank else 5):
                train_step(model, optimizer, rank, step)
                if rank and step == 20:
                    tell(f"{make.__name__}, {rank}")
                if rank and step > 20:
                    time.sleep(0.01)  # so that rank 0 finds them at it
            optimizer.consolidate()
            seen[make.__name__] = {"model": numbers(model)}
            if rank == 0:
                seen[make.__name__] |= {"untouched": untouched, "taken over": taken_over, "refused": refused}
    return seen


# Whoever is back goes on where the others are, and so has steps left when they have none.
def as_many_steps_after_a_pause(rank):
    ends = {}
    for name, make, options in [
        ("Flock", flockstep.Flock, {"period": 3}),
        ("Wagma", flockstep.Wagma, {"period": 3}),
        ("equal replicas", flockstep.Wagma, {"period": 1}),
    ]:
        model = small_model()
        with make(sgd(model), model, **options) as optimizer:
            for step in range(20):
                if rank == 0 and step == 5:
                    optimizer.pause()
                    time.sleep(0.2)
                    optimizer.resume()
                train_step(model, optimizer, rank, step)
                time.sleep(0.01)
            optimizer.consolidate()
            train_step(model, optimizer, 0, 20)
            optimizer.consolidate()
        ends[name] = numbers(model)
    return ends


# Two workers skip one batch, and their consolidate() comes where the others average after a step, or is one batch early.
def lockstep_without_join(rank):
    sentences = {}
    for steps in (5, 6):
        model = small_model()
        with flockstep.LocalSGD(sgd(model), model, period=2) as optimizer:
            try:
                for step in range(steps + (rank == 0)):
                    train_step(model, optimizer, rank, step)
                optimizer.consolidate()
            except flockstep.Error as error:
                sentences[steps] = [error.code, str(error)]
        dist.barrier()
    return sentences


def pausing_in_lockstep_does_nothing(rank):
    model = small_model()
    with flockstep.DPSGD(sgd(model), model) as optimizer:
        optimizer.pause()
        train_step(model, optimizer, rank, 0)
        optimizer.resume()
        train_step(model, optimizer, rank, 1)
        optimizer.consolidate()
    return numbers(model)


if __name__ == "__main__":
    cases.run_by_rank(
        uneven_shards,
        post_local_sgd_switches_inside_of_join,
        local_sgd_averages_over_those_who_are_there,
        torchs_own_context,
        torchs_own_context_in_the_wrong_order,
        a_long_evaluation_on_rank_0,
        as_many_steps_after_a_pause,
        lockstep_without_join,
        pausing_in_lockstep_does_nothing,
    )
