"""A small network in float16 under a stock GradScaler from 2^16: how far its loss falls beside training without a rule."""

import functools

import torch
import torch.distributed as dist
from cases import Cases, run
from hooks_shared import under
from rule_oracle import RULES
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

CASES = Cases(2)


def network(kind):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 1))
    if kind == "DDP":
        return DistributedDataParallel(model)
    for layer in (model[0], model[2]):
        fully_shard(layer)
    return fully_shard(model)


def trained(model):
    """The loss before and after, and the scale. So large a loss overflows in a dozen steps on end, on all ranks."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)
    generator = torch.Generator().manual_seed(1 + dist.get_rank())
    losses = []
    for _ in range(200):
        x = torch.randn(32, 12, generator=generator)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            out = model(x)
        loss = (out.float() - 1000 * x[:, :1]).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses[0], sum(losses[-10:]) / 10, scaler.get_scale()


@functools.cache
def trained_without_a_rule(kind):
    return trained(network(kind))


def a_network_in_float16_trains_under_a_stock_scaler(kind, transfer, rule):
    first, _, scale_without = trained_without_a_rule(kind)
    with under(rule, network(kind), transfer=transfer) as (model, state):
        before, after, scale = trained(model)
        findings = state.findings
    assert before == first
    assert after < 0.02 * first, "without a rule it comes to 0.005"
    assert scale <= 64 * scale_without, "the scaler has backed off"
    assert not [finding for finding in findings if "in a row" in finding], "no rank is at fault for long"


for rule in RULES:
    for kind, transfer in (("DDP", "exact"), ("DDP", "sketch"), ("FSDP2", "sketch")):
        CASES.case(kind, transfer, rule)(a_network_in_float16_trains_under_a_stock_scaler)

if __name__ == "__main__":
    run(CASES.of_this_world)
