"""A worker whose model goes wrong beside three others, under every averager."""

import cases
import flockstep
import torch
import torch.distributed as dist
from cases import backward, numbers, small_model

BROKEN, STEPS = 2, 30
MAKERS = {
    "flock": flockstep.Flock,
    "flock_overlapped": lambda inner, model, **options: flockstep.Flock(inner, model, overlap=True, **options),
    "wagma": flockstep.Wagma,
    "local_sgd": lambda inner, model, **options: flockstep.LocalSGD(inner, model, period=2, **options),
    "post_local_sgd": lambda inner, model, **options: flockstep.PostLocalSGD(
        inner, model, switch_after=0, period=2, **options
    ),
    "diloco": lambda inner, model, **options: flockstep.DiLoCo(inner, model, period=2, **options),
    "diloco_without_waiting": lambda inner, model, **options: flockstep.DiLoCo(
        inner, model, period=2, wait=False, **options
    ),
    "dpsgd": flockstep.DPSGD,
    "sgp": flockstep.SGP,
    "adpsgd": flockstep.ADPSGD,
    "swarm": lambda inner, model, **options: flockstep.Swarm(inner, model, period=1, **options),
}


def trained(rank, make, break_model, **options):
    model = small_model()
    inner = torch.optim.SGD(model.parameters(), lr=0.05)
    with make(inner, model, **options) as optimizer:
        for step in range(STEPS):
            if rank == BROKEN and step == 2:  # by then everybody has heard of others
                inner.register_step_post_hook(lambda *_: break_model(model))
            optimizer.zero_grad()
            backward(model, rank, step)
            optimizer.step()
            dist.barrier()  # nobody is done before the others have told anything
        found = optimizer.findings
        optimizer.consolidate()
    return {"model": numbers(model), "findings": found}


@torch.no_grad()
def not_a_number(model):
    next(model.parameters()).view(-1)[0] = torch.nan


@torch.no_grad()
def far_off(model):
    for parameter in model.parameters():
        parameter.add_(3.0)


def averager(name):
    def case(rank):
        return {
            "healthy": trained(rank, MAKERS[name], lambda _: None),
            "not_a_number": trained(rank, MAKERS[name], not_a_number),
            "far_off": trained(rank, MAKERS[name], far_off),
            "unguarded": trained(rank, MAKERS[name], far_off, guard=False),
        }

    case.__name__ = name
    return case


def wrong_gradients(rank):
    """Findings of Flock where one worker multiplies its gradients by -5, and where none does."""
    found = {}
    for kind in (torch.optim.SGD, torch.optim.AdamW):
        for weights in ("mean", "direction_consensus"):
            for factor in (-5, 1):
                model = small_model()
                inner = kind(model.parameters(), lr=0.01)
                with flockstep.Flock(inner, model, weights=weights) as optimizer:
                    for step in range(150):
                        optimizer.zero_grad()
                        backward(model, rank, step)
                        for parameter in model.parameters():
                            parameter.grad.mul_(factor if rank == BROKEN else 1)
                        optimizer.step()
                    dist.barrier()
                    found[f"{kind.__name__}, {weights}, {factor}"] = optimizer.findings
                    dist.barrier()
    return found


def wrong(rank):
    model = small_model()
    try:
        flockstep.DPSGD(torch.optim.SGD(model.parameters(), lr=0.1), model, guard="on")
    except flockstep.Error as error:
        return f"{error.code}: {error}"
    return "nothing was refused"


if __name__ == "__main__":
    cases.run_by_rank(*map(averager, MAKERS), wrong_gradients, wrong)
