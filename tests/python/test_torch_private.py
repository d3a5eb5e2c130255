"""What the package uses of torch beyond its documented interface is there, and of the shape that it had."""

import ast
import inspect
from collections import OrderedDict
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from flockstep import _torch_private as private
from paths import ROOT
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

PACKAGE = ROOT / "python" / "flockstep"


@pytest.fixture(scope="module")
def ddp():
    """A DDP model that has been through a backward pass, in a process group of one."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1, timeout=timedelta(seconds=77))
    model = DistributedDataParallel(nn.Linear(3, 2), find_unused_parameters=True)
    model(torch.ones(1, 3)).sum().backward()
    yield model
    dist.destroy_process_group()


def test_torch_still_has_a_reducer(ddp):
    assert private.reducer_of(ddp) is ddp.reducer
    assert private.reducer_of(object.__new__(DistributedDataParallel)) is None
    assert "_use_python_reducer" in vars(ddp)
    assert private.has_python_reducer(ddp) is False
    assert private.local_used_map(ddp).shape == (2,)
    assert [bucket.buffer().tolist() for bucket in private.zero_buckets(ddp)] == [[0.0] * 8]
    private.reset_reducer(ddp)
    ddp(torch.ones(1, 3)).sum().backward()


def test_torch_still_has_reduced_parameters(ddp):
    network = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))
    network[1].bias = network[0].bias  # shared
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(network, ["1.weight"])
    wrapped = DistributedDataParallel(network)
    names = [name for name, _, _ in private.reduced_parameters(wrapped)]
    reduced = sum(bucket.buffer().numel() for bucket in private.zero_buckets(wrapped))
    assert names == ["0.weight", "0.bias"]
    assert reduced == 8


def test_torch_still_has_comm_hooks(ddp):
    hooked = DistributedDataParallel(nn.Linear(3, 2))
    before = private.comm_hooks(hooked) == []
    hooked.register_comm_hook(None, lambda state, bucket: None)
    assert before
    assert len(private.comm_hooks(hooked)) == 1
    assert "_comm_hooks" in vars(ddp)


def test_torch_still_has_divides_by_initial_world_size(ddp):
    def told(value):
        with ddp.join(divide_by_initial_world_size=value):
            ddp(torch.ones(1, 3))
            return private.divides_by_initial_world_size(ddp)

    assert [told(True), told(False)] == [True, False]


def test_torch_still_has_delays_all_reduce(ddp):
    network = nn.Linear(3, 2)
    delaying = DistributedDataParallel(
        network, delay_all_reduce_named_params=[("bias", network.bias)], param_to_hook_all_reduce=network.weight
    )
    assert [private.delays_all_reduce(ddp), private.delays_all_reduce(delaying)] == [False, True]


def test_torch_still_has_parameters_of_half_made(ddp):
    for one, other in zip(private.parameters_of_half_made(ddp), ddp.parameters(), strict=True):
        assert one is other


def test_torch_still_has_synchronises_nothing(ddp):
    static = DistributedDataParallel(nn.Linear(3, 2), static_graph=True)
    assert all(hasattr(static, name) for name in private.SYNCHRONISES_NOTHING)


def test_torch_still_has_forward_hooks(ddp):
    with ddp.register_forward_pre_hook(print), ddp.register_forward_hook(repr):
        assert list(private.forward_pre_hooks(ddp).values()) == [print]
        assert list(private.forward_hooks(ddp).values()) == [repr]


def test_torch_still_has_uncompiled(ddp):
    assert private.uncompiled(torch.compile(ddp)) is ddp
    assert private.uncompiled(ddp) is ddp


def test_torch_still_has_tensors_in(ddp):
    one, other = torch.ones(1), torch.ones(1)
    assert [id(each) for each in private.tensors_in({"a": [one], "b": (other,)})] == [id(one), id(other)]


def test_torch_still_has_backward_number(ddp):
    tensor, seen = torch.ones(1, requires_grad=True), []
    tensor.register_hook(lambda gradient: seen.append(private.backward_number()))
    for _ in range(2):
        tensor.sum().backward()
    assert private.backward_number() is None
    assert len(set(seen)) == 2
    assert all(isinstance(each, int) for each in seen)


def test_torch_still_has_call_after_backward(ddp):
    tensor, seen = torch.ones(1, requires_grad=True), []
    tensor.register_hook(lambda gradient: private.call_after_backward(lambda: seen.append(tensor.grad is not None)))
    tensor.sum().backward()
    assert seen == [True]


def test_torch_still_has_what_is_known_of_process_groups(ddp):
    private.default_store().set("flockstep", "here")
    assert private.default_store().get("flockstep") == b"here"
    assert private.timeout_of(dist.group.WORLD) == timedelta(seconds=77)
    before = private.collectives_so_far()
    dist.all_reduce(torch.ones(1))
    assert private.collectives_so_far() == before + 1
    gathered = torch.zeros(2)
    private.all_gather_single(gathered, torch.tensor([3.0, 4.0]), ddp.process_group)
    assert gathered.tolist() == [3, 4]


def test_torch_still_has_join(ddp):
    """Of is_joining, is_first_to_join and end_joining."""
    context = Join([ddp])
    inside = [private.is_joining(ddp), private.is_first_to_join(ddp)]
    private.end_joining(context)
    assert inside == [True, True]
    assert [private.is_joining(ddp), private.is_first_to_join(ddp)] == [False, False]


def test_torch_still_has_optimizer_hooks(ddp):
    """And of make_optimizer_hooks: those of torch's own making have the same names."""
    optimizer = torch.optim.SGD(ddp.parameters())

    def hooks_of(each):
        return {name for name, value in vars(each).items() if isinstance(value, OrderedDict) and "hooks" in name}

    bare = object.__new__(torch.optim.SGD)
    private.make_optimizer_hooks(bare)
    bare.register_state_dict_pre_hook(print)
    assert hooks_of(optimizer) == hooks_of(bare)
    assert private.optimizer_hooks(bare, "state_dict_pre") == [print]


