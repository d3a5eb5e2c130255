"""For programs under torchrun that run many cases: every rank runs each, and rank 0 prints what all of them returned.

A test asks results.py for what a case returned, which starts the program with the cases that are wanted. By hand, the program
runs each case that it is given with --case NAME, or else all of them.
"""

import faulthandler
import functools
import itertools
import json
import signal
import sys
import traceback
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

PATIENCE = timedelta(seconds=600)  # of the process group: longer than a case may take, which says where it hangs
CASE_S, MOST_CASES = 180, 12


def run(cases):
    """Runs cases: functions of no arguments by name, or a function that gives those once there is a process group."""
    time_begins()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=PATIENCE)
    cases = cases() if callable(cases) else cases
    for name in wanted(list(cases)):
        if dist.get_rank() == 0:
            print("CASE", name, flush=True)
        time_begins()
        torch.manual_seed(7)
        try:
            mine = {"value": cases[name]()}
        except Exception as error:
            mine = {"error": told(error)}
            print(mine["error"], file=sys.stderr)  # other ranks may still be in the case, and then it hangs
        outcome = everybodys(mine)
        if dist.get_rank() == 0:
            print("OUTCOME", json.dumps({name: outcome}), flush=True)
    time_begins()
    dist.destroy_process_group()


def told(error):
    """The traceback within the case, with the values of its variables if an assertion does not hold."""
    within, has_values = error.__traceback__.tb_next, isinstance(error, AssertionError)
    return "".join(traceback.TracebackException(type(error), error, within, capture_locals=has_values).format())


class Cases:
    """Cases that assert on each rank what holds there. each_of() of results.py has them for pytest.

    Args:
        workers: the sizes of the worlds that run a case, unless the case has others.
        thorough: whether the cases are of the second layer, unless a case says otherwise.
    """

    def __init__(self, *workers, thorough=False):
        self.workers, self.thorough = workers, thorough
        self.known = []  # name, workers, whether it is thorough, function

    def case(self, *arguments, workers=None, thorough=None, **options):
        """A decorator: the function with these arguments is a case, named after all of them."""

        def added(function):
            variant = [*map(str, arguments)]
            variant += [f"{name} {getattr(value, '__name__', value)}" for name, value in options.items()]
            name = ", ".join([function.__name__.replace("_", " "), *variant])
            is_thorough = self.thorough if thorough is None else thorough
            called = functools.partial(function, *arguments, **options)
            self.known += [(name, size, is_thorough, called) for size in workers or self.workers]
            return function

        return added

    def of_this_world(self):
        return {name: function for name, workers, _, function in self.known if workers == dist.get_world_size()}


def run_by_rank(*functions):
    """Runs cases that are functions of the rank, each by its own name."""
    run({function.__name__: lambda function=function: function(dist.get_rank()) for function in functions})


def time_begins():
    """Gives this process CASE_S from now on. Then its threads print where they are, and a little later the process ends."""
    faulthandler.dump_traceback_later(CASE_S)
    signal.alarm(CASE_S + 10)  # ends the process even if the thread that hangs has the interpreter's lock


def wanted(names):
    """The cases of this process, in the program's order: at most a dozen of those that Results still lacks."""
    if not sys.argv[-1].startswith("--cases="):
        named = [name for flag, name in itertools.pairwise(sys.argv) if flag == "--case"]
        if unknown := set(named) - set(names):
            raise SystemExit(
                f"with this number of workers there is no case {min(unknown)!r}; there are {', '.join(names)}"
            )
        return named or names
    asked = json.loads(sys.argv[-1].removeprefix("--cases="))
    first = names.index(asked["first"])
    lacking = [name for name in names[first:] + names[:first] if name not in asked["done"]]
    if asked["only"]:
        lacking = [name for name in lacking if name in asked["only"]]
    return sorted(lacking[:MOST_CASES], key=names.index)


def everybodys(value):
    """What every worker passes, in rank order, on every worker."""
    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def _store():
    return dist.distributed_c10d._get_default_store()


def tell(name):
    """Lets all workers know that something has happened."""
    _store().set(f"told: {name}", "")


def wait_to_hear(*names):
    _store().wait([f"told: {name}" for name in names], PATIENCE)


def is_told(name):
    return _store().check([f"told: {name}"])


def batch(rank, step, size=8):
    """A worker's batch of a regression, the same whenever it is asked for."""
    generator = torch.Generator().manual_seed(1000 * step + rank)
    inputs = torch.randn(size, 4, generator=generator)
    return inputs, inputs.sum(1, keepdim=True).sin()


def small_model(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))


def normalised(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 1))


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


def backward(model, rank, step):
    inputs, targets = batch(rank, step)
    loss = nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    return loss


def train_step(model, optimizer, rank, step):
    optimizer.zero_grad()
    loss = backward(model, rank, step)
    optimizer.step()
    return loss.item()


def numbers(model):
    """All parameters in one list."""
    return torch.cat([parameter.detach().double().flatten() for parameter in model.parameters()]).tolist()


def gradient_of(model):
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]).tolist()
