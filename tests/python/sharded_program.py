"""Gradient rules on models of fully_shard(): how far results are from a recomputation, module by module, and what else holds."""

import math
import tempfile

import flockstep
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from cases import run
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


def sharded(mesh=None, *, seed=0, passes=1, reentrant=False, size=48, **options):
    torch.manual_seed(seed)
    model = Net(passes=passes, reentrant=reentrant, size=size).to(DEVICE)
    mesh = mesh or init_device_mesh(DEVICE.type, (dist.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def loss_of(model, step, size=8):
    generator = torch.Generator().manual_seed(100 * step + dist.get_rank())
    x = torch.randn(size, 12, generator=generator).to(DEVICE)
    return nn.functional.cross_entropy(model(x).float(), x[:, :4].argmax(1))


class Oracle:
    """Beside a model under a rule: what every rank hands over, module by module, and what comes of it."""

    def __init__(self, state, rule, mesh=None):
        self.mesh = mesh
        self.beside = Beside.__new__(Beside)
        self.beside.oracle, self.beside.group, self.beside.seed = SketchedOracle(rule, length=256), CPU_GROUP, 1
        self.beside.buckets, self.beside.sent, self.beside.worst, self.beside.step = [], [], 0.0, 0
        self.state = state
        scale, corrected = state._sharded_hook.scale, state._sharded_hook.corrected

        def recorded_scale(index, gradient, weight, divides):
            self.beside.sent.append(gradient.clone().cpu())
            scale(index, gradient, weight, divides)

        def recorded_output(output, work):
            work = corrected(output, work)
            self.beside.buckets.append(self.whole(output))
            return work

        state._sharded_hook.scale, state._sharded_hook.corrected = recorded_scale, recorded_output

    def whole(self, output):
        """The sum over all ranks, of which everybody has a shard of a part."""
        part = output.double()
        group = None
        if self.mesh is not None:
            dist.all_reduce(part, group=self.mesh.get_group("replicate"))
            group = self.mesh.get_group("shard")
        shards = [torch.zeros_like(part) for _ in range(dist.get_world_size(group))]
        dist.all_gather(shards, part, group=group)
        return torch.cat(shards).cpu()


def train(model, oracle=None, steps=STEPS, *, weights=None, change=lambda loss, step: loss, first=0):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(first, first + steps):
        optimizer.zero_grad()
        change(loss_of(model, step), step).backward()
        if oracle is not None:
            oracle.beside.compare(weights)
        optimizer.step()


def full(model, of="grad"):
    values = [(p.grad if of == "grad" else p).full_tensor().detach().flatten() for p in model.parameters()]
    return torch.cat(values).double().cpu()


def apart(x, y):
    return float((x - y).norm() / y.norm())


def rule_of(rule, mesh=None, *, make=sharded, **options):
    model = make(mesh, **options)
    state = flockstep.register(model, rule, sketch_length=256)
    oracle = Oracle(state, rule, mesh)
    weights = None
    if rule == "weighted_mean":
        state.weight = dist.get_rank() + 1.0
        weights = [rank + 1.0 for rank in range(dist.get_world_size())]
    train(model, oracle, weights=weights)
    outcome = {"distance": oracle.beside.worst, "step": state.step, "workers": len(state.coefficients)}
    state.close()
    return outcome


def together(mesh=None):
    """Two blocks whose gradients are summed together."""
    torch.manual_seed(0)
    model = Net().to(DEVICE)
    mesh = mesh or init_device_mesh(DEVICE.type, (dist.get_world_size(),))
    fully_shard([model.blocks[0], model.blocks[1]], mesh=mesh)
    return fully_shard(model, mesh=mesh)


def unfrozen():
    """A block that needs no gradient when the rule is registered, and does later."""
    plain, ours = sharded(), sharded()
    for model in (plain, ours):
        model.blocks[1].requires_grad_(False)
    state = flockstep.mean(ours)
    far = []
    for step in range(4):
        for model in (plain, ours):
            model.blocks[1].requires_grad_(step >= 2)
            model.zero_grad()
            loss_of(model, step).backward()
        grads = [[p.grad for p in model.parameters()] for model in (ours, plain)]
        assert [g is None for g in grads[0]] == [g is None for g in grads[1]]
        whole = [torch.cat([g.full_tensor().flatten() for g in each if g is not None]) for each in grads]
        far.append(apart(*whole))
    state.close()
    return far


def by_module():
    """Each module has coefficients of its own; one without a gradient in a pass is left out of it."""
    model = sharded()
    state = flockstep.direction_consensus(model, sketch_length=256, granularity="bucket")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(6):
        optimizer.zero_grad()
        model.blocks[1].requires_grad_(step != 3)
        loss_of(model, step).backward()
        finite = all(bool(torch.isfinite(p.grad.full_tensor()).all()) for p in model.parameters() if p.grad is not None)
        optimizer.step()
    outcome = [state.step, finite, float(state.coefficients.sum())]
    state.close()
    return outcome


def excluded():
    """A worker that is not finite in one module is left out of those that come after it."""
    model = sharded()
    state = flockstep.mean(model, sketch_length=256, non_finite="exclude", guard=0)
    hook = model.blocks[1].register_full_backward_hook(
        lambda module, inputs, outputs: (inputs[0] * (math.nan if dist.get_rank() == 1 else 1),)
    )
    loss_of(model, 0).backward()
    hook.remove()
    outcome = bool(torch.isfinite(full(model)).all())
    state.close()
    return outcome


def without_samples():
    """Rank 0 has none, and its gradient is NaN."""
    model = sharded()
    state = flockstep.weighted_mean(model, sketch_length=256)
    state.weight = float(dist.get_rank() > 0)
    loss = loss_of(model, 0)
    (loss * math.nan if dist.get_rank() == 0 else loss).backward()
    outcome = bool(torch.isfinite(full(model)).all())
    state.close()
    return outcome


def in_another_order():
    """A mesh that does not count the ranks as they are numbered."""
    mesh = DeviceMesh(DEVICE.type, torch.tensor([[0, 2], [1, 3]]), mesh_dim_names=("replicate", "shard"))
    return rule_of("direction_consensus", mesh)


def mean_is_that_of_fsdp(mesh=None, **options):
    plain, ours = sharded(mesh, **options), sharded(mesh, **options)
    state = flockstep.mean(ours)
    far = 0.0
    for step in range(4):
        for model in (plain, ours):
            model.zero_grad()
            loss_of(model, step).backward()
        far = max(far, apart(full(ours), full(plain)))
    state.close()
    return far


def accumulation():
    """Two batches for a step, the first one without a sum; then both with one."""
    far = []
    for synchronises_first in (False, True):
        plain, ours = sharded(), sharded()
        state = flockstep.mean(ours)
        for step in range(0, 6, 2):
            for model in (plain, ours):
                model.zero_grad()
                model.set_requires_gradient_sync(synchronises_first)
                loss_of(model, step).backward()
                model.set_requires_gradient_sync(True)
                loss_of(model, step + 1).backward()
            far.append(apart(full(ours), full(plain)))
        steps = state.step
        state.close()
        far.append(steps)
    return far


def clipping():
    model = sharded()
    state = flockstep.direction_consensus(model)
    loss_of(model, 0).backward()
    before = float(full(model).norm())
    norm = nn.utils.clip_grad_norm_(model.parameters(), before / 2)
    state.close()
    return [float(norm.full_tensor()) / before, float(full(model).norm()) / before]


def several_times(**options):
    """Modules whose gradients come several times per pass, or in backward passes inside of one."""
    model = sharded(**options)
    state = flockstep.direction_consensus(model, sketch_length=256)
    train(model)
    outcome = [state.step, float(state.coefficients.sum()), state.report()["event"]]
    plain, ours = sharded(**options), sharded(**options)
    mean = flockstep.mean(ours)
    for each in (plain, ours):
        loss_of(each, 0).backward()
    outcome.append(apart(full(ours), full(plain)))
    state.close()
    mean.close()
    return outcome


def resumed():
    """A training that goes on from a checkpoint is the uninterrupted one."""
    model = sharded()
    state = flockstep.direction_consensus(model, sketch_length=256)
    train(model, steps=3)
    with tempfile.TemporaryDirectory() as folder:
        folders = [folder]
        dist.broadcast_object_list(folders)
        dcp.save({"model": model.state_dict(), "rule": state}, checkpoint_id=folders[0])
        train(model, steps=3, first=3)
        other = sharded(seed=1)
        again = flockstep.direction_consensus(other, sketch_length=256)
        loaded = {"model": other.state_dict(), "rule": again}
        dcp.load(loaded, checkpoint_id=folders[0])
        other.load_state_dict(loaded["model"])
        dist.barrier()
    train(other, steps=3, first=3)
    same = torch.equal(full(model, "parameter"), full(other, "parameter"))
    outcome = [same, state.step, again.step]
    state.close()
    again.close()
    return outcome


def broken():
    """A worker of -5 g is found, and weighs next to nothing."""
    model = sharded()
    state = flockstep.direction_consensus(model, sketch_length=256)
    train(model, steps=60, change=lambda loss, step: -5 * loss if dist.get_rank() == 1 else loss)
    outcome = [state.findings, float(state.coefficients[1] / state.coefficients.sum()), state.step]
    state.close()
    return outcome


class Breaks(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        raise ArithmeticError("for the test")


def broken_off():
    """A backward pass that raises on all ranks is no step, and the next one is whole."""
    model = sharded()
    if not hasattr(model, "reset_iter_state"):
        return None  # such a torch cannot go on either
    state = flockstep.direction_consensus(model, sketch_length=256)
    oracle = Oracle(state, "direction_consensus")
    train(model, oracle, steps=2)
    handle = model.blocks[0].inner.register_forward_hook(lambda module, inputs, output: Breaks.apply(output))
    raised = ""
    try:
        loss_of(model, 20).backward()
    except ArithmeticError as error:
        raised = str(error)
    handle.remove()
    model.reset_iter_state()
    oracle.beside.buckets, oracle.beside.sent = [], []
    train(model, oracle, steps=2, first=2)
    outcome = [raised, state.step, oracle.beside.worst]
    state.close()
    return outcome


def another_rule():
    model = sharded()
    state = flockstep.mean(model, sketch_length=256)
    train(model, steps=2)
    state.set_rule("direction_consensus")
    train(model, steps=3)
    outcome = [state.rule, state.step]
    state.close()
    return outcome


def called_by_another_method():
    """No hook of the model's says that backward begins."""
    model = sharded()
    model.score = lambda x: model.last(model.first(x))
    register_fsdp_forward_method(model, "score")
    state = flockstep.direction_consensus(model, sketch_length=256)
    for step in range(3):
        generator = torch.Generator().manual_seed(100 * step + dist.get_rank())
        model.score(torch.randn(8, 12, generator=generator)).square().mean().backward()
    outcome = state.step
    state.close()
    return outcome


def refused(make, **options):
    """The sentence."""
    try:
        flockstep.adacons(make(), **options)
    except flockstep.Error as error:
        return f"{type(error).__name__}: {error}"
    return "taken"


def parts_alone():
    model = Net()
    fully_shard(model.blocks[0], mesh=init_device_mesh(DEVICE.type, (dist.get_world_size(),)))
    return model


def ignored():
    model = Net()
    mesh = init_device_mesh(DEVICE.type, (dist.get_world_size(),))
    return fully_shard(model, mesh=mesh, ignored_params={model.last.weight})


def tensor_parallel():
    mesh = init_device_mesh(DEVICE.type, (dist.get_world_size() // 2, 2), mesh_dim_names=("data", "tensor"))
    model = Net()
    parallelize_module(model, mesh["tensor"], {"first": ColwiseParallel()})
    return fully_shard(model, mesh=mesh["data"])


def differently_wrapped():
    model = Net()
    mesh = init_device_mesh(DEVICE.type, (dist.get_world_size(),))
    if dist.get_rank() == 1:
        fully_shard(model.blocks[0], mesh=mesh)
    return fully_shard(model, mesh=mesh)


def taken_before():
    model = sharded()
    flockstep.mean(model)
    return model


def divided_before():
    model = sharded()
    model.set_gradient_divide_factor(1.0)
    return model


def changed_divisor(change):
    model = sharded()
    state = flockstep.mean(model)
    for module in (model, *model.blocks):
        change(module)
    try:
        loss_of(model, 0).backward()
    except flockstep.Error as error:
        return str(error)
    finally:
        state.close()
    return "taken"


def averager():
    """It would give the parameters memory of its own."""
    model = sharded()
    try:
        flockstep.Flock(torch.optim.SGD(model.parameters(), lr=0.1), model)
    except flockstep.Error as error:
        return f"{type(error).__name__}: {error}"
    return "taken"


def closed():
    model = sharded()
    flockstep.mean(model).close()
    try:
        loss_of(model, 0).backward()
    except flockstep.Error as error:
        return str(error)
    return "taken"


def cases():
    found = {"mean is that of FSDP": mean_is_that_of_fsdp, "resumed": resumed}
    if dist.get_world_size() == 1:
        return found
    found |= {f"rule {rule}": lambda rule=rule: rule_of(rule) for rule in RULES}
    half = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
    found["bfloat16"] = lambda: rule_of("direction_consensus", mp_policy=half)
    found["unsharded between the passes"] = lambda: rule_of("adacons", reshard_after_forward=False)
    found["accumulation"] = accumulation
    found["clipping"] = clipping
    found["broken off"] = broken_off
    found["another rule"] = another_rule
    found["another method"] = called_by_another_method
    found["several passes"] = lambda: several_times(passes=2)
    found["reentrant checkpoints"] = lambda: several_times(reentrant=True)
    found["parts alone"] = lambda: refused(parts_alone)
    found["ignored"] = lambda: refused(ignored)
    found["exact"] = lambda: refused(sharded, transfer="exact")
    found["tensors"] = lambda: refused(sharded, granularity="tensor")
    found["differently wrapped"] = lambda: refused(differently_wrapped)
    found["taken before"] = lambda: refused(taken_before)
    found["divided before"] = lambda: refused(divided_before)
    found["changed divisor"] = lambda: changed_divisor(lambda module: module.set_gradient_divide_factor(2.0))
    found["changed sum"] = lambda: changed_divisor(lambda module: module.set_force_sum_reduction_for_comms(False))
    found["padded"] = lambda: rule_of("direction_consensus", size=50)
    found["together"] = lambda: rule_of("direction_consensus", make=together)
    found["unfrozen"] = unfrozen
    found["by module"] = by_module
    found["excluded"] = excluded
    found["without samples"] = without_samples
    found["closed"] = closed
    found["averager"] = averager
    if dist.get_world_size() == 4:
        mesh = init_device_mesh(DEVICE.type, (2, 2), mesh_dim_names=("replicate", "shard"))
        for rule in ("mean", "weighted_mean", "adacons", "direction_consensus"):
            found[f"replicated shards, {rule}"] = lambda rule=rule: rule_of(rule, mesh)
        found["in another order"] = in_another_order
        found["mean is that of HSDP"] = lambda: mean_is_that_of_fsdp(mesh)
        found["broken"] = broken
        found["tensor parallel"] = lambda: refused(tensor_parallel)
        alone = init_device_mesh(DEVICE.type, (4, 1), mesh_dim_names=("replicate", "shard"))
        found["no shards"] = lambda: refused(lambda: sharded(alone))
    return found


if __name__ == "__main__":
    run(cases)
