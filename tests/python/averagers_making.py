"""Making averagers where workers are not alike, and what averagers refuse. Three workers."""

import contextlib
import warnings
from datetime import timedelta

import cases
import flockstep
import torch
import torch.distributed as dist
from averagers_shared import cases_in, is_same_everywhere, refusal_of
from cases import backward, numbers, small_model, train_step
from torch import nn
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP


def sgd(model, lr=0.1):
    return torch.optim.SGD(model.parameters(), lr=lr)


def after_one_rank_alone_failed_to_make_an_averager_all_make_the_next(rank):
    """First rank 1, then rank 0; the others hear of it at once."""
    for failing in (1, 0):
        model = small_model()
        wanted = model if rank != failing else small_model().requires_grad_(False)
        refused = refusal_of(lambda model=model, wanted=wanted: flockstep.Flock(sgd(model), wanted))
        with flockstep.Flock(sgd(model), model) as optimizer:
            train_step(model, optimizer, rank, 0)
            optimizer.consolidate()
        assert is_same_everywhere(numbers(model))
        error = "BadInputError: the model has no parameter that needs a gradient"
        expected = error if rank == failing else f"MismatchError: rank {failing} has not made Flock: {error}"
        assert refused.startswith(expected), refused


def different_learning_rates_are_warned_of_once_at_the_users_line(rank):
    def warned(rates):
        model = small_model()
        optimizer = sgd(model, rates[rank])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with flockstep.LocalSGD(optimizer, model) as averager:
                train_step(model, averager, rank, 0)
        return [(str(each.message), each.filename == __file__) for each in caught]

    same = warned([0.1, 0.1, 0.1]), warned([torch.tensor(0.1)] * 3)
    different = warned([0.1, 0.1, 0.3])
    assert same == ([], [])
    assert len(different) == (rank == 0)
    for sentence, is_users_line in different:
        assert sentence.startswith("worker 2 has the learning rate 0.3 where worker 0 has 0.1, ")
        assert is_users_line


class Reducing(torch.optim.SGD):
    """As many scripts have one: it sums gradients over all ranks by itself."""

    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                dist.all_reduce(parameter.grad)
        return super().step(closure)


def made(name="Flock", model=None, inner=sgd, **options):
    model = model or small_model()
    getattr(flockstep, name)(inner(model), model, **options).close()


def around_flock(call):
    """Is called with a Flock and its model."""

    def called(rank):
        model = small_model()
        with flockstep.Flock(sgd(model), model) as optimizer:
            call(optimizer, model)

    return called


def stepping_after(call):
    """A step after something was done to an averager and its model, of which the first layer is frozen."""

    def called(rank):
        model = nn.Sequential(nn.Linear(4, 4).requires_grad_(False), nn.Linear(4, 1))
        with flockstep.LocalSGD(sgd(model), model) as optimizer:
            call(optimizer, model)
            train_step(model, optimizer, rank, 0)

    return called


def replaced(optimizer, model):
    model[0].weight = nn.Parameter(torch.zeros(6, 4))
    optimizer.consolidate()


def hooked(model):
    wrapped = DDP(model)
    wrapped.register_comm_hook(None, lambda _, bucket: None)
    return wrapped


def delaying(net):
    named = list(net.named_parameters())
    return DDP(net, delay_all_reduce_named_params=named[:1], param_to_hook_all_reduce=named[1][1])


def around_the_module_of(wrap):
    wrapped = wrap(small_model())
    made(model=wrapped.module)


# DDP of a model with lazy layers fails by itself, and the averager goes on.
def half_made_ddp(this_rank):
    net = small_model()
    with flockstep.Flock(sgd(net), net) as optimizer:
        with contextlib.suppress(RuntimeError):
            DDP(nn.Sequential(net, nn.LazyLinear(2)))
        train_step(net, optimizer, this_rank, 0)
        optimizer.consolidate()


