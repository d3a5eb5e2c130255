"""DDP models that an averager takes over, whatever a script does to them meanwhile, and workers that are asleep. Three workers.

Rank 0 trains alone at times, while the others wait for its word in the store: were DDP to synchronise, rank 0 would wait for
them, and the case would fail.
"""

import itertools
import threading
import time
import warnings

import cases
import flockstep
import torch
import torch.distributed as dist
from averagers_shared import cases_in, is_same_everywhere
from cases import backward, gradient_of, normalised, numbers, sgd, small_model, tell, train_step, wait_to_hear
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

OPTIONS = {
    "defaults": {},
    "unused": {"find_unused_parameters": True},
    "static": {"static_graph": True},
    "bucket view": {"gradient_as_bucket_view": True},
    "no buffers": {"broadcast_buffers": False},
}
words = itertools.count()


def alone(rank, model, train=backward):
    """Rank 0 has a few backward passes while the others do nothing."""
    word = f"done {next(words)}"
    if rank == 0:
        accumulate(model, rank, train)
        tell(word)
    else:
        wait_to_hear(word)


def accumulate(model, rank, train=backward, micro_steps=2):
    """As nanoGPT does it."""
    for micro_step in range(micro_steps):
        model.require_backward_grad_sync = micro_step == micro_steps - 1
        train(model, rank, micro_step)


def gradients_are_equal(model, rank, step):
    model.zero_grad()
    backward(model, rank, step)
    return is_same_everywhere(gradient_of(model))


def a_script_that_switches_ddp_itself(rank, options):
    model = DDP(normalised(rank), **options)
    return model, flockstep.Flock(sgd(model), model)


def ddp_that_has_synchronised_before(rank, options):
    model = DDP(normalised(rank), **options)
    for step in (7, 8, 9):  # in its second or third forward pass DDP of all ranks lays its buckets out anew, together
        backward(model, rank, step)
    return model, flockstep.Flock(sgd(model), model)


def the_module_inside_of_ddp(rank, options):
    model = DDP(normalised(rank), **options)
    return model, flockstep.Flock(sgd(model), model.module)


def ddp_made_later(rank, options, wrap=lambda net: net):
    net = normalised(rank)
    optimizer = flockstep.Flock(sgd(net), net)
    return DDP(wrap(net), **options), optimizer


def ddp_made_later_around_more(rank, options):
    return ddp_made_later(rank, options, lambda net: nn.Sequential(net, nn.Identity()))


MAKERS = [
    a_script_that_switches_ddp_itself,
    ddp_that_has_synchronised_before,
    the_module_inside_of_ddp,
    ddp_made_later,
    ddp_made_later_around_more,
]


def taken_over(rank, make, options):
    model, optimizer = make(rank, OPTIONS[options])
    with optimizer:
        alone(rank, model)
        accumulate(model, rank)
        seen = {"local": not gradients_are_equal(model, rank, 0)}
        with model.no_sync():
            backward(model, rank, 1)
        optimizer.step()
        alone(rank, model)
        seen["local later"] = not gradients_are_equal(model, rank, 1)
        optimizer.step()
        seen["local buffers"] = not is_same_everywhere([each.tolist() for each in model.buffers()])
        optimizer.consolidate()
        seen["consolidated"] = is_same_everywhere(numbers(model))
    buffers = OPTIONS[options].get("broadcast_buffers", True)
    seen["restored"] = model.require_backward_grad_sync and model.broadcast_buffers == buffers
    if options != "static" or make is ddp_that_has_synchronised_before:  # else it has to be wrapped again, and says so
        seen["synchronises again"] = all(gradients_are_equal(model, rank, step) for step in range(2, 5))
    return seen


def no_backward_pass_waits_for_the_others(rank):
    for make, options in itertools.product(MAKERS, OPTIONS):
        seen = taken_over(rank, make, options)
        assert all(seen.values()), (make.__name__, options, seen)