def test_torch_still_has_left_by_scaler(ddp):
    """And of UnscalesItself."""

    class Optimizer(private.UnscalesItself, torch.optim.SGD):
        def step(self, closure=None):
            seen.append([None if value is None else value.item() for value in private.left_by_scaler(self)])

    seen = []
    optimizer, scaler = Optimizer(ddp.parameters()), torch.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale(ddp(torch.ones(1, 3)).sum()).backward()
    scaler.step(optimizer)
    assert seen == [[0.0, 8.0]]
    assert private.left_by_scaler(optimizer) == (None, None)


def test_torch_still_has_sharded_groups_of(ddp):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model, mesh = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2)), init_device_mesh("cpu", (1,))
    fully_shard(model[1], mesh=mesh)
    [inner], [outer] = (private.sharded_groups_of(module) for module in (model[1], fully_shard(model, mesh=mesh)))
    for mine, theirs in zip(inner.parameters, [model[1].weight, model[1].bias], strict=True):
        assert mine is theirs
    assert private.divide_factor_of(inner) is None
    model[1].set_gradient_divide_factor(2.0)
    assert private.divide_factor_of(inner) == 2
    assert (inner.numbers, outer.numbers, outer.padded_numbers) == (6, 8, 8)
    assert (outer.shards, outer.has_other_shards, outer.shares_module) == (1, False, False)
    assert inner.mesh == mesh


def test_every_part_is_looked_at_and_says_why():
    source = Path(__file__).read_text()
    for name, part in vars(private).items():
        if inspect.isfunction(part) and part.__module__ == private.__name__:
            assert f"private.{name}(" in source
            assert part.__doc__


def private_names(tree, kinds):
    """Attributes with one leading underscore."""
    found = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, kinds)}
    return {name for name in found if name.startswith("_") and not name.startswith("__")}


def defined_names(tree):
    named = {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    plain = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return named | plain | private_names(tree, ast.Store)


def test_no_other_file_uses_private_parts_of_torch():
    trees = {path: ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py") if path.name != "_torch_private.py"}
    own = {"_getframe", "_exit"}.union(*map(defined_names, trees.values()))
    for path, tree in trees.items():
        assert private_names(tree, ast.Load) <= own, path
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch"):
                assert not any(part.startswith("_") for part in node.module.split(".")), (path, node.module)
                assert not any(each.name.startswith("_") for each in node.names), (path, node.module)
            assert not (isinstance(node, ast.Attribute) and node.attr == "reducer"), path
