"""Gradient rules with every feature of DDP: how far gradients are from those recomputed from every rank's own."""

from contextlib import nullcontext

import flockstep
import torch
import torch.distributed as dist
from cases import Cases, run
from ddp_training import Net, batch, distance, flat, loss_of, made, of_all, own_gradient
from hooks_shared import SMALL, state_of, weights_for
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
        self.group, self.worst, self.weights = group, 0.0, weights_for(rule, self.state, group)
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


def in_float_and_bfloat16():
    return made(kind=torch.bfloat16)


def partly_frozen():
    net = made()
    net.middle.requires_grad_(False)
    net.last.bias.requires_grad_(False)
    return net


class Checkpointed(Net):
    def __init__(self, *, reentrant=False):
        super().__init__()
        self.reentrant = reentrant

    def forward(self, x):
        x = torch.relu(self.first(x))
        x = checkpoint(lambda y: torch.relu(self.middle(y)), x, use_reentrant=self.reentrant)
        x = x + checkpoint(lambda y: torch.tanh(self.extra(y)), x, use_reentrant=self.reentrant)
        return self.last(x)


def sometimes_without_a_layer(model, step):
    """In step 1 no rank uses the extra layer, in step 2 only rank 0 does."""
    simple(model, step, uses_extra=step != 1 and (step != 2 or dist.get_rank() == 0))


def of_two_batches(model, step):
    with model.no_sync() if isinstance(model, DistributedDataParallel) else nullcontext():
        simple(model, 2 * step)
    simple(model, 2 * step + 1)


def under_autocast(model, step):
    with torch.autocast("cpu", torch.bfloat16):
        loss = loss_of(model, step)
    loss.backward()


def compiled(model):
    return torch.compile(model, backend="eager")


def registered_in_torchs_form(model, rule, **options):
    """As frameworks do that wrap the model themselves."""
    state = state_of(rule, **options)
    model.register_comm_hook(state, getattr(flockstep, f"{rule}_hook"))
    return state


ONE_BUCKET, STATIC, ROUNDED = {"bucket_cap_mb": 25}, {"static_graph": True}, 1e-2
FEATURES = {
    "one bucket": {"ddp_options": ONE_BUCKET},
    "gradients as views": {"ddp_options": {"gradient_as_bucket_view": True}},
    "a static graph": {"ddp_options": STATIC},
    "two types": {"net": in_float_and_bfloat16, "most": ROUNDED},
    # Its first buckets are two, and both are number 0.
    "a static graph of two types": {"net": in_float_and_bfloat16, "ddp_options": STATIC, "most": ROUNDED},
    "unused parameters": {
        "ddp_options": {"find_unused_parameters": True},
        "backward": sometimes_without_a_layer,
    },
    "frozen parameters": {"net": partly_frozen},
    "accumulation": {"backward": of_two_batches},
    "checkpoints": {"net": Checkpointed},
    "reentrant checkpoints": {"net": lambda: Checkpointed(reentrant=True)},
    "autocast": {"backward": under_autocast},
    "torch.compile": {"prepare": compiled, "ddp_options": ONE_BUCKET},  # which wants one as large as DDP's first
    "torch's form": {"register": registered_in_torchs_form},
    "coefficients of each parameter": {"granularity": "tensor"},  # also after DDP has ordered them anew
    "bfloat16 on the wire": {"wire": "bfloat16", "most": ROUNDED},  # in buckets that leave before the last one is there
}


def the_feature(name, rule, transfer):
    options = {"net": made, "ddp_options": {}, "backward": simple, **FEATURES[name]}
    torch.manual_seed(0)
    check(rule, transfer, ddp(options.pop("net")(), **options.pop("ddp_options")), **options)


def a_sub_group(rule, transfer):
    """Ranks 0 and 2 train together, and rank 1 looks on."""
    group = dist.new_group([0, 2])
    if dist.get_rank() != 1:
        check(rule, transfer, ddp(made(), process_group=group), simple, group=group)


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


# A rule that remembers something, and one that has weights.
for rule in ("adacons", "weighted_mean"):
    for transfer in ("exact", "sketch"):
        for name, options in FEATURES.items():
            if transfer == "exact" or not {"granularity", "wire"} & {*options}:
                case(name, rule, transfer)(the_feature)
        case(rule, transfer)(a_sub_group)
        case(rule, transfer)(two_models_in_one_backward_pass)

if __name__ == "__main__":
    run(CASES.of_this_world)
