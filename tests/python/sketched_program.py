"""Gradient rules with transfer="sketch": how far results are from a recomputation, bucket by bucket, and what else holds."""

import contextlib
import gc
import math
import threading
import time
import warnings

import flockstep
import torch
import torch.distributed as dist
from cases import Cases, run
from ddp_training import loss_of, made
from hooks_shared import backward, breaking, raised, wrapped
from pretended_stream import pretended
from rule_oracle import RULES
from sketched_training import IN_STREAM, Recorded, same_everywhere
from torch.nn.parallel import DistributedDataParallel

FOLLOWED = Cases(3, thorough=True)  # also with --in-stream
CASES = Cases(3, thorough=True)
followed, case = FOLLOWED.case, CASES.case


def every_rule_gives_what_the_step_before_decides(rule):
    recorded, weights = Recorded(rule), None
    if rule == "weighted_mean":
        recorded.state.weight = dist.get_rank() + 1.0
        weights = [rank + 1.0 for rank in range(dist.get_world_size())]
    recorded.train(6, weights=weights)
    assert recorded.closed(1e-5 if IN_STREAM else 1e-6)["step"] == 6


for rule in RULES:
    followed(rule, workers=(3,), thorough=False)(every_rule_gives_what_the_step_before_decides)
    followed(rule, workers=(1, 2))(every_rule_gives_what_the_step_before_decides)


@followed(1000.0, [3], rule="mean", cuts=True)
@followed(1000.0, [3], rule="adacons")
@followed(1000.0, [3], rule="normalized_mean")
@followed(1000.0, [3], cuts=True)
@followed(1000.0, [3], rule="mean", guard=3, cuts=True)
@followed(1000.0, [3], guard=0.0, cuts=False)
@followed(1000.0, [0])
@followed(0.001, range(9))
@followed(0.0, range(2, 9))
@followed(0.0, [1, 3, 5, 7])
@followed(math.nan, [2])
@followed(math.inf, [2])
@followed(math.nan, [0])
@followed(math.nan, range(1, 9), event="none")  # left out in the end
@followed(math.nan, range(1, 9), rule="mean", event="none")
@followed(math.nan, range(1, 9), non_finite_patience=0, event="non_finite")
@followed(math.nan, [2], non_finite="exclude")
@followed(math.nan, range(9), non_finite="exclude")
def one_worker_times(factor, steps, *, rule="direction_consensus", cuts=None, event=None, **options):
    """In some steps."""
    recorded = Recorded(rule, **options)
    recorded.train(9, lambda loss, step: loss * factor if step in steps and dist.get_rank() == 1 else loss)
    report = recorded.closed(1e-5)
    assert cuts in (None, report["guards"]["clipped"] > 0)
    assert event in (None, report["event"])


@followed(10.0)
@followed(2.0)  # as a gradient scaler may
def all_workers_times(factor):
    recorded = Recorded("direction_consensus")
    recorded.train(8, lambda loss, step: loss * factor if step >= 3 else loss)
    recorded.closed(1e-5)


@followed(torch.bfloat16, 1e-2)
@followed(torch.float16, 1e-3)
def factors_of_16_bit_gradients_are_not_rounded(kind, most):
    """One worker's gradient is a thousand times the others'."""
    model = DistributedDataParallel(made().to(kind), bucket_cap_mb=0.005)
    recorded = Recorded("direction_consensus", model=model, guard=0.0)
    for step in range(5):
        model.zero_grad()
        generator = torch.Generator().manual_seed(100 * step + dist.get_rank())
        x = torch.randn(8, 12, generator=generator).to(kind)
        loss = torch.nn.functional.cross_entropy(model(x).float(), torch.arange(8) % 3)
        (loss * (1000.0 if dist.get_rank() == 1 else 1.0)).backward()
        recorded.compare()
    recorded.closed(1e-2 if IN_STREAM else most)


@case("propagate")
@case("exclude")
def what_is_finite_on_no_rank_has_no_finite_result_however_long_that_lasts(non_finite):
    """With sketches a rank that excludes itself hears of the others one step later."""
    recorded = Recorded("direction_consensus", non_finite=non_finite)
    finite = []
    for step in range(14):
        recorded.model.zero_grad()
        (loss_of(recorded.model, step) * (math.nan if 2 <= step < 12 else 1)).backward()
        finite.append(bool(recorded.compare().isfinite().all()))
    late = [True] if non_finite == "exclude" else []
    assert recorded.closed(1e-5)["event"] == "none"
    assert finite == [True] * 2 + late + [False] * (10 - len(late)) + [True] * 2


STANDS_STILL = {
    "worker 1 (1 of 2) sent numbers that are not finite for ": [1.0, math.nan],
    "all 2 workers send zeros (20 steps in a row): the model is not being trained": [0.0, 0.0],
}


