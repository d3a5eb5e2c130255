"""Gradient rules on models of fully_shard() on CUDA devices over NCCL: the cases of tests/python/sharded_program.py.

torchrun --nproc-per-node 2 tests/cuda/sharded.py [--device cpu]

Prints a line for each check, and ends with 1 if one fails: see common.py.
"""

import common  # first: it tells Python where the tests are
import flockstep
import sharded_program
import torch
from rule_oracle import RULES
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy


def close_to_the_oracle(name, rule, most=1e-6, mesh=None, **options):
    outcome = sharded_program.rule_of(rule, mesh, **options)
    holds = outcome["distance"] < most and outcome["step"] == sharded_program.STEPS
    common.check(f"{name}, {rule}", holds, f"{outcome['distance']:.1e} from the oracle")


def rules():
    for rule in RULES:
        close_to_the_oracle("float32", rule)


def half():
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
    for rule in ("mean", "adacons", "direction_consensus"):
        close_to_the_oracle("bfloat16", rule, 0.01, mp_policy=policy)


def replicas():
    if common.WORKERS % 2 or common.WORKERS < 4:
        return
    names = ("replicate", "shard")
    mesh = init_device_mesh(common.DEVICE.type, (2, common.WORKERS // 2), mesh_dim_names=names)
    for rule in ("mean", "direction_consensus"):
        close_to_the_oracle("replicas of shards", rule, mesh=mesh)


def mean():
    apart = sharded_program.mean_is_that_of_fsdp()
    common.check("mean is that of FSDP", apart < 1e-6, f"{apart:.1e} apart")


def resumed():
    common.check("a resumed training is the uninterrupted one", sharded_program.resumed() == [True, 6, 6])


def steps_in_flight():
    """The last backward pass has ended, and FSDP still sums: what is told is of this step."""
    model = sharded_program.sharded()
    model.set_is_last_backward(False)
    state = flockstep.direction_consensus(model, sketch_length=256)
    for step in range(4):
        sharded_program.loss_of(model, step).backward()
    holds = state.step == 4 and bool(torch.isfinite(state.coefficients).all()) and float(state.norms.min()) > 0
    state.close()
    model.set_is_last_backward(True)
    sharded_program.full(model)
    common.check("passes that are not the last", holds)


def main():
    common.begin()
    sharded_program.DEVICE, sharded_program.CPU_GROUP = common.DEVICE, common.cpu_group()
    if common.WORKERS > 1:  # else FSDP sums nothing
        common.run({case.__name__: case for case in (rules, half, replicas, mean, resumed, steps_in_flight)})
    common.finish()


if __name__ == "__main__":
    main()
