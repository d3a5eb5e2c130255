"""Gradient rules with every feature of DDP: how far gradients are from those recomputed from every rank's own."""

import flockstep
import torch
import torch.distributed as dist
from cases import Cases, run
from ddp_training import Net, batch, distance, flat, loss_of, made, of_all, own_gradient
from hooks_shared import SMALL, STATES
from rule_oracle import RULES, Expected
from sketch_oracle import Beside, SketchedOracle
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

STEPS = 4
CASES = Cases(3, thorough=True)
case = CASES.case


def ddp(net, **options):
    return DistributedDataParallel(net, **{**SMALL, **options})


class Followed:
    """A DDP model under a rule without a guard, and how far its gradients have been from the oracle's."""

    def __init__(self, wrapped, rule, transfer, *, register=flockstep.register, group=None, **options):
        self.state = register(wrapped, rule, transfer=transfer, guard=0.0, **options)
        self.group, self.worst, self.weights = group, 0.0, None
        if rule == "weighted_mean":
            self.state.weight = dist.get_rank() + 1.0
            self.weights = [rank + 1.0 for rank in dist.get_process_group_ranks(group or dist.group.WORLD)]
        self.parameters = [*wrapped.parameters()]
        self.sizes = [p.numel() for p in self.parameters if p.requires_grad]
        if options.get("granularity") != "tensor":
            self.sizes = [sum(self.sizes)]
        self.expected = [Expected(rule) for _ in self.sizes]
        self.beside = Beside(self.state, SketchedOracle(rule, guard=0.0), group=group) if transfer == "sketch" else None

    def compare(self, own):
        """After a backward pass, with this rank's own gradient."""
        if self.beside is not None:
            self.beside.compare(self.weights)
            self.worst = self.beside.worst
            return
        parts = zip(*(gradient.split(self.sizes) for gradient in of_all(own, self.group)), strict=True)
        ours = flat(self.parameters).split(self.sizes)
        for got, gradients, expected in zip(ours, parts, self.expected, strict=True):
            self.worst = max(self.worst, distance(got, expected([*gradients], self.weights)))


def check(rule, transfer, wrapped, backward, *, prepare=lambda model: model, most=1e-5, **options):
    """`backward(model, step)` makes gradients."""
    followed = Followed(wrapped, rule, transfer, **options)
    prepared, module = prepare(wrapped), wrapped.module
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05)
    for step in range(STEPS):
        own = own_gradient(module, lambda replica, step=step: backward(replica, step))
        optimizer.zero_grad()
        backward(prepared, step)
        followed.compare(own)
        optimizer.step()
    followed.state.close()
    assert followed.worst < most


def simple(model, step, **options):
    loss_of(model, step, **options).backward()


@case("adacons", "exact", workers=(1,), thorough=False)
def no_feature(rule, transfer):
    check(rule, transfer, ddp(made()), simple)


for rule in RULES:
    for transfer in ("exact", "sketch"):
        case(rule, transfer, thorough=False)(no_feature)


def with_features(*transfers):
    """A decorator: a feature of DDP with a rule that remembers something, and with one that has weights."""

    def added(function):
        for transfer in transfers or ("exact", "sketch"):
            for rule in ("adacons", "weighted_mean"):
                case(rule, transfer)(function)
        return function

    return added


def in_float_and_bfloat16():
    return made(kind=torch.bfloat16)


@with_features()
def options_of_ddp(rule, transfer):
    check(rule, transfer, ddp(made(), bucket_cap_mb=25), simple)
    check(rule, transfer, ddp(made(), gradient_as_bucket_view=True), simple)
    check(rule, transfer, ddp(made(), static_graph=True), simple)


@with_features()
def parameters_of_two_types(rule, transfer):
    """The first buckets of a static graph are two, and both are number 0. Results are rounded to bfloat16."""
    check(rule, transfer, ddp(in_float_and_bfloat16()), simple, most=1e-2)
    check(rule, transfer, ddp(in_float_and_bfloat16(), static_graph=True), simple, most=1e-2)


