"""What averagers compute: every step's models before and after workers meet. Four workers, whose updates differ a lot: unguarded."""

import copy
from datetime import timedelta

import cases
import flockstep
import torch
from cases import backward, batch, numbers, small_model, train_step
from torch import nn


def recorded(rank, steps, make):
    """Of each step: the model before the local update, after it, and after the meeting; in the end the consolidated."""
    model = small_model(seed=rank)
    inner = torch.optim.SGD(model.parameters(), lr=0.2)
    lines = []
    inner.register_step_pre_hook(lambda *_: lines.append({"start": numbers(model)}))
    inner.register_step_post_hook(lambda *_: lines[-1].update(updated=numbers(model)))
    with make(inner, model) as optimizer:
        for step in range(steps):
            optimizer.zero_grad()
            backward(model, rank, step)
            gradient = torch.cat([p.grad.double().flatten() for p in model.parameters()]).tolist()
            optimizer.step()
            lines[-1].update(met=numbers(model), gradient=gradient)
        optimizer.consolidate()
    return {"steps": lines, "consolidated": numbers(model)}


def local_sgd(rank):
    return recorded(rank, 5, lambda inner, model: flockstep.LocalSGD(inner, model, guard=False, period=2))


def dpsgd(rank):
    return recorded(rank, 4, lambda inner, model: flockstep.DPSGD(inner, model, guard=False))


def dpsgd_that_combines_first(rank):
    return recorded(rank, 4, lambda inner, model: flockstep.DPSGD(inner, model, guard=False, order="combine_first"))


def sgp(rank):
    return recorded(rank, 4, lambda inner, model: flockstep.SGP(inner, model, guard=False))


def post_local_sgd(rank):
    return recorded(
        rank, 5, lambda inner, model: flockstep.PostLocalSGD(inner, model, guard=False, switch_after=2, period=3)
    )


def diloco(rank):
    return recorded(
        rank, 7, lambda inner, model: flockstep.DiLoCo(inner, model, guard=False, period=2, rate=0.5, momentum=0.75)
    )


def diloco_as_local_sgd(rank):
    return recorded(
        rank, 5, lambda inner, model: flockstep.DiLoCo(inner, model, guard=False, period=2, rate=1, momentum=0)
    )


def diloco_streaming(rank):
    return recorded(
        rank,
        25,
        lambda inner, model: flockstep.DiLoCo(
            inner,
            model,
            guard=False,
            period=6,
            fragments=2,
            delay=2,
            alpha=0.5,
            wire="int8",
            rule="direction_consensus",
        ),
    )


def wagma_at_full_sync(rank):
    return recorded(rank, 3, lambda inner, model: flockstep.Wagma(inner, model, guard=False, period=1))


def flock_at_full_sync(rank):
    return recorded(rank, 3, lambda inner, model: flockstep.Flock(inner, model, guard=False, period=1, sync="barrier"))


def flock(rank):
    return recorded(rank, 25, lambda inner, model: flockstep.Flock(inner, model, guard=False))


def wagma(rank):
    return recorded(rank, 25, lambda inner, model: flockstep.Wagma(inner, model, guard=False, group_size=2))


EVERYBODY = {"activation": "quorum", "quorum": 4, "period": 100}  # so that every round has all models of its step


def flock_in_nodes(rank):
    return recorded(
        rank,
        4,
        lambda inner, model: flockstep.Flock(
            inner, model, guard=False, groups="nodes", workers_per_node=2, across=2, **EVERYBODY
        ),
    )


def flock_in_fixed_groups(rank):
    return recorded(
        rank,
        4,
        lambda inner, model: flockstep.Flock(inner, model, guard=False, groups="fixed", group_size=2, **EVERYBODY),
    )


def wagma_in_the_launchers_nodes(rank):
    return recorded(
        rank, 4, lambda inner, model: flockstep.Wagma(inner, model, guard=False, groups="nodes", **EVERYBODY)
    )


def flock_with_a_deadline(rank):
    return recorded(
        rank,
        5,
        lambda inner, model: flockstep.Flock(
            inner, model, guard=False, activation="deadline", deadline=timedelta(milliseconds=20), period=3
        ),
    )


