"""Every rule with every feature of DDP: how far gradients are from those recomputed from every rank's own."""

import sys

import flockstep
import torch
import torch.distributed as dist
from cases import run
from ddp_training import Net, batch, distance, flat, loss_of, made, of_all, own_gradient
from hooks_shared import STATES
from rule_oracle import RULES, Expected
from sketch_oracle import Beside, SketchedOracle
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

STEPS = 4
TRANSFER = sys.argv[1]
SMALL = {"bucket_cap_mb": 0.005}  # several buckets, once DDP has rebuilt them


def training(rule, wrapped, backward, *, group=None, steps=STEPS, lr=0.05, prepare=None, options=None):
    """The largest distance from the oracle over a few steps. `backward(model, step)` makes gradients."""
    state = flockstep.register(wrapped, rule, transfer=TRANSFER, guard=0.0, **(options or {}))
    beside = Beside(state, SketchedOracle(rule, guard=0.0), group=group) if TRANSFER == "sketch" else None
    if prepare:
        wrapped = prepare(wrapped)
    module = getattr(wrapped, "_orig_mod", wrapped).module
    expected, worst = Expected(rule), 0.0
    if rule == "weighted_mean":
        state.weight = dist.get_rank() + 1.0
    weights = [float(rank + 1) for rank in range(dist.get_world_size())]
    if group is not None:
        weights = [float(rank + 1) for rank in dist.get_process_group_ranks(group)]
    optimizer = torch.optim.SGD(module.parameters(), lr=lr)
    for step in range(steps):
        gradients = of_all(own_gradient(module, lambda replica, step=step: backward(replica, step)), group)
        optimizer.zero_grad()
        backward(wrapped, step)
        if beside is None:
            worst = max(worst, distance(flat(module.parameters()), expected(gradients, weights)))
        else:
            beside.compare(weights if rule == "weighted_mean" else None)
        optimizer.step()
    state.close()
    return worst if beside is None else beside.worst


def simple(model, step, **options):
    loss_of(model, step, **options).backward()


def plain(rule):
    return training(rule, DistributedDataParallel(made(), **SMALL), simple)


def one_bucket(rule):
    return training(rule, DistributedDataParallel(made()), simple)


def bucket_view(rule):
    return training(rule, DistributedDataParallel(made(), gradient_as_bucket_view=True, **SMALL), simple)


def find_unused(rule):
    """In step 1 nobody uses the extra layer, in step 2 only rank 0 does."""
    wrapped = DistributedDataParallel(made(), find_unused_parameters=True, **SMALL)
    return training(
        rule,
        wrapped,
        lambda model, step: simple(model, step, uses_extra=step != 1 and (step != 2 or dist.get_rank() == 0)),
    )


def static_graph(rule):
    return training(rule, DistributedDataParallel(made(), static_graph=True, **SMALL), simple)


def static_graph_of_two_types(rule):
    """Its first buckets are two, and both are number 0."""
    return training(rule, DistributedDataParallel(made(kind=torch.bfloat16), static_graph=True, **SMALL), simple)


def no_sync(rule):
    def backward(model, step):
        if isinstance(model, DistributedDataParallel):
            with model.no_sync():
                simple(model, 2 * step)
        else:
            simple(model, 2 * step)
        simple(model, 2 * step + 1)

    return training(rule, DistributedDataParallel(made(), **SMALL), backward)


class Checkpointed(Net):
    reentrant = False

    def forward(self, x, uses_extra=True):
        x = torch.relu(self.first(x))
        x = checkpoint(lambda y: torch.relu(self.middle(y)), x, use_reentrant=self.reentrant)
        x = x + checkpoint(lambda y: torch.tanh(self.extra(y)), x, use_reentrant=self.reentrant)
        return self.last(x)


def activation_checkpointing(rule):
    torch.manual_seed(0)
    return training(rule, DistributedDataParallel(Checkpointed(), **SMALL), simple)


def reentrant_checkpointing(rule):
    torch.manual_seed(0)
    net = Checkpointed()
    net.reentrant = True
    return training(rule, DistributedDataParallel(net, **SMALL), simple)


def frozen(rule):
    net = made()
    net.middle.requires_grad_(False)
    net.last.bias.requires_grad_(False)
    return training(rule, DistributedDataParallel(net, **SMALL), simple)


def two_types(rule):
    return training(rule, DistributedDataParallel(made(kind=torch.bfloat16), **SMALL), simple)


def autocast(rule):
    def backward(model, step):
        with torch.autocast("cpu", torch.bfloat16):
            loss = loss_of(model, step)
        loss.backward()

    return training(rule, DistributedDataParallel(made(), **SMALL), backward)


