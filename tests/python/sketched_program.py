"""Gradient rules with transfer="sketch": how far results are from a recomputation, bucket by bucket, and what else holds."""

import contextlib
import gc
import math
import sys
import threading
import time
import warnings
from contextlib import closing

import flockstep
import torch
import torch.distributed as dist
from cases import Cases, run
from ddp_training import flat, loss_of, made, of_all
from hooks_shared import SMALL, backward, breaking, check_refusals, raised, under, weights_for, wrapped
from pretended_stream import calls, pretended, put_in_stream
from rule_oracle import RULES
from sketch_oracle import Beside, SketchedOracle
from torch.nn.parallel import DistributedDataParallel

IN_STREAM = "--in-stream" in sys.argv  # as on CUDA devices
FOLLOWED = Cases(3, thorough=True)  # also with --in-stream
ASKED = Cases(3)  # only with --in-stream
CASES = Cases(3, thorough=True)
followed, case = FOLLOWED.case, CASES.case


class Recorded:
    """A DDP model under a rule, and the oracle beside it."""

    def __init__(self, rule, *, model=None, **options):
        oracle = SketchedOracle(
            rule,
            length=256,
            guard=options.get("guard"),
            excludes=options.get("non_finite") == "exclude",
            patience=options.get("non_finite_patience", 5),
        )
        self.model = model or wrapped()
        self.state = flockstep.register(self.model, rule, transfer="sketch", sketch_length=256, **options)
        self.beside = Beside(self.state, oracle)
        self.same = True  # results on all ranks
        if IN_STREAM:
            put_in_stream(self.state)

    def compare(self, weights=None):
        result = self.beside.compare(weights)
        self.same = self.same and same_everywhere(result)
        return result

    def train(self, steps, change=lambda loss, step: loss, weights=None):
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)
        for step in range(steps):
            optimizer.zero_grad()
            change(loss_of(self.model, step), step).backward()
            self.compare(weights)
            if all(torch.isfinite(p.grad).all() for p in self.model.parameters()):
                optimizer.step()

    def closed(self, most):
        """Checks what came of it. Returns the last report."""
        report = self.state.report()
        self.state.close()
        assert self.beside.worst < most
        assert self.same
        assert report["guards"]["clipped"] == self.beside.oracle.clipped
        return report


def same_everywhere(tensor):
    return all(torch.equal(each.nan_to_num(1e30), tensor.nan_to_num(1e30)) for each in of_all(tensor))


def every_rule_gives_what_the_step_before_decides(rule):
    recorded = Recorded(rule)
    recorded.train(6, weights=weights_for(rule, recorded.state))
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
    model = DistributedDataParallel(made().to(kind), **SMALL)
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
        with warnings.catch_warnings(record=True) as caught, under(rule, transfer=transfer) as (model, state):
            warnings.simplefilter("always")
            for step in range(24):
                model.zero_grad()
                (loss_of(model, step) * factors[dist.get_rank()]).backward()
            findings = state.findings
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
    plain = wrapped(process_group=group)
    with under(rule, wrapped(process_group=group), **options) as (ours, state):
        for step in range(4):
            for model in (plain, ours):
                model.zero_grad()
                (loss_of(model, step) * (50 if step > 0 and dist.get_rank() == 2 else 1)).backward()
            assert torch.equal(flat(plain.parameters()), flat(ours.parameters()))
        assert state.report()["guards"]["clipped"] == clips


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
    plain, ours = (DistributedDataParallel(Normalized(), find_unused_parameters=True, **SMALL) for _ in range(2))
    ours.load_state_dict(plain.state_dict())
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.05) for model in (plain, ours)]
    with under("mean", ours, guard=0.0):
        for step in range(20):
            for model, optimizer in zip((plain, ours), optimizers, strict=True):
                optimizer.zero_grad()
                loss_of(model, step, uses_extra=step % 2 == 0 or dist.get_rank() > 0).backward()
                optimizer.step()
    assert all(torch.equal(one, other) for one, other in zip(plain.parameters(), ours.parameters(), strict=True))
    assert all(torch.equal(one, other) for one, other in zip(plain.buffers(), ours.buffers(), strict=True))


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
        assert state.step == 1
        if closes:
            state.close()
        del model, state
        gc.collect()
        while count() > before:  # the case has a deadline
            time.sleep(0.01)
    assert counts == [0, 1] * 2


@case()
def a_mean_over_no_samples_is_zero():
    with under("weighted_mean") as (model, state):
        for step, weight in enumerate([0.0, 2.0, 0.0]):
            state.weight = weight
            backward(model, step)
            assert (flat(model.parameters()).norm() > 0) == (weight > 0)