@case("mean", "sketch", workers=[2])
@case("mean", "exact", workers=[2])
@case("adacons", "sketch", workers=[2])
@case("adacons", "exact", workers=[2])
def training_that_stands_still_is_a_finding_and_a_warning(rule, transfer):
    for words, factors in STANDS_STILL.items():
        model = wrapped()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            state = flockstep.register(model, rule, transfer=transfer)
            for step in range(24):
                model.zero_grad()
                (loss_of(model, step) * factors[dist.get_rank()]).backward()
            findings = state.findings
            state.close()
        assert any(finding.startswith(words.split("(20")[0]) for finding in findings), (words, findings)
        assert dist.get_rank() or any(words in str(each.message) for each in caught), words


@case([0, 1, 2], clips=2)  # counted, and not clipped
@case([0, 1, 2], "direction_consensus", start_step=9, clips=2)
@case([0, 2], clips=0)
def plain_averaging_is_that_of_ddp_to_the_last_bit(ranks, rule="mean", *, clips, **options):
    """Also where one worker's gradient is 50 times as long as the others'."""
    group = dist.new_group(ranks)
    if dist.get_rank() not in ranks:
        return
    plain, ours = wrapped(process_group=group), wrapped(process_group=group)
    state = flockstep.register(ours, rule, **options)
    for step in range(4):
        for model in (plain, ours):
            model.zero_grad()
            (loss_of(model, step) * (50 if step > 0 and dist.get_rank() == 2 else 1)).backward()
        pairs = zip(plain.parameters(), ours.parameters(), strict=True)
        assert all(torch.equal(p.grad, q.grad) for p, q in pairs)
    clipped = state.report()["guards"]["clipped"]
    state.close()
    assert clipped == clips


class Normalized(torch.nn.Module):
    """Has buffers, and in every other step a layer that rank 0 does not use."""

    def __init__(self):
        super().__init__()
        self.inner = made()
        self.norm = torch.nn.BatchNorm1d(12)

    def forward(self, x, **options):
        return self.inner(self.norm(x), **options)


@case(workers=[2, 3])
def so_it_is_while_ddp_has_collectives_of_its_own_under_way():
    """DDP broadcasts buffers and sums which parameters are used, while buckets travel."""
    models = [DistributedDataParallel(Normalized(), find_unused_parameters=True, bucket_cap_mb=0.005) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    state = flockstep.mean(models[1], guard=0.0)
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.05) for model in models]
    for step in range(20):
        for model, optimizer in zip(models, optimizers, strict=True):
            optimizer.zero_grad()
            loss_of(model, step, uses_extra=step % 2 == 0 or dist.get_rank() > 0).backward()
            optimizer.step()
    plain, ours = (model.state_dict() for model in models)
    state.close()
    assert all(torch.equal(plain[name], ours[name]) for name in plain)


@case(workers=[2])
def a_thread_comes_with_the_first_pass_and_ends_with_the_state():
    def count():
        return sum(thread.name.startswith("flockstep") for thread in threading.enumerate())

    before, counts = count(), []
    for closes in (True, False):
        model = wrapped()
        state = flockstep.direction_consensus(model)
        counts.append(count() - before)
        loss_of(model, 0).backward()
        counts.append(count() - before)
        step = state.step
        if closes:
            state.close()
        del model, state
        gc.collect()
        while count() > before:  # the case has a deadline
            time.sleep(0.01)
        counts.append(count() - before)
    assert (counts, step) == ([0, 1, 0] * 2, 1)


@case("direction_consensus")
@case("mean", divide_by_initial_world_size=False)
@case("mean")
def a_joined_rank_is_left_out(rule, **options):
    """Rank r has 3 + 2 r batches."""
    model, rank = wrapped(), dist.get_rank()
    state = flockstep.register(model, rule, transfer="sketch")
    counted = []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with model.join(**options):
        for step in range(3 + 2 * rank):
            backward(model, step)
            counted.append(int((state.coefficients != 0).sum()))
            optimizer.step()
    findings = state.findings
    state.close()
    assert same_everywhere(torch.cat([p.detach().flatten() for p in model.parameters()]))
    assert findings == []
    assert rule == "direction_consensus" or counted[-1] == [3, 2, 1][rank]


@case()
def a_mean_over_no_samples_is_zero():
    model = wrapped()
    state = flockstep.weighted_mean(model)
    norms = []
    for step, weight in enumerate([0.0, 2.0, 0.0]):
        state.weight = weight
        backward(model, step)
        norms.append(norm_of(model))
    state.close()
    assert norms[0] == norms[2] == 0
    assert norms[1] > 0