def compiled(rule):
    """With one bucket: torch.compile wants them as large as DDP's first one."""
    return training(
        rule,
        DistributedDataParallel(made()),
        simple,
        prepare=lambda model: torch.compile(model, backend="eager"),
    )


def torch_form(rule):
    """As frameworks register it that wrap the model themselves."""
    wrapped = DistributedDataParallel(made(), **SMALL)
    state_class = getattr(flockstep, STATES[rule])
    state = state_class(transfer=TRANSFER, guard=0.0)
    beside = Beside(state, SketchedOracle(rule, guard=0.0)) if TRANSFER == "sketch" else None
    wrapped.register_comm_hook(state, getattr(flockstep, f"{rule}_hook"))
    expected, worst = Expected(rule), 0.0
    state.weight = 1.0
    for step in range(3):
        gradients = of_all(own_gradient(wrapped.module, lambda replica, step=step: simple(replica, step)))
        wrapped.zero_grad()
        simple(wrapped, step)
        if beside is None:
            worst = max(worst, distance(flat(wrapped.module.parameters()), expected(gradients, [1.0] * len(gradients))))
        else:
            beside.compare()
    state.close()
    return worst if beside is None else beside.worst


def tensor_granularity(rule):
    """Each parameter on its own, also after DDP has ordered them anew."""
    wrapped = DistributedDataParallel(made(), **SMALL)
    state = getattr(flockstep, rule)(wrapped, granularity="tensor", transfer="exact", guard=0.0)
    expected = {name: Expected(rule) for name, _ in wrapped.module.named_parameters()}
    worst = 0.0
    for step in range(STEPS):
        own = own_gradient(wrapped.module, lambda replica, step=step: simple(replica, step))
        gradients = of_all(own)
        wrapped.zero_grad()
        simple(wrapped, step)
        begin = 0
        for name, parameter in wrapped.module.named_parameters():
            part = slice(begin, begin + parameter.numel())
            begin = part.stop
            want = expected[name]([gradient[part] for gradient in gradients], [1.0] * len(gradients))
            worst = max(worst, distance(parameter.grad.double().flatten(), want))
    state.close()
    return worst


def bfloat16_on_the_wire(rule):
    """In several buckets, which leave before the last one is there."""
    wrapped = DistributedDataParallel(made(), **SMALL)
    return training(rule, wrapped, simple, options={"wire": "bfloat16"})


def sub_group(rule):
    """Ranks 0 and 2 train together, and rank 1 looks on."""
    group = dist.new_group([0, 2])
    worst = 0.0
    if dist.get_rank() != 1:
        wrapped = DistributedDataParallel(made(), process_group=group, **SMALL)
        worst = training(rule, wrapped, simple, group=group)
    dist.barrier()
    return worst


def two_models(rule):
    """One backward pass through both."""
    models = [DistributedDataParallel(made(seed), **SMALL) for seed in (0, 1)]
    states = [
        getattr(flockstep, name)(model, transfer=TRANSFER, guard=0.0)
        for name, model in zip((rule, "adasum"), models, strict=True)
    ]
    beside = []
    if TRANSFER == "sketch":
        oracles = [SketchedOracle(name, guard=0.0) for name in (rule, "adasum")]
        beside = [Beside(state, oracle) for state, oracle in zip(states, oracles, strict=True)]
    expected, worst = [Expected(rule), Expected("adasum")], 0.0

    def backward(first, second, step):
        x, y = batch(step)
        (nn.functional.cross_entropy(first(x) + second(x), y)).backward()

    for step in range(STEPS):
        pair = nn.ModuleList([model.module for model in models])
        own = own_gradient(pair, lambda replica, step=step: backward(*replica, step))
        gradients = of_all(own)
        for model in models:
            model.zero_grad()
        backward(*models, step)
        for each in beside:
            each.compare()
            worst = max(worst, each.worst)
        if beside:
            continue
        half = len(own) // 2
        for k, model in enumerate(models):
            want = expected[k]([g[k * half : (k + 1) * half] for g in gradients], [1.0] * len(gradients))
            worst = max(worst, distance(flat(model.module.parameters()), want))
    for state in states:
        state.close()
    return worst


FEATURES = [
    plain,
    one_bucket,
    bucket_view,
    find_unused,
    static_graph,
    static_graph_of_two_types,
    no_sync,
    activation_checkpointing,
    reentrant_checkpointing,
    frozen,
    two_types,
    autocast,
    compiled,
    torch_form,
    tensor_granularity,
    bfloat16_on_the_wire,
    sub_group,
    two_models,
]

if __name__ == "__main__":
    run(
        {
            f"{feature.__name__} {rule}": lambda feature=feature, rule=rule: feature(rule)
            for feature in FEATURES
            for rule in RULES
            if not (TRANSFER == "sketch" and feature in (tensor_granularity, bfloat16_on_the_wire))
        }
    )
