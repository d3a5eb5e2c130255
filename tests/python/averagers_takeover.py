"""DDP models that an averager takes over, whatever a script does to them meanwhile. Three workers.

Whoever trains alone here trains while the others wait for its word in the store: were DDP to synchronise, it would wait
for them until the process group's timeout, and the case would fail.
"""

import cases
import flockstep
import torch
from cases import (
    backward,
    everybodys,
    gradient_of,
    normalised,
    numbers,
    sgd,
    small_model,
    tell,
    train_step,
    wait_to_hear,
)
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

OPTIONS = {
    "defaults": {},
    "unused": {"find_unused_parameters": True},
    "static": {"static_graph": True},
    "bucket view": {"gradient_as_bucket_view": True},
}
words = [0]


def alone(rank, work):
    """Rank 0 does it while the others do nothing."""
    words[0] += 1
    word = f"done {words[0]}"
    if rank == 0:
        work()
        tell(word)
    else:
        wait_to_hear(word)


def gradients_are_equal(model, rank, step):
    model.zero_grad()
    backward(model, rank, step)
    gradients = everybodys(gradient_of(model))
    return all(each == gradients[0] for each in gradients)


def accumulate(model, rank, micro_steps=2):
    """As nanoGPT does it."""
    for micro_step in range(micro_steps):
        model.require_backward_grad_sync = micro_step == micro_steps - 1
        backward(model, rank, micro_step)


def a_script_that_switches_ddp_itself(rank, options):
    model = DDP(normalised(rank), **options)
    return model, flockstep.Flock(sgd(model), model)


def the_module_inside_of_ddp(rank, options):
    model = DDP(normalised(rank), **options)
    return model, flockstep.Flock(sgd(model), model.module)


def ddp_made_later(rank, options):
    net = normalised(rank)
    optimizer = flockstep.Flock(sgd(net), net)
    return DDP(net, **options), optimizer


def ddp_made_later_around_more(rank, options):
    net = normalised(rank)
    optimizer = flockstep.Flock(sgd(net), net)
    return DDP(nn.Sequential(net, nn.Identity()), **options), optimizer


def nobody_waits(rank):
    seen = {}
    for make in (
        a_script_that_switches_ddp_itself,
        the_module_inside_of_ddp,
        ddp_made_later,
        ddp_made_later_around_more,
    ):
        for name, options in OPTIONS.items():
            model, optimizer = make(rank, options)
            with optimizer:
                alone(rank, lambda model=model: accumulate(model, rank))
                accumulate(model, rank)
                local = not gradients_are_equal(model, rank, 0)
                optimizer.step()
                alone(rank, lambda model=model: accumulate(model, rank))
                local = local and not gradients_are_equal(model, rank, 1)
                optimizer.step()
                optimizer.consolidate()
            seen[f"{make.__name__}, {name}"] = {
                "local": local,
                "restored": model.require_backward_grad_sync and model.broadcast_buffers,
                "consolidated": len({str(each) for each in everybodys(numbers(model))}) == 1,
            }
            if name != "static":  # which has to be wrapped again, and says so
                seen[f"{make.__name__}, {name}"]["synchronises again"] = gradients_are_equal(model, rank, 2)
    return seen


def every_averager(rank):
    local = {}
    for name in ("Wagma", "LocalSGD", "DiLoCo", "DPSGD", "ADPSGD", "SGP", "Swarm"):
        model = DDP(small_model())
        with getattr(flockstep, name)(sgd(model), model) as optimizer:
            alone(rank, lambda model=model: accumulate(model, rank))
            local[name] = not gradients_are_equal(model, rank, 0)
            optimizer.step()
            optimizer.consolidate()
    return local


def post_local_sgd_averages_once(rank):
    """Gradients for two steps, itself where DDP was not given; then models."""
    ends = []
    for make in (lambda model: (DDP(model), None), lambda model: (None, DDP(model)), lambda model: (None, None)):
        net = small_model()
        given, model = make(net)
        optimizer = flockstep.PostLocalSGD(sgd(net), given or net, switch_after=2, period=2)
        model = given or model or DDP(net)
        with optimizer:
            for _ in range(3):
                optimizer.zero_grad()
                accumulate(model, rank)
                optimizer.step()
            equal = len({str(each) for each in everybodys(numbers(net))}) == 1
            accumulate(model, rank)
            optimizer.step()
        ends.append({"apart": not equal, "model": numbers(net)})
    return ends


def compiled(rank):
    model = DDP(small_model())
    fast = torch.compile(model, backend="eager")
    with flockstep.Flock(sgd(model), model) as optimizer:
        for step in range(2):
            model.require_backward_grad_sync = True
            alone(rank, lambda: backward(fast, rank, 0))
            backward(fast, rank, step)
            optimizer.step()
        optimizer.consolidate()
    return True


def refused(call):
    try:
        call()
    except flockstep.Error as error:
        return f"{error.code}: {error}"
    return "nothing was refused"


def forward_by_name(rank):
    """Past all hooks of a module."""
    model = DDP(small_model())
    with flockstep.Flock(sgd(model), model) as optimizer:
        train_step(model, optimizer, rank, 0)
        model.require_backward_grad_sync = True
        model.forward(cases.batch(rank, 1)[0]).sum().backward()
        return refused(optimizer.step)


def making_ddp_fails(model):
    try:
        DDP(nn.Sequential(model, nn.LazyLinear(2)))
    except RuntimeError as error:
        return str(error)


def sentences(rank):
    net = small_model()
    named = list(net.named_parameters())
    delaying = DDP(net, delay_all_reduce_named_params=named[:1], param_to_hook_all_reduce=named[1][1])
    seen = {
        "delayed": refused(lambda: flockstep.Flock(sgd(delaying), delaying)),
        "delayed inside": refused(lambda: flockstep.Flock(sgd(net), net)),
    }
    hooked = DDP(small_model())
    hooked.register_comm_hook(None, lambda _, bucket: None)
    seen["hook inside"] = refused(lambda: flockstep.Flock(sgd(hooked), hooked.module))
    later = small_model()
    with flockstep.Flock(sgd(later), later) as optimizer:
        seen["failed"] = making_ddp_fails(later)
        train_step(later, optimizer, rank, 0)
        wrapped = DDP(later)
        wrapped.register_comm_hook(None, lambda _, bucket: None)
        seen["hook later"] = refused(lambda: backward(wrapped, rank, 0))
        optimizer.consolidate()
    return seen


if __name__ == "__main__":
    cases.run_by_rank(
        nobody_waits,
        every_averager,
        post_local_sgd_averages_once,
        compiled,
        forward_by_name,
        sentences,
    )
