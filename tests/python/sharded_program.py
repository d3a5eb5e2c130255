"""Gradient rules on models of fully_shard(): how far results are from a recomputation, module by module, and what else holds."""

import math
import tempfile

import flockstep
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from cases import Cases, run
from ddp_training import distance
from hooks_shared import breaking, check_refusals, raised, under, weights_for
from rule_oracle import RULES
from sketch_oracle import Beside, SketchedOracle
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
from torch.utils.checkpoint import checkpoint

STEPS = 6
DEVICE = torch.device("cpu")  # tests/cuda/sharded.py has others
CPU_GROUP = None  # all ranks over Gloo
CASES = Cases(4, thorough=True)
case = CASES.case


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.inner = nn.Linear(size, size)

    def forward(self, x):
        return x + torch.tanh(self.inner(x))


class Net(nn.Module):
    """A few blocks, each sharded by itself, and a rest. Their default size can be divided by up to four ranks."""

    def __init__(self, *, passes=1, reentrant=False, size=48):
        super().__init__()
        self.first = nn.Linear(12, size)
        self.blocks = nn.ModuleList(Block(size) for _ in range(3))
        self.last = nn.Linear(size, 4)
        self.passes, self.reentrant = passes, reentrant

    def forward(self, x):
        x = self.first(x)
        for _ in range(self.passes):
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=True) if self.reentrant else block(x)
        return self.last(x)


def mesh_of(*shape):
    """Of all ranks, unless it has another shape: replicas of shards."""
    if not shape:
        return init_device_mesh(DEVICE.type, (dist.get_world_size(),))
    return init_device_mesh(DEVICE.type, shape, mesh_dim_names=("replicate", "shard"))


def sharded(mesh=None, *, seed=0, passes=1, reentrant=False, size=48, **options):
    torch.manual_seed(seed)
    model = Net(passes=passes, reentrant=reentrant, size=size).to(DEVICE)
    mesh = mesh or mesh_of()
    for block in model.blocks:
        fully_shard(block, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def loss_of(model, step, size=8):
    generator = torch.Generator().manual_seed(100 * step + dist.get_rank())
    x = torch.randn(size, 12, generator=generator).to(DEVICE)
    return nn.functional.cross_entropy(model(x).float(), x[:, :4].argmax(1))


class BesideSharded(Beside):
    """Beside a model under a rule: what every rank hands over, module by module, and what comes of it."""

    def __init__(self, state, rule, mesh=None):
        super().__init__(state, SketchedOracle(rule, length=256), group=CPU_GROUP)
        self.mesh = mesh if mesh is not None and mesh.ndim > 1 else None
        scale, corrected = state._sharded_hook.scale, state._sharded_hook.corrected

        def recorded_scale(index, gradient, weight, divides):
            self.sent.append(gradient.clone().cpu())
            scale(index, gradient, weight, divides)

        def recorded_output(output, work):
            work = corrected(output, work)
            self.buckets.append(self.whole(output))
            return work

        state._sharded_hook.scale, state._sharded_hook.corrected = recorded_scale, recorded_output

    def whole(self, output):
        """The sum over all ranks, of which each rank has a shard of a part."""
        part = output.double()
        group = None
        if self.mesh is not None:
            dist.all_reduce(part, group=self.mesh.get_group("replicate"))
            group = self.mesh.get_group("shard")
        shards = [torch.zeros_like(part) for _ in range(dist.get_world_size(group))]
        dist.all_gather(shards, part, group=group)
        return torch.cat(shards).cpu()


def train(model, beside=None, steps=STEPS, *, weights=None, change=lambda loss, step: loss, first=0):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(first, first + steps):
        optimizer.zero_grad()
        change(loss_of(model, step), step).backward()
        if beside is not None:
            beside.compare(weights)
        optimizer.step()


def full(model, of="grad"):
    values = [(p.grad if of == "grad" else p).full_tensor().detach().flatten() for p in model.parameters()]
    return torch.cat(values).double().cpu()


def rule_of(rule, mesh=None, *, make=sharded, **options):
    with under(rule, make(mesh, **options), sketch_length=256) as (model, state):
        beside = BesideSharded(state, rule, mesh)
        train(model, beside, weights=weights_for(rule, state))
        return {"distance": beside.worst, "step": state.step, "workers": len(state.coefficients)}


HALF = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)


