"""What averagers compute: every step's models before and after workers meet. Four workers, whose updates differ a lot: unguarded."""

from datetime import timedelta

import cases
import flockstep
import torch
from cases import backward, gradient_of, numbers, small_model

EVERYBODY = {"activation": "quorum", "quorum": 4, "period": 100}  # so that every round has all models of its step
IN_FRAGMENTS = {"period": 6, "fragments": 2, "delay": 2, "alpha": 0.5, "wire": "int8", "rule": "direction_consensus"}
IN_NODES = {"groups": "nodes", "workers_per_node": 2, "across": 2}

# An averager, its number of steps, and its options.
RECORDED = {
    "local_sgd": ("LocalSGD", 5, {"period": 2}),
    "dpsgd": ("DPSGD", 4, {}),
    "sgp": ("SGP", 4, {}),
    "post_local_sgd": ("PostLocalSGD", 5, {"switch_after": 2, "period": 3}),
    "diloco": ("DiLoCo", 7, {"period": 2, "rate": 0.5, "momentum": 0.75}),
    "diloco_streaming": ("DiLoCo", 25, IN_FRAGMENTS),
    "wagma_at_full_sync": ("Wagma", 3, {"period": 1}),
    "flock_at_full_sync": ("Flock", 3, {"period": 1, "sync": "barrier"}),
    "flock": ("Flock", 25, {}),
    "flock_in_nodes": ("Flock", 4, {**IN_NODES, **EVERYBODY}),
    "flock_in_fixed_groups": ("Flock", 4, {"groups": "fixed", "group_size": 2, **EVERYBODY}),
    "wagma_in_the_launchers_nodes": ("Wagma", 4, {"groups": "nodes", **EVERYBODY}),
    "flock_with_a_deadline": (
        "Flock",
        5,
        {"activation": "deadline", "deadline": timedelta(milliseconds=20), "period": 3},
    ),
    "flock_overlapped": ("Flock", 25, {"overlap": True}),
    "local_sgd_overlapped": ("LocalSGD", 25, {"period": 2, "overlap": True}),
    "wagma": ("Wagma", 25, {"group_size": 2}),
    "adpsgd": ("ADPSGD", 25, {}),
    "adpsgd_with_fixed_partners": ("ADPSGD", 25, {"partners": "fixed"}),
    "swarm": ("Swarm", 25, {"period": 2}),
}


def recorded(averager, steps, options):
    """Of each step: the model before the local update, after it, and after the meeting; in the end the consolidated."""
    rank = torch.distributed.get_rank()
    model = small_model(seed=rank)
    inner = torch.optim.SGD(model.parameters(), lr=0.2)
    lines = []
    inner.register_step_pre_hook(lambda *_: lines.append({"start": numbers(model)}))
    inner.register_step_post_hook(lambda *_: lines[-1].update(updated=numbers(model)))
    with getattr(flockstep, averager)(inner, model, guard=False, **options) as optimizer:
        for step in range(steps):
            optimizer.zero_grad()
            backward(model, rank, step)
            gradient = gradient_of(model)
            optimizer.step()
            lines[-1].update(met=numbers(model), gradient=gradient)
        optimizer.consolidate()
    return {"steps": lines, "consolidated": numbers(model)}


if __name__ == "__main__":
    cases.run({name: lambda row=row: recorded(*row) for name, row in RECORDED.items()})