def past_the_hooks(this_rank):
    model = DDP(small_model())
    with flockstep.Flock(sgd(model), model) as optimizer:
        train_step(model, optimizer, this_rank, 0)
        model.require_backward_grad_sync = True
        model.forward(cases.batch(this_rank, 1)[0]).sum().backward()
        optimizer.step()


def reducing(this_rank):
    model = small_model()
    with flockstep.Flock(Reducing(model.parameters(), lr=0.1), model) as optimizer:
        train_step(model, optimizer, this_rank, 0)


def barriers_between_steps(this_rank):
    model = small_model()
    with flockstep.Flock(sgd(model), model) as optimizer:
        train_step(model, optimizer, this_rank, 0)
        dist.barrier()
        train_step(model, optimizer, this_rank, 1)


def of_torch(model):
    return PostLocalSGDOptimizer(sgd(model), PeriodicModelAverager(period=4))


def sharded(model):
    return ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)


def of_horovod(model):
    return type("SGD", (torch.optim.SGD,), {"__module__": "horovod.torch.optimizer"})(model.parameters(), lr=0.1)


def state_of_ours(model, state):
    return {**sgd(model).state_dict(), "flockstep": {"algorithm": "flock", "state": state}}


# What is called on all ranks, and the error's class and the beginning of its sentence.
TWO_DEVICES = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2, device="meta")])
NOT_ITS = "the optimizer has a parameter of shape "
ITSELF = "communicates with other workers by itself, and "
LOADS = "load_state_dict() takes what state_dict() of an averager or an optimizer returned, "
DELAYS = "DDP's delay_all_reduce_named_params waits for all workers in every backward pass, beside Flock"
NEVER_RUNS = "the DDP model has a communication hook, which would never run"
WRONG = {
    "BadTypeError": [
        (lambda _: made(perod=3), "Flock has no option 'perod' (did you mean period?); there are group_size, "),
        (lambda _: made(rundir="somewhere"), "Flock has no option 'rundir' (did you mean run_dir?); there are "),
        (lambda _: made(period="3"), "period is a whole number, not '3'"),
        (lambda _: made(elastic=1), "elastic is True or False, not 1"),
        (lambda _: made(timeout=3), "timeout is a datetime.timedelta or None, not 3"),
        (lambda _: made(deadline=0.5), "deadline is a datetime.timedelta or None, not 0.5"),
        (lambda _: made("LocalSGD", overlap="on"), "overlap is True or False, not 'on'"),
        (lambda _: made(inner=lambda model: model), "Flock goes around a torch.optim.Optimizer, not a Sequential"),
        (
            lambda _: made(model=[nn.Linear(2, 2)], inner=lambda it: sgd(it[0])),
            "Flock averages a torch.nn.Module, not a list",
        ),
        (around_flock(lambda it, _: it.load_state_dict([it.state_dict()])), f"{LOADS}not a list"),
    ],
    "BadInputError": [
        (
            lambda _: made("ADPSGD", elastic=True),
            "ADPSGD cannot continue without a lost worker: use flockstep.Flock or",
        ),
        (lambda _: made("Swarm", elastic=True), "Swarm cannot continue without a lost worker: use flockstep.Flock or"),
        (lambda _: made(timeout=timedelta.max), "a timeout is at most 11574 days, not 999999999 days, 23:59:59.999999"),
        (
            lambda _: made(deadline=timedelta(-1)),
            "deadline is a datetime.timedelta above 0, not datetime.timedelta(days=-1)",
        ),
        (
            lambda _: made("Wagma", overlap=True),
            "overlap on needs merge additive: the published merge waits for its round",
        ),
        (lambda _: made(period=0), "period takes a whole number at least 1, not 0"),
        (lambda _: made(group_size=9), "group_size takes"),
        (lambda _: made(groups="static"), "groups takes dynamic, fixed or nodes, not 'static'"),
        (lambda _: made(groups="nodes", group_size=2), "group_size is not for groups nodes"),
        (lambda _: made("Wagma", across=2), "across needs groups nodes, not 'dynamic'"),
        (lambda _: made("SGP", neighbours=3), "neighbours takes a whole number from 1 to"),
        (lambda _: made("Wagma", activation="second"), "activation"),
        (
            around_flock(lambda _, model: made(model=model)),
            "the model is in an averager already: close() that one before",
        ),
        (
            around_flock(lambda it, model: made("Wagma", model, lambda _: it)),
            f"Flock {ITSELF}Wagma goes around an optimizer",
        ),
        (
            around_flock(lambda it, _: it.add_param_group({"params": [nn.Parameter(torch.zeros(2))]})),
            f"{NOT_ITS}(2,) that",
        ),
        (lambda _: made(inner=lambda _: sgd(small_model())), f"{NOT_ITS}(6, 4) that is not in the model"),
        (
            around_flock(lambda it, model: it.load_state_dict(model.state_dict())),
            f"{LOADS}which has state, param_groups: this",
        ),
        (around_flock(replaced), "a parameter or buffer of the model was replaced"),
        (lambda _: made(model=TWO_DEVICES, inner=lambda both: sgd(both[0])), "the model is on cpu and meta"),
        (lambda _: made(model=TWO_DEVICES[1]), "the model is on meta"),
        (
            lambda _: made(model=nn.Sequential(nn.Linear(2, 2), nn.SyncBatchNorm(2))),
            "1 is a SyncBatchNorm, which waits for",
        ),
        (lambda _: made(model=small_model().double()), "0.weight Double [6, 4] cannot be trained in parallel"),
        (stepping_after(lambda _, model: model.requires_grad_(True)), "0.weight was frozen when training began"),
        (stepping_after(lambda it, _: it.close()), "this LocalSGD is closed: make another one to continue"),
        (lambda _: made(model=delaying(small_model())), DELAYS),
        (lambda _: around_the_module_of(delaying), DELAYS),
        (lambda _: made(model=hooked(small_model())), NEVER_RUNS),
        (lambda _: around_the_module_of(hooked), NEVER_RUNS),
        (around_flock(lambda _, model: backward(hooked(model), 0, 0)), NEVER_RUNS),
        (past_the_hooks, "DDP has synchronised gradients beside Flock, which waits for all workers: call the model as"),
        (lambda _: made(inner=of_torch), f"PostLocalSGDOptimizer {ITSELF}Flock goes"),
        (lambda _: made(inner=sharded), f"ZeroRedundancyOptimizer {ITSELF}Flock goes"),
        (lambda _: made(inner=of_horovod), f"SGD {ITSELF}Flock goes"),
        (reducing, f"Reducing {ITSELF}Flock goes"),
    ],
    "MismatchError": [
        (
            lambda rank: made(groups="nodes", workers_per_node=min(rank, 1) + 1),
            "workers 1, 2 have flock.workers_per_node 2 where worker 0 has 1",
        ),
        (
            lambda rank: made("LocalSGD", period=2 + min(rank, 1)),
            "workers 1, 2 have local_sgd.period 3 where worker 0 has 2",
        ),
    ],
    "BadFileError": [(around_flock(lambda it, model: it.load_state_dict(state_of_ours(model, "00"))), "")],
    "none": [(half_made_ddp, ""), (barriers_between_steps, "")],
}


def a_wrong_call_gets_one_sentence(rank):
    wrong = []
    for kind, rows in WRONG.items():
        for call, sentence in rows:
            refused = refusal_of(lambda call=call: call(rank))
            if not refused.startswith(f"{kind}: {sentence}") or "\n" in refused:
                wrong.append((f"{kind}: {sentence}", refused))
    assert not wrong, wrong


CASES = cases_in(globals())

if __name__ == "__main__":
    cases.run_by_rank(*CASES)