def two_blocks_together(mesh):
    torch.manual_seed(0)
    model = Net().to(DEVICE)
    fully_shard([model.blocks[0], model.blocks[1]], mesh=mesh)
    return fully_shard(model, mesh=mesh)


def replicas_of_shards():
    return mesh_of(2, 2)


def ranks_in_another_order():
    return DeviceMesh(DEVICE.type, torch.tensor([[0, 2], [1, 3]]), mesh_dim_names=("replicate", "shard"))


@case("direction_consensus", mp_policy=HALF, most=0.01, workers=(2, 4))
@case("adacons", reshard_after_forward=False)
@case("direction_consensus", size=50)  # with padding
@case("direction_consensus", make=two_blocks_together)
@case("mean", mesh=replicas_of_shards)
@case("weighted_mean", mesh=replicas_of_shards)
@case("adacons", mesh=replicas_of_shards)
@case("direction_consensus", mesh=replicas_of_shards)
@case("direction_consensus", mesh=ranks_in_another_order)
def every_rule_gives_what_the_step_before_decides(rule, mesh=mesh_of, most=1e-6, **options):
    outcome = rule_of(rule, mesh(), **options)
    assert outcome["distance"] < most
    assert (outcome["step"], outcome["workers"]) == (STEPS, dist.get_world_size())


for rule in RULES:
    case(rule, workers=(2,), thorough=False)(every_rule_gives_what_the_step_before_decides)
    case(rule)(every_rule_gives_what_the_step_before_decides)


def mean_is_that_of_fsdp(mesh=None, **options):
    plain, far = sharded(mesh, **options), 0.0
    with under("mean", sharded(mesh, **options)) as (ours, _):
        for step in range(4):
            for model in (plain, ours):
                model.zero_grad()
                loss_of(model, step).backward()
            far = max(far, distance(full(ours), full(plain)))
    return far


@case(workers=(1, 2, 4))
@case(2, 2)
def plain_averaging_is_that_of_fsdp(*shape):
    assert mean_is_that_of_fsdp(mesh_of(*shape)) < 1e-6


@case()
def a_module_that_is_unfrozen_later_is_summed_too():
    """A block needs no gradient when the rule is registered, and does later."""
    plain, frozen = sharded(), sharded()
    frozen.blocks[1].requires_grad_(False)
    with under("mean", frozen) as (ours, _):
        for step in range(4):
            grads = []
            for model in (ours, plain):
                model.blocks[1].requires_grad_(step >= 2)
                model.zero_grad()
                loss_of(model, step).backward()
                grads.append({name: p.grad.full_tensor() for name, p in model.named_parameters() if p.grad is not None})
            assert grads[0].keys() == grads[1].keys()
            assert all(distance(grads[0][name], grads[1][name]) < 1e-6 for name in grads[0])


@case()
def modules_may_have_coefficients_of_their_own():
    """One without a gradient in a pass is left out of it."""
    with under("direction_consensus", sharded(), sketch_length=256, granularity="bucket") as (model, state):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for step in range(6):
            optimizer.zero_grad()
            model.blocks[1].requires_grad_(step != 3)
            loss_of(model, step).backward()
            optimizer.step()
        assert torch.isfinite(full(model)).all()
        assert state.step == 6
        assert abs(float(state.coefficients.sum()) - 1) < 0.2