def flock_overlapped(rank):
    return recorded(rank, 25, lambda inner, model: flockstep.Flock(inner, model, guard=False, overlap=True))


def local_sgd_overlapped(rank):
    return recorded(
        rank, 25, lambda inner, model: flockstep.LocalSGD(inner, model, guard=False, period=2, overlap=True)
    )


def adpsgd(rank):
    return recorded(rank, 25, lambda inner, model: flockstep.ADPSGD(inner, model, guard=False))


def adpsgd_with_fixed_partners(rank):
    return recorded(rank, 25, lambda inner, model: flockstep.ADPSGD(inner, model, guard=False, partners="fixed"))


def swarm(rank):
    return recorded(rank, 25, lambda inner, model: flockstep.Swarm(inner, model, guard=False, period=2))


# Gradients of mean losses over batches of one size: their mean is that of the joined batch.
def one_process_on_the_joined_batch(rank):
    alone = small_model(seed=0)
    optimizer = torch.optim.SGD(alone.parameters(), lr=0.2)
    for step in range(6):
        optimizer.zero_grad()
        inputs, targets = (torch.cat(parts) for parts in zip(*(batch(r, step) for r in range(4)), strict=True))
        nn.functional.mse_loss(alone(inputs), targets).backward()
        optimizer.step()
    distances = []
    for make in (
        lambda inner, model: flockstep.LocalSGD(inner, model, guard=False, period=1),
        lambda inner, model: flockstep.PostLocalSGD(inner, model, guard=False),
    ):
        model = small_model(seed=rank)
        with make(torch.optim.SGD(model.parameters(), lr=0.2), model) as together:
            for step in range(6):
                train_step(model, together, rank, step)
        distances.append(max(abs(a - b) for a, b in zip(numbers(model), numbers(alone), strict=True)))
    return distances


class Mixed(nn.Module):
    """Shared, frozen, normalised and of two types."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.again = self.first
        self.norm = nn.BatchNorm1d(4)
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.narrow = nn.Linear(4, 1).bfloat16()

    def forward(self, x):
        return self.narrow(self.frozen(self.norm(self.again(self.first(x).tanh()))).bfloat16()).float()


def mixed_tensors(rank):
    torch.manual_seed(rank)
    model = Mixed()
    start = copy.deepcopy(model.frozen.weight)
    with flockstep.DPSGD(torch.optim.SGD(model.parameters(), lr=0.1), model) as optimizer:
        train_step(model, optimizer, rank, 8)
        for step in range(rank):  # counters that differ
            model(batch(rank, step)[0])
        mean = model.norm.running_mean.tolist()
        train_step(model, optimizer, rank, 9)
        optimizer.consolidate()
        is_shared = model.again.weight.data_ptr() == model.first.weight.data_ptr()
    return {
        "mean": mean,
        "averaged_mean": model.norm.running_mean.tolist(),
        "counter": model.norm.num_batches_tracked.item(),
        "frozen": model.frozen.weight.tolist(),
        "own_frozen": start.tolist(),
        "half": model.narrow.weight.float().tolist(),
        "type": str(model.narrow.weight.dtype),
        "is_shared": is_shared,
        "is_own_memory": model.first.weight.untyped_storage().nbytes() == 64,
    }


if __name__ == "__main__":
    cases.run_by_rank(
        local_sgd,
        dpsgd,
        dpsgd_that_combines_first,
        sgp,
        post_local_sgd,
        diloco,
        diloco_as_local_sgd,
        diloco_streaming,
        wagma_at_full_sync,
        flock_at_full_sync,
        flock,
        flock_in_nodes,
        flock_in_fixed_groups,
        wagma_in_the_launchers_nodes,
        flock_with_a_deadline,
        flock_overlapped,
        local_sgd_overlapped,
        wagma,
        adpsgd,
        adpsgd_with_fixed_partners,
        swarm,
        one_process_on_the_joined_batch,
        mixed_tensors,
    )
