"""Cases of hooks_program.py: training beside a scaler, join and watching."""

from contextlib import closing

import flockstep
import torch
import torch.distributed as dist
from ddp_training import batch, distance, flat, loss_of, of_all
from hooks_shared import ALL, CASES, backward, distance_of_step, gradient_of, under, values_of, wrapped
from rule_oracle import Expected
from torch import nn
from torch.nn.parallel import DistributedDataParallel

case = CASES.case


@case("propagate")
@case("exclude")
def an_overflow_on_one_rank_makes_all_skip_the_step_and_back_off_or_leaves_that_rank_out(non_finite):
    """In step 1 the gradient of rank 2 overflows. What is remembered is in the units of the scale at the time."""
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    moved, expected, worst = [], Expected("adacons"), 0.0
    with under("adacons", non_finite=non_finite, guard=0.0) as (model, state):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for step in range(3):
            scale = scaler.get_scale()
            gradients = [scale * gradient_of(model.module, step, rank) for rank in ALL]
            optimizer.zero_grad()
            loss = loss_of(model, step) * (float("inf") if step == 1 and dist.get_rank() == 2 else 1)
            before = values_of(model)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            if step != 1:
                worst = max(worst, distance(scale * flat(model.parameters()), expected(gradients)))
            elif non_finite == "exclude":
                memory = expected.rule.sorted
                worst = max(worst, distance(scale * flat(model.parameters()), expected(gradients[:2])))
                expected.rule.sorted = memory  # a step that met a guard is not remembered
            scaler.step(optimizer)
            scaler.update()
            moved.append(not torch.equal(before, values_of(model)))
        assert state.report()["guards"]["non_finite"] == 1
    assert moved == [True, non_finite == "exclude", True]
    assert scaler.get_scale() == (512 if non_finite == "propagate" else 1024)
    assert worst < 1e-5


DIVIDES_BY_THOSE_THAT_TRAIN = {"divide_by_initial_world_size": False}


@case("adacons", "exact")
@case("mean", "exact")
@case("mean", "sketch", thorough=True)
@case("mean", "exact", **DIVIDES_BY_THOSE_THAT_TRAIN)
@case("mean", "sketch", **DIVIDES_BY_THOSE_THAT_TRAIN, thorough=True)
@case("mean", "exact", then=DIVIDES_BY_THOSE_THAT_TRAIN)
@case("direction_consensus", "sketch", thorough=True)
def a_joined_rank_is_left_out(rule, transfer, then=None, **options):
    """Rank r has 4 + 3 r batches. `then`: with these options, after another rule."""
    is_late = rule == "direction_consensus"  # its coefficients are those of the step before
    rank, rule_of, worst, counted = dist.get_rank(), Expected("mean" if is_late else rule), 0.0, []
    divides_by_all = rule == "mean" and not options and not then

    def expected(gradients, weights):
        return rule_of(gradients, weights) * (len(gradients) / 3 if divides_by_all else 1)

    with under("adacons" if then else rule, transfer=transfer, guard=0.0) as (model, state):
        if then:
            state.set_rule(rule, guard=0.0, **then)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        with model.join(**options):
            for step in range(4 + 3 * rank):
                present = [each for each in ALL if step < 4 + 3 * each]
                worst = max(worst, distance_of_step(model, step, expected, present))
                counted.append(int((state.coefficients != 0).sum()))
                optimizer.step()
        assert state.findings == []
    final = values_of(model)
    assert all(torch.equal(final, other) for other in of_all(final))
    if not is_late:
        assert worst < 1e-5
        assert counted == [3, 3, 3, 3, 2, 2, 2, 1, 1, 1][: 4 + 3 * rank]


@case()
def a_rank_that_sends_zeros_for_40_steps_because_it_has_joined_is_not_taken_for_a_dead_one():
    with closing(flockstep.watch(model := wrapped())) as state, model.join():
        for step in range(5 if dist.get_rank() == 1 else 45):
            loss_of(model, step).backward()
    assert state.findings == []


@case()
def watching_gives_the_bits_of_ddp_and_tells_which_ranks_agree():
    plain, watched = wrapped(), wrapped()
    with closing(flockstep.watch(watched)) as state:
        for step in range(4):
            backward(plain, step)
            backward(watched, step)
            assert torch.equal(flat(watched.parameters()), flat(plain.parameters()))
        directions = torch.stack([each / each.norm() for each in [gradient_of(plain.module, 3, rank) for rank in ALL]])
        metrics = state.metrics()
        assert (state.agreement - directions @ directions.T).abs().max() < 0.1, "from sketches of 1,024 numbers"
        assert torch.allclose(state.coefficients.double(), torch.full((3,), 1 / 3).double())
        assert len(state.norms) == 3
        assert all(isinstance(value, float) for value in metrics.values())
        assert metrics["step"] == 4


class PartlyIgnored(nn.Module):
    """A model in which DDP ignores parameters: another shape on every rank, or a gradient that no rule takes."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.shared, self.own = nn.Linear(12, 3), nn.Linear(1, 1 + 200 * dist.get_rank())
        self.table, self.precise = nn.Embedding(5, 4, sparse=True), nn.Linear(1, 1).double()
        self.elsewhere = nn.Linear(2, 2, device="meta")
        ignored = [name for name, _ in self.named_parameters() if not name.startswith("shared.")]
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(self, ignored)

    def forward(self, x):
        alone = self.own(x[:, :1]).sum() + self.table(torch.tensor([1])).sum() + self.precise(x[:, :1].double()).sum()
        return self.shared(x), alone


@case("mean", "sketch")
@case("adacons", "exact")
def parameters_that_ddp_was_told_to_ignore_are_neither_checked_nor_counted(rule, transfer):
    expected, worst = Expected(rule), 0.0
    with under(rule, DistributedDataParallel(PartlyIgnored()), transfer=transfer) as (model, _):
        for step in range(3):
            x, y = batch(step)
            module = PartlyIgnored()
            nn.functional.cross_entropy(module(x)[0], y).backward()
            model.zero_grad()
            logits, alone = model(x)
            (nn.functional.cross_entropy(logits, y) + alone).backward()
            gradient = flat(model.module.shared.parameters())
            worst = max(worst, distance(gradient, expected(of_all(flat(module.shared.parameters())))))
    assert worst < 1e-5
    assert model.module.own.bias.grad.unique().item() == 8
    assert model.module.table.weight.grad.is_sparse
