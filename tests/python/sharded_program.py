"""Gradient rules on models of fully_shard(): how far results are from a recomputation, module by module, and what else holds."""

import sys
import tempfile

import flockstep
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from ddp_training import run_cases
from rule_oracle import RULES
from sketch_oracle import Beside, SketchedOracle
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
from torch.utils.checkpoint import checkpoint

STEPS = 6


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(48, 48)

    def forward(self, x):
        return x + torch.tanh(self.inner(x))


class Net(nn.Module):
    """A few blocks, each sharded by itself, and a rest. All sizes can be divided by up to four ranks."""

    def __init__(self, *, passes=1, reentrant=False):
        super().__init__()
        self.first = nn.Linear(12, 48)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.last = nn.Linear(48, 4)
        self.passes, self.reentrant = passes, reentrant

    def forward(self, x):
        x = self.first(x)
        for _ in range(self.passes):
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=True) if self.reentrant else block(x)
        return self.last(x)


def sharded(mesh=None, *, seed=0, passes=1, reentrant=False, **options):
    torch.manual_seed(seed)
    model = Net(passes=passes, reentrant=reentrant)
    mesh = mesh or init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def loss_of(model, step, size=8):
    generator = torch.Generator().manual_seed(100 * step + dist.get_rank())
    x = torch.randn(size, 12, generator=generator)
    return nn.functional.cross_entropy(model(x).float(), x[:, :4].argmax(1))


class Oracle:
    """Beside a model under a rule: what every rank hands over, module by module, and what comes of it."""

    def __init__(self, state, rule, mesh=None, **options):
        self.mesh = mesh
        self.beside = Beside.__new__(Beside)
        self.beside.oracle, self.beside.group, self.beside.seed = SketchedOracle(rule, length=256, **options), None, 1
        self.beside.buckets, self.beside.sent, self.beside.worst, self.beside.step = [], [], 0.0, 0
        self.state = state
        scale, corrected = state._sharded_hook.scale, state._sharded_hook.corrected

        def recorded_scale(index, gradient, weight, divides):
            self.beside.sent.append(gradient.clone())
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
        return torch.cat(shards)


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
    return torch.cat(values).double()


def apart(x, y):
    return float((x - y).norm() / y.norm())


def rule_of(rule, mesh=None, **options):
    model = sharded(mesh, **options)
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
    train(model, steps=2)
    handle = model.blocks[0].inner.register_forward_hook(lambda module, inputs, output: Breaks.apply(output))
    raised = ""
    try:
        loss_of(model, 20).backward()
    except ArithmeticError as error:
        raised = str(error)
    handle.remove()
    model.reset_iter_state()
    train(model, steps=2)
    outcome = [raised, state.step]
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
    fully_shard(model.blocks[0], mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    return model


def ignored():
    model = Net()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    return fully_shard(model, mesh=mesh, ignored_params={model.last.weight})


def tensor_parallel():
    mesh = init_device_mesh("cpu", (dist.get_world_size() // 2, 2), mesh_dim_names=("data", "tensor"))
    model = Net()
    parallelize_module(model, mesh["tensor"], {"first": ColwiseParallel()})
    return fully_shard(model, mesh=mesh["data"])


def differently_wrapped():
    model = Net()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    if dist.get_rank() == 1:
        fully_shard(model.blocks[0], mesh=mesh)
    return fully_shard(model, mesh=mesh)


def taken_before():
    model = sharded()
    flockstep.mean(model)
    return model


def changed_divisor():
    model = sharded()
    state = flockstep.mean(model)
    for module in (model, *model.blocks):
        module.set_force_sum_reduction_for_comms(False)
        module.set_gradient_divide_factor(2.0)
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
    found["changed divisor"] = changed_divisor
    found["closed"] = closed
    found["averager"] = averager
    if dist.get_world_size() == 4:
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
        for rule in ("mean", "weighted_mean", "adacons", "direction_consensus"):
            found[f"replicated shards, {rule}"] = lambda rule=rule: rule_of(rule, mesh)
        found["mean is that of HSDP"] = lambda: mean_is_that_of_fsdp(mesh)
        found["broken"] = broken
        found["tensor parallel"] = lambda: refused(tensor_parallel)
        alone = init_device_mesh("cpu", (4, 1), mesh_dim_names=("replicate", "shard"))
        found["no shards"] = lambda: refused(lambda: sharded(alone))
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    chosen = {name: case for name, case in cases().items() if len(sys.argv) < 2 or sys.argv[1] in name}
    run_cases(chosen)
    dist.destroy_process_group()
