"""A small network in float16 under a stock GradScaler from 2^16: how far its loss falls beside plain DDP's, by rule and transfer."""

import flockstep
import torch
import torch.distributed as dist
from cases import run
from rule_oracle import RULES
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(12, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 1))


def trained(rule, transfer, *, sharded=False, steps=200):
    """The loss before and after, and the scale. So large a loss overflows in a dozen steps on end, on all ranks."""
    model = network()
    if sharded:
        for layer in (model[0], model[2]):
            fully_shard(layer)
        fully_shard(model)
    else:
        model = DistributedDataParallel(model)
    state = flockstep.register(model, rule, transfer=transfer) if rule else None
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)
    generator = torch.Generator().manual_seed(1 + dist.get_rank())
    losses = []
    for _ in range(steps):
        x = torch.randn(32, 12, generator=generator)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            out = model(x)
        loss = (out.float() - 1000 * x[:, :1]).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    findings = state.findings if state else []
    if state:
        state.close()
    return {"first": losses[0], "last": sum(losses[-10:]) / 10, "scale": scaler.get_scale(), "findings": findings}


CASES = {"plain, DDP": lambda: trained(None, None), "plain, FSDP2": lambda: trained(None, None, sharded=True)}
for rule in RULES:
    for transfer in ("exact", "sketch"):
        CASES[f"{rule}, {transfer}, DDP"] = lambda rule=rule, transfer=transfer: trained(rule, transfer)
    CASES[f"{rule}, sketch, FSDP2"] = lambda rule=rule: trained(rule, "sketch", sharded=True)

if __name__ == "__main__":
    run(CASES)