def post_local_sgd_averages_gradients_once_wherever_ddp_is(rank):
    """Gradients for two steps, itself if DDP was not given; then models."""
    ends = []
    for make in (lambda model: (DDP(model), None), lambda model: (None, DDP(model)), lambda model: (None, None)):
        net = small_model()
        given, model = make(net)
        optimizer = flockstep.PostLocalSGD(sgd(net), given or net, switch_after=2, period=2)
        model = given or model or DDP(net)
        equal = []
        with optimizer:
            for _ in range(4):
                optimizer.zero_grad()
                accumulate(model, rank)
                optimizer.step()
                equal.append(is_same_everywhere(numbers(net)))
        assert equal == [True, True, False, True], equal
        ends.append(torch.tensor(numbers(net)))
    assert torch.equal(ends[1], ends[2])
    torch.testing.assert_close(ends[0], ends[1], rtol=0, atol=1e-6)


def a_static_graph_that_saw_no_synchronised_pass_is_warned_of(rank):
    model = DDP(small_model(), static_graph=True)
    optimizer = flockstep.LocalSGD(sgd(model), model, period=1)
    train_step(model, optimizer, rank, 0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        optimizer.close()
    assert ["wrap its module in DDP again" in str(each.message) for each in caught] == [True]


def a_compiled_ddp_model_does_not_wait_either(rank):
    """The averager has the module, or the one that torch.compile puts around it; `eager` compiles nothing."""
    for gets_compiled in (False, True):
        model = DDP(small_model(rank))
        fast = torch.compile(model, backend="eager")
        with flockstep.Flock(sgd(model), fast if gets_compiled else model) as optimizer:
            for step in range(2):
                alone(rank, model, lambda _, *batch, fast=fast: backward(fast, *batch))
                model.zero_grad()
                backward(fast, rank, step)
                assert not is_same_everywhere(gradient_of(model)), gets_compiled
                optimizer.step()
            optimizer.consolidate()
            assert is_same_everywhere(numbers(model)), gets_compiled


# Worker 2 takes its fourth step only once the others have taken all of theirs: should they wait for it, nobody goes on.
def nobody_waits_for_a_worker_that_sleeps(rank):
    for name in ("Flock", "Wagma", "ADPSGD"):
        for word, model in ((f"{name}, plain", normalised()), (f"{name}, DDP", DDP(normalised()))):
            with getattr(flockstep, name)(sgd(model), model) as optimizer:
                for step in range(7):
                    if rank == 2 and step == 3:
                        wait_to_hear(f"{word}, 0", f"{word}, 1")
                    train_step(model, optimizer, rank, step)
                tell(f"{word}, {rank}")
                optimizer.consolidate()
            assert is_same_everywhere(numbers(model)), word


def a_thread_goes_on_while_the_worker_waits_in_step(rank):
    """Worker 2 comes only once the others' threads have counted; without Python's lock they never would."""
    model = small_model()

    def count():
        for _ in range(50):
            time.sleep(0.001)
        tell(f"counted, {rank}")

    with flockstep.LocalSGD(sgd(model), model, period=1) as optimizer:
        train_step(model, optimizer, rank, 0)
        thread = threading.Thread(target=count)
        backward(model, rank, 1)
        if rank == 2:
            wait_to_hear("counted, 0", "counted, 1")
        thread.start()
        optimizer.step()
        thread.join()


def a_group_of_some_workers_averages_by_itself(rank):
    group = dist.new_group([0, 2])
    ends = None
    if rank != 1:
        plain, wrapped = small_model(rank), DDP(small_model(rank), process_group=group)
        with (
            flockstep.Flock(sgd(plain), plain, process_group=group) as one,
            flockstep.LocalSGD(sgd(wrapped), wrapped, period=2) as two,
        ):
            for step in range(4):
                train_step(plain, one, rank, step)
                train_step(wrapped, two, rank, step)
            one.consolidate()
        ends = [numbers(plain), numbers(wrapped)]
    first, _, last = cases.everybodys(ends)
    assert first == last


CASES = cases_in(globals())

if __name__ == "__main__":
    cases.run_by_rank(*CASES)