@case(workers=(2, 4))
def a_worker_that_is_not_finite_in_one_module_is_left_out_of_those_that_come_after_it():
    with under("mean", sharded(), sketch_length=256, non_finite="exclude", guard=0) as (model, _):
        model.blocks[1].register_full_backward_hook(
            lambda module, inputs, outputs: (inputs[0] * (math.nan if dist.get_rank() == 1 else 1),)
        )
        loss_of(model, 0).backward()
        assert torch.isfinite(full(model)).all()


@case(workers=(2, 4))
def a_worker_without_samples_spoils_nothing():
    """The gradient of rank 0 is NaN."""
    with under("weighted_mean", sharded(), sketch_length=256) as (model, state):
        state.weight = float(dist.get_rank() > 0)
        (loss_of(model, 0) * (math.nan if dist.get_rank() == 0 else 1)).backward()
        assert torch.isfinite(full(model)).all()


@case(False, steps=3)
@case(True, steps=6)
def gradients_may_be_accumulated_before_or_after_they_are_summed(synchronises_first, steps):
    """Two batches for a step."""
    plain = sharded()
    with under("mean", sharded()) as (ours, state):
        for step in range(0, 6, 2):
            for model in (plain, ours):
                model.zero_grad()
                model.set_requires_gradient_sync(synchronises_first)
                loss_of(model, step).backward()
                model.set_requires_gradient_sync(True)
                loss_of(model, step + 1).backward()
            assert distance(full(ours), full(plain)) < 1e-6
        assert state.step == steps


@case(passes=2)
@case(reentrant=True)  # backward passes inside of one
def a_module_may_have_several_backward_passes_in_a_step(**options):
    with under("direction_consensus", sharded(**options), sketch_length=256) as (model, state):
        train(model)
        assert state.step == STEPS
        assert abs(float(state.coefficients.sum()) - 1) < 0.2
        assert state.report()["event"] == "none"
    assert mean_is_that_of_fsdp(**options) < 1e-6


def resumed():
    """A training that goes on from a checkpoint is the uninterrupted one."""
    whole, rest = sharded(), sharded(seed=1)
    options = {"sketch_length": 256}
    with under("direction_consensus", whole, **options) as (_, state), tempfile.TemporaryDirectory() as folder:
        train(whole, steps=3)
        folders = [folder]
        dist.broadcast_object_list(folders)
        dcp.save({"model": whole.state_dict(), "rule": state}, checkpoint_id=folders[0])
        train(whole, steps=3, first=3)
        with under("direction_consensus", rest, **options) as (_, again):
            loaded = {"model": rest.state_dict(), "rule": again}
            dcp.load(loaded, checkpoint_id=folders[0])
            rest.load_state_dict(loaded["model"])
            dist.barrier()
            train(rest, steps=3, first=3)
            return [torch.equal(full(whole, "parameter"), full(rest, "parameter")), state.step, again.step]


@case(workers=(1, 2, 4))
def a_resumed_training_is_the_uninterrupted_one():
    steps = 0 if dist.get_world_size() == 1 else 6  # one rank sums nothing
    assert resumed() == [True, steps, steps]


@case()
def a_worker_of_minus_5_g_is_found_and_weighs_next_to_nothing():
    with under("direction_consensus", sharded(), sketch_length=256) as (model, state):
        train(model, steps=60, change=lambda loss, step: -5 * loss if dist.get_rank() == 1 else loss)
        assert any(sentence.startswith("worker 1 points against the others") for sentence in state.findings)
        assert state.coefficients[1] / state.coefficients.sum() < 0.1
        assert state.step == 60


@case()
def a_backward_pass_that_broke_off_on_all_ranks_is_no_step_and_the_next_one_is_whole():
    with under("direction_consensus", sharded(), sketch_length=256) as (model, state):
        if not hasattr(model, "reset_iter_state"):
            return  # such a torch cannot go on either
        beside = BesideSharded(state, "direction_consensus")
        train(model, beside, steps=2)
        with breaking(model.blocks[0].inner, True):
            assert isinstance(raised(loss_of(model, 20).backward), ValueError)
        model.reset_iter_state()
        beside.buckets, beside.sent = [], []
        train(model, beside, steps=2, first=2)
        assert state.step == 4
    assert beside.worst < 1e-6