def norm_of(model):
    return float(sum(p.grad.square().sum() for p in model.parameters()).sqrt())


@case()
def a_rule_is_followed_one_step_after_it_was_asked_for():
    """Asked for before step 2: step 2 still follows the rule before."""
    model = wrapped()
    state = flockstep.mean(model)
    rules = []
    for step in range(5):
        if step == 2:
            state.set_rule("direction_consensus", beta=0.5)
        backward(model, step)
        rules.append(state.rule)
    by_tensor = raised(lambda: state.set_rule("adacons", granularity="tensor"))
    exact = raised(lambda: state.set_rule("adacons", transfer="exact"))
    state.close()
    assert rules == ["mean"] * 3 + ["direction_consensus"] * 2
    assert 'granularity="tensor" needs transfer="exact"' in str(by_tensor)
    assert "set_rule() cannot change it" in str(exact)


@case()
def ranks_that_ask_for_different_rules_are_named():
    model = wrapped()
    state = flockstep.mean(model)
    backward(model, 0)
    state.set_rule("direction_consensus", beta=0.5 if dist.get_rank() == 1 else 0.9)
    backward(model, 1)
    error = raised(lambda: backward(model, 2))
    state.close()
    assert isinstance(error, flockstep.MismatchError)
    assert "worker 1 has asked for another rule" in str(error)


@case()
def a_loss_belongs_to_the_step_that_was_just_taken():
    model = wrapped()
    state = flockstep.direction_consensus(model)
    figures = []
    for step in range(3):
        backward(model, step)
        state.record(loss=float(step))
        metrics = state.metrics()
        figures.append((metrics["step"], metrics["loss"]))
    state.close()
    assert figures == [(1, 0), (2, 1), (3, 2)]


@case()
def a_model_that_changes_its_shape_is_refused():
    """A state that goes on with a larger model."""
    small, large = DistributedDataParallel(made().first), wrapped()
    state = flockstep.DirectionConsensusState(sketch_length=64)
    for model in (small, large):
        model.register_comm_hook(state, flockstep.direction_consensus_hook)
    small(torch.ones(1, 12)).sum().backward()
    error = raised(loss_of(large, 0).backward)
    state.close()
    assert error.code == "bad_input"
    assert "the model has changed its shape: its gradient has 3923 numbers where it had 520" in str(error)


@case("last")  # in the first bucket
@case("first")
def a_step_that_one_rank_lacks_ends_the_training_on_all(layer):
    """Backward breaks off in step 2 on rank 1: the others take that step, and all raise in the next."""
    model, rank = wrapped(), dist.get_rank()
    state = flockstep.direction_consensus(model)
    errors = []
    for step in range(4):
        with breaking(getattr(model.module, layer), step == 2 and rank == 1):
            errors.append(raised(lambda step=step: loss_of(model, step).backward()))
    state.close()
    assert errors[:2] == [None, None]
    assert errors[2] is None or (rank == 1 and isinstance(errors[2], ValueError))
    assert isinstance(errors[3], flockstep.MismatchError)
    assert "a step that worker 1 has not" in str(errors[3])


@case()
def more_passes_a_step_cost_one_step_at_most():
    """From one backward pass a step to eight."""
    model = wrapped()
    state = flockstep.direction_consensus(model, guard=3.0)
    sizes = []
    for step in range(8):
        model.zero_grad()
        with model.no_sync():
            for part in range(0 if step < 4 else 7):
                loss_of(model, 10 * step + part).backward()
        loss_of(model, 10 * step + 9).backward()
        sizes.append(norm_of(model))
    clipped = state.report()["guards"]["clipped"]
    state.close()
    assert clipped <= 2
    assert min(sizes[5:]) > max(sizes[:4])


@case()
def buckets_can_have_coefficients_of_their_own():
    model = wrapped()
    state = flockstep.direction_consensus(model, granularity="bucket")
    for step in range(5):
        backward(model, step)
        assert same_everywhere(torch.cat([p.grad.flatten() for p in model.parameters()]))
    step = state.step
    state.close()
    assert step == 5


@case(False, [False, False, False, False])
@case(2, [True, False, True, False])
@case(True, [True, True, True, True])
def workers_are_watched_as_often_as_asked_for(every, expected):
    model = wrapped()
    state = flockstep.mean(model, watch=every)
    told = []
    for step in range(4):
        backward(model, step)
        told.append(state.agreement is not None)
    norms = len(state.norms)
    state.close()
    assert told == expected
    assert norms == 3


if __name__ == "__main__":
    with pretended() if IN_STREAM else contextlib.nullcontext():
        run(lambda: FOLLOWED.of_this_world() | ({} if IN_STREAM else CASES.of_this_world()))