@case()
def a_rule_is_followed_one_step_after_it_was_asked_for():
    """Asked for before step 2: step 2 still follows the rule before."""
    with under("mean") as (model, state):
        rules = []
        for step in range(5):
            if step == 2:
                state.set_rule("direction_consensus", beta=0.5)
            backward(model, step)
            rules.append(state.rule)
        assert rules == ["mean"] * 3 + ["direction_consensus"] * 2
        check_refusals(
            ('granularity="tensor" needs transfer="exact"', lambda: state.set_rule("adacons", granularity="tensor")),
            ("set_rule() cannot change it", lambda: state.set_rule("adacons", transfer="exact")),
        )


@case()
def ranks_that_ask_for_different_rules_are_named():
    with under("mean") as (model, state):
        backward(model, 0)
        state.set_rule("direction_consensus", beta=0.5 if dist.get_rank() == 1 else 0.9)
        backward(model, 1)
        error = raised(lambda: backward(model, 2))
    assert isinstance(error, flockstep.MismatchError)
    assert "worker 1 has asked for another rule" in str(error)


@case()
def a_loss_belongs_to_the_step_that_was_just_taken():
    with under("direction_consensus") as (model, state):
        for step in range(3):
            backward(model, step)
            state.record(loss=float(step))
            metrics = state.metrics()
            assert (metrics["step"], metrics["loss"]) == (step + 1, step)


@case()
def a_model_that_changes_its_shape_is_refused():
    """A state that goes on with a larger model."""
    small, large = DistributedDataParallel(made().first), wrapped()
    with closing(flockstep.DirectionConsensusState(sketch_length=64)) as state:
        for model in (small, large):
            model.register_comm_hook(state, flockstep.direction_consensus_hook)
        small(torch.ones(1, 12)).sum().backward()
        words = "the model has changed its shape: its gradient has 3923 numbers where it had 520"
        check_refusals((words, loss_of(large, 0).backward))


@case("last")  # in the first bucket
@case("first")
def a_step_that_one_rank_lacks_ends_the_training_on_all(layer):
    """Backward breaks off in step 2 on rank 1: the others take that step, and all raise in the next."""
    errors = []
    with under("direction_consensus") as (model, _):
        for step in range(4):
            with breaking(getattr(model.module, layer), step == 2 and dist.get_rank() == 1):
                errors.append(raised(lambda step=step: loss_of(model, step).backward()))
    assert errors[:2] == [None, None]
    assert errors[2] is None or (dist.get_rank() == 1 and isinstance(errors[2], ValueError))
    assert isinstance(errors[3], flockstep.MismatchError)
    assert "a step that worker 1 has not" in str(errors[3])


@case()
def buckets_can_have_coefficients_of_their_own():
    with under("direction_consensus", granularity="bucket") as (model, state):
        for step in range(5):
            backward(model, step)
            assert same_everywhere(flat(model.parameters()))
        assert state.step == 5


@case(False, [False, False, False, False])
@case(2, [True, False, True, False])
@case(True, [True, True, True, True])
def workers_are_watched_as_often_as_asked_for(every, expected):
    with under("mean", watch=every) as (model, state):
        for step, is_told in enumerate(expected):
            backward(model, step)
            assert (state.agreement is not None) == is_told
        assert len(state.norms) == 3


EXCHANGE = ["current: copy float64", "side: wait for current", "collectives: wait for side", "collectives: gather"]
EXCHANGE += ["side: wait for collectives", "side: copy uint8", "side: decide", "side: copy float64", "side: event"]
NO_WAIT, HOST, STREAM = [], ["host: wait for an event of side"], ["current: wait for an event of side"]


def the_host_waits_for_a_stream_only_if_buckets_are_new_or_the_rule_changes(rule):
    """What each pass asks streams for. All ask for another rule in pass 4; pass 6 of rank 1 breaks off."""
    recorded = Recorded(rule)
    passes = []
    for step in range(8):
        if step == 4:
            recorded.state.set_rule("mean" if rule == "adasum" else "adasum")
        handle = breaking(recorded.model.module.first, step == 6 and dist.get_rank() == 1)
        calls.clear()
        error = raised(lambda step=step: loss_of(recorded.model, step).backward())
        passes.append(calls + ([type(error).__name__] if error else []))
        handle.remove()
    recorded.state.close()
    expected = [[*waits, *EXCHANGE] for waits in (NO_WAIT, HOST, HOST, STREAM, HOST, HOST, STREAM, STREAM)]
    if dist.get_rank() == 1:
        expected[6:] = [[*STREAM, "ValueError"], [*EXCHANGE, *expected[7]]]
    assert passes == expected


for rule in RULES:
    ASKED.case(rule, thorough=rule != "adacons")(
        the_host_waits_for_a_stream_only_if_buckets_are_new_or_the_rule_changes
    )


if __name__ == "__main__":
    with pretended() if IN_STREAM else contextlib.nullcontext():
        run(lambda: FOLLOWED.of_this_world() | (ASKED if IN_STREAM else CASES).of_this_world())
