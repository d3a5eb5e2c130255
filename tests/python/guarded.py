"""A worker whose model goes wrong beside three others, under averagers of every kind of agent."""

import math

import flockstep
import torch
import torch.distributed as dist
from cases import Cases, backward, numbers, run, small_model

BROKEN, STEPS = 2, 30
CASES = Cases(4)
case = CASES.case


def trained(make, break_model=None, **options):
    model = small_model()
    inner = torch.optim.SGD(model.parameters(), lr=0.05)
    with make(inner, model, **options) as optimizer:
        for step in range(STEPS):
            if break_model and dist.get_rank() == BROKEN and step == 2:  # by then all workers have heard of others
                inner.register_step_post_hook(lambda *_: break_model(model))
            optimizer.zero_grad()
            backward(model, dist.get_rank(), step)
            optimizer.step()
            dist.barrier()  # no worker is done before the others have told anything
        found = optimizer.findings
        optimizer.consolidate()
    return numbers(model), found


@torch.no_grad()
def not_a_number(model):
    next(model.parameters()).view(-1)[0] = torch.nan


@torch.no_grad()
def far_off(model):
    for parameter in model.parameters():
        parameter.add_(3.0)


@case("Flock")
@case("Flock", overlap=True)
@case("LocalSGD", period=2)
@case("DiLoCo", period=2, wait=False)
@case("SGP")
@case("ADPSGD")
def a_worker_that_goes_wrong_does_not_spoil_the_others_and_is_named_on_all(name, **options):
    make = getattr(flockstep, name)
    healthy, _ = trained(make, **options)

    def distance(model):
        """From that of healthy workers, in lengths of what these have done."""
        return math.dist(model, healthy) / math.sqrt(len(healthy))

    model, [said] = trained(make, not_a_number, **options)
    assert distance(model) < 0.3
    assert f"updates of worker {BROKEN}'s model were not finite" in said
    unguarded, _ = trained(make, far_off, guard=False, **options)
    assert distance(unguarded) > 2, "so that this says something"
    model, [said] = trained(make, far_off, **options)
    assert distance(model) < distance(unguarded) / 4
    assert said.startswith(f"worker {BROKEN} pulls the others away: ")


# Adam gives a wrong gradient the length of all others.
@case("SGD", "mean")
@case("SGD", "direction_consensus")
@case("AdamW", "mean")
@case("AdamW", "direction_consensus")
def flock_names_a_wrong_gradient_on_all_workers(kind, weights):
    """One worker multiplies its gradients by -5."""
    for factor in (-5, 1):
        model = small_model()
        inner = getattr(torch.optim, kind)(model.parameters(), lr=0.01)
        with flockstep.Flock(inner, model, weights=weights) as optimizer:
            for step in range(150):
                optimizer.zero_grad()
                backward(model, dist.get_rank(), step)
                for parameter in model.parameters():
                    parameter.grad.mul_(factor if dist.get_rank() == BROKEN else 1)
                optimizer.step()
            dist.barrier()
            found = optimizer.findings
            dist.barrier()
        said = [
            each.startswith((f"worker {BROKEN} pulls", f"worker {BROKEN}'s updates do not point")) for each in found
        ]
        assert said == [True] * (factor == -5), found


if __name__ == "__main__":
    run(CASES.of_this_world)
