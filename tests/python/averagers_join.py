"""Workers with different numbers of batches, and a worker that is away for a while. Three workers."""

import time

import cases
import flockstep
import numpy as np
import torch.distributed as dist
from averagers_shared import AVERAGERS, cases_in, is_same_everywhere, refusal_of
from cases import everybodys, numbers, sgd, small_model, tell, train_step, wait_to_hear
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel as DDP


def shard(rank, epoch):
    """So many batches: in the first epoch more with the rank, in the second fewer, and none for the last."""
    return [2 + 5 * rank, 14 - 7 * rank][epoch]


CONTEXTS = {
    "plain": lambda model, optimizer: optimizer.join(),
    "DDP": lambda model, optimizer: optimizer.join(),
    "DDP, torch's own": lambda model, optimizer: Join([optimizer]),
    "DDP, torch's own with the model": lambda model, optimizer: Join([model, optimizer]),
}


def workers_with_different_numbers_of_batches_end_together(rank):
    for name in AVERAGERS:
        ends_by_context = {}
        for context, joined in CONTEXTS.items():
            if "torch's own" in context and name not in ("Flock", "LocalSGD"):
                continue
            model = small_model(rank)
            model = model if context == "plain" else DDP(model)
            options = {"switch_after": 4, "period": 3} if name == "PostLocalSGD" else {}  # it switches inside of join()
            ends, step = [], 0
            with getattr(flockstep, name)(sgd(model), model, **options) as optimizer:
                for epoch in range(2):
                    with joined(model, optimizer):
                        for _ in range(shard(rank, epoch)):
                            train_step(model, optimizer, rank, step)
                            step += 1
                    optimizer.consolidate()
                    ends.append(numbers(model))
                train_step(model, optimizer, rank, step)  # nobody is away any more
                optimizer.consolidate()
                ends.append(numbers(model))
            assert is_same_everywhere(ends), (name, context)
            assert ends[0] != ends[1] != ends[2], (name, context)
            ends_by_context[context] = ends
        if name == "PostLocalSGD":
            np.testing.assert_allclose(ends_by_context["plain"][0], ends_by_context["DDP"][0], rtol=0, atol=1e-5)


def local_sgd_averages_over_those_who_are_there(rank):
    """Batches for 3, 6 and 9 steps, and a meeting every second one."""
    model = small_model()
    inner = sgd(model)
    updated, met = [], []
    inner.register_step_post_hook(lambda *_: updated.append(numbers(model)))
    with flockstep.LocalSGD(inner, model, period=2, guard=False) as optimizer, optimizer.join():
        for step in range(3 * (rank + 1)):
            train_step(model, optimizer, rank, step)
            met.append(numbers(model))
    everybodys_updated, everybodys_met = everybodys(updated), everybodys(met)
    for step in range(1, len(met), 2):
        mean = np.mean([models[step] for models in everybodys_updated if len(models) > step], axis=0)
        np.testing.assert_allclose(met[step], mean, rtol=0, atol=1e-6)
    if rank < 2:  # the last meeting, of worker 2 alone, and everybody has it
        assert numbers(model) == everybodys_met[2][7]


def torchs_own_context_in_the_wrong_order_is_refused(rank):
    model = DDP(small_model(rank))

    def join():
        with Join([optimizer, model]):
            train_step(model, optimizer, rank, 0)

    with flockstep.Flock(sgd(model), model) as optimizer:
        refused = refusal_of(join)
    assert refused.startswith("BadInputError: in Join([...]) the DDP model comes before the optimizer"), refused


# Rank 0 stays away until the others have taken many more steps than a period: should they wait for it, nobody goes on.
def nobody_waits_for_an_evaluation_on_rank_0(rank):
    for name in ("Flock", "Wagma", "ADPSGD", "Swarm"):
        model = small_model()
        options = {"period": 3} if name in ("Flock", "Wagma") else {}
        with getattr(flockstep, name)(sgd(model), model, **options) as optimizer:
            train_step(model, optimizer, rank, 0)
            dist.barrier()
            if rank == 0:
                optimizer.pause()
                before = numbers(model)
                wait_to_hear(*(f"{name}, {other}" for other in (1, 2)))
                untouched = numbers(model) == before
                refused = refusal_of(optimizer.step)
                optimizer.resume()
                taken_over = numbers(model) != before
            for step in range(1, 41 if rank else 5):
                train_step(model, optimizer, rank, step)
                if rank and step == 20:
                    tell(f"{name}, {rank}")
                if rank and step > 20:
                    time.sleep(0.01)  # so that rank 0 finds them at it
            optimizer.consolidate()
        assert is_same_everywhere(numbers(model)), name
        if rank == 0:
            assert untouched, name
            assert taken_over, name
            assert refused.startswith("BadInputError: this worker has left the others"), refused


# A worker that is back goes on where the others are, and so has steps left when they have none.
def nobody_waits_for_one_that_has_more_steps_left_after_a_pause(rank):
    for make, period in ((flockstep.Flock, 3), (flockstep.Wagma, 3), (flockstep.Wagma, 1)):  # the last: equal replicas
        model = small_model()
        with make(sgd(model), model, period=period) as optimizer:
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
        assert is_same_everywhere(numbers(model)), (make, period)


# Two workers skip one batch, and their consolidate() comes where the others average after a step, or is one batch early.
def different_numbers_of_batches_in_lockstep_are_told(rank):
    def train(steps):
        with flockstep.LocalSGD(sgd(model), model, period=2) as optimizer:
            for step in range(steps + (rank == 0)):
                train_step(model, optimizer, rank, step)
            optimizer.consolidate()

    for steps, place in ((5, "is in step 6"), (6, "is in consolidate() after 7 steps")):
        model = small_model()
        refused = refusal_of(lambda steps=steps: train(steps))
        dist.barrier()
        told = f"MismatchError: worker 1 is in consolidate() after {steps} steps where worker 0 {place}: "
        assert refused.startswith(told), refused
        assert 'train in "with optimizer.join():"' in refused


def pausing_in_lockstep_does_nothing(rank):
    model = small_model()
    with flockstep.DPSGD(sgd(model), model) as optimizer:
        optimizer.pause()
        train_step(model, optimizer, rank, 0)
        optimizer.resume()
        train_step(model, optimizer, rank, 1)
        optimizer.consolidate()
    assert is_same_everywhere(numbers(model))


CASES = cases_in(globals())

if __name__ == "__main__":
    cases.run_by_rank(*CASES)