@case()
def the_rule_may_change():
    with under("mean", sharded(), sketch_length=256) as (model, state):
        train(model, steps=2)
        state.set_rule("direction_consensus")
        train(model, steps=3)
        assert (state.rule, state.step) == ("direction_consensus", 5)


@case()
def steps_are_counted_where_another_method_than_forward_was_called():
    """No hook of the model's says that backward begins."""
    model = sharded()
    model.score = lambda x: model.last(model.first(x))
    register_fsdp_forward_method(model, "score")
    with under("direction_consensus", model, sketch_length=256) as (_, state):
        for _ in range(3):
            model.score(torch.randn(8, 12)).square().mean().backward()
        assert state.step == 3


@case()
def models_that_cannot_have_a_rule_are_refused_in_one_sentence():
    parts, some, split, taken, divided = Net(), Net(), Net(), sharded(), sharded()
    fully_shard(parts.blocks[0], mesh=mesh_of())
    fully_shard(some, mesh=mesh_of(), ignored_params={some.last.weight})
    both = init_device_mesh(DEVICE.type, (dist.get_world_size() // 2, 2), mesh_dim_names=("data", "tensor"))
    parallelize_module(split, both["tensor"], {"first": ColwiseParallel()})
    fully_shard(split, mesh=both["data"])
    divided.set_gradient_divide_factor(1.0)
    optimizer = torch.optim.SGD(taken.parameters(), lr=0.1)
    rule = flockstep.adacons
    with under("mean", taken):
        check_refusals(
            ("parts of this model alone: call it on the whole model, too", lambda: rule(parts)),
            ("fully_shard() does not manage parameter last.weight", lambda: rule(some)),
            ('takes only transfer="sketch", not transfer="exact"', lambda: rule(sharded(), transfer="exact")),
            ('takes only transfer="sketch", not granularity="tensor"', lambda: rule(sharded(), granularity="tensor")),
            ("has a gradient rule already", lambda: rule(taken)),
            ("is sharded for tensor parallelism, too", lambda: rule(split)),
            ("the shard dimension of this mesh has one rank", lambda: rule(sharded(mesh_of(4, 1)))),
            ("has a gradient divide factor", lambda: rule(divided)),
            (
                "Flock averages whole models, and this one's parameters are sharded",
                lambda: flockstep.Flock(optimizer, taken),
            ),
        )


@case(workers=(2,))
def ranks_that_wrap_a_model_differently_are_named():
    model = Net()
    if dist.get_rank() == 1:
        fully_shard(model.blocks[0], mesh=mesh_of())
    fully_shard(model, mesh=mesh_of())
    error = raised(lambda: flockstep.adacons(model))
    assert "rank 1 has modules under fully_shard(): 2 where rank 0 has 1: give all ranks the same" in str(error)


@case("set_gradient_divide_factor", 2.0)
@case("set_force_sum_reduction_for_comms", False)
def a_divisor_that_changes_under_a_rule_is_refused_in_the_next_pass(change, value):
    with under("mean", sharded()) as (model, _):
        for module in (model, *model.blocks):
            getattr(module, change)(value)
        error = raised(loss_of(model, 0).backward)
    assert "FSDP divides gradients, but the rule does so already" in str(error)


@case()
def a_closed_state_says_so():
    model = sharded()
    flockstep.mean(model).close()
    error = raised(loss_of(model, 0).backward)
    assert isinstance(error, flockstep.UnavailableError)
    assert "this state of mean was closed" in str(error)


if __name__ == "__main__":
    run(CASES.of_this_world)
