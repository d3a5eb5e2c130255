"""Making averagers where workers are not alike. Three workers."""

import warnings
from datetime import timedelta

import cases
import flockstep
import torch
from cases import numbers, small_model, train_step


def sgd(model, lr=0.1):
    return torch.optim.SGD(model.parameters(), lr=lr)


def refused(call):
    try:
        call()
    except flockstep.Error as error:
        return f"{error.code}: {error}"
    return "nothing was refused"


def one_fails_to_make_an_averager(rank):
    """First rank 1, then rank 0; the others hear of it at once. Then all of them make one."""
    seen = []
    for failing in (1, 0):
        model = small_model()
        frozen = small_model().requires_grad_(False)
        refusal = refused(
            lambda failing=failing, model=model, frozen=frozen: flockstep.Flock(
                sgd(model), frozen if rank == failing else model
            )
        )
        with flockstep.Flock(sgd(model), model) as optimizer:
            train_step(model, optimizer, rank, 0)
            optimizer.consolidate()
        seen.append({"refusal": refusal, "model": numbers(model)})
    return seen


def warned(rank, rates):
    model = small_model()
    optimizer = sgd(model, rates[rank])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with flockstep.LocalSGD(optimizer, model) as averager:
            train_step(model, averager, rank, 0)
    return [[str(each.message), each.filename == __file__] for each in caught]


def learning_rates(rank):
    return {
        "same": warned(rank, [0.1, 0.1, 0.1]),
        "tensors": warned(rank, [torch.tensor(0.1), torch.tensor(0.1), torch.tensor(0.1)]),
        "different": warned(rank, [0.1, 0.1, 0.3]),
    }


def deadlines(rank):
    model = small_model()
    return [
        refused(lambda deadline=deadline: flockstep.Flock(sgd(model), model, activation="deadline", deadline=deadline))
        for deadline in (0.5, "500ms", timedelta(seconds=-1))
    ]


def overlaps(rank):
    model = small_model()
    return [
        refused(lambda: flockstep.LocalSGD(sgd(model), model, overlap="on")),
        refused(lambda: flockstep.Wagma(sgd(model), model, overlap=True)),
    ]


if __name__ == "__main__":
    cases.run_by_rank(one_fails_to_make_an_averager, learning_rates, deadlines, overlaps)
