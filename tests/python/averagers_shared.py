"""What the programs of averagers share. Their cases assert what has to hold on each rank, once no worker waits for another one."""

import inspect

import flockstep
import torch
from cases import everybodys

AVERAGERS = ["Flock", "Wagma", "LocalSGD", "PostLocalSGD", "DiLoCo", "DPSGD", "ADPSGD", "SGP", "Swarm"]


def cases_in(names):
    """The functions of a program that take a rank and nothing else."""
    functions = [each for each in names.values() if inspect.isfunction(each) and each.__module__ == names["__name__"]]
    return [each for each in functions if [*inspect.signature(each).parameters] == ["rank"]]


def momentum(model, **options):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, **options)


def is_same_everywhere(value):
    """Collective."""
    values = everybodys(value)
    return all(each == values[0] for each in values)


def refusal_of(call):
    """Class and sentence of the error that a call raises."""
    try:
        call()
    except flockstep.Error as error:
        return f"{type(error).__name__}: {error}"
    return "none: "