@with_features()
def parameters_that_are_not_used(rule, transfer):
    """In step 1 no rank uses the extra layer, in step 2 only rank 0 does."""

    def backward(model, step):
        simple(model, step, uses_extra=step != 1 and (step != 2 or dist.get_rank() == 0))

    check(rule, transfer, ddp(made(), find_unused_parameters=True), backward)


@with_features()
def frozen_parameters(rule, transfer):
    net = made()
    net.middle.requires_grad_(False)
    net.last.bias.requires_grad_(False)
    check(rule, transfer, ddp(net), simple)


@with_features()
def gradients_that_are_accumulated(rule, transfer):
    def backward(model, step):
        if isinstance(model, DistributedDataParallel):
            with model.no_sync():
                simple(model, 2 * step)
        else:
            simple(model, 2 * step)
        simple(model, 2 * step + 1)

    check(rule, transfer, ddp(made()), backward)


class Checkpointed(Net):
    def __init__(self, *, reentrant):
        super().__init__()
        self.reentrant = reentrant

    def forward(self, x):
        x = torch.relu(self.first(x))
        x = checkpoint(lambda y: torch.relu(self.middle(y)), x, use_reentrant=self.reentrant)
        x = x + checkpoint(lambda y: torch.tanh(self.extra(y)), x, use_reentrant=self.reentrant)
        return self.last(x)


@with_features()
def activation_checkpoints(rule, transfer):
    for reentrant in (False, True):
        check(rule, transfer, ddp(Checkpointed(reentrant=reentrant)), simple)


@with_features()
def autocast(rule, transfer):
    def backward(model, step):
        with torch.autocast("cpu", torch.bfloat16):
            loss = loss_of(model, step)
        loss.backward()

    check(rule, transfer, ddp(made()), backward)


@with_features()
def compiled_models(rule, transfer):
    """With one bucket: torch.compile wants them as large as DDP's first one."""
    wrapped = ddp(made(), bucket_cap_mb=25)
    check(rule, transfer, wrapped, simple, prepare=lambda model: torch.compile(model, backend="eager"))


@with_features()
def the_form_in_which_frameworks_register_that_wrap_the_model_themselves(rule, transfer):
    def register(model, rule, **options):
        state = getattr(flockstep, STATES[rule])(**options)
        model.register_comm_hook(state, getattr(flockstep, f"{rule}_hook"))
        return state

    check(rule, transfer, ddp(made()), simple, register=register)


@with_features("exact")
def coefficients_of_each_parameter(rule, transfer):
    """Also after DDP has ordered parameters anew."""
    check(rule, transfer, ddp(made()), simple, granularity="tensor")


@with_features("exact")
def bfloat16_on_the_wire(rule, transfer):
    """In several buckets, which leave before the last one is there."""
    check(rule, transfer, ddp(made()), simple, wire="bfloat16", most=1e-2)


@with_features()
def a_sub_group(rule, transfer):
    """Ranks 0 and 2 train together, and rank 1 looks on."""
    group = dist.new_group([0, 2])
    if dist.get_rank() != 1:
        check(rule, transfer, ddp(made(), process_group=group), simple, group=group)


@with_features()
def two_models_in_one_backward_pass(rule, transfer):
    models = [ddp(made(seed)) for seed in (0, 1)]
    both = [Followed(model, name, transfer) for model, name in zip(models, (rule, "adasum"), strict=True)]

    def backward(first, second, step):
        x, y = batch(step)
        nn.functional.cross_entropy(first(x) + second(x), y).backward()

    for step in range(STEPS):
        pair = nn.ModuleList([model.module for model in models])
        own = own_gradient(pair, lambda replica, step=step: backward(*replica, step))
        for model in models:
            model.zero_grad()
        backward(*models, step)
        for followed, part in zip(both, own.chunk(2), strict=True):
            followed.compare(part)
    for followed in both:
        followed.state.close()
        assert followed.worst < 1e-5


if __name__ == "__main__":
    run(CASES.of_this_world)
