"""One worker of the conformance suite on c10d: engine_conformance.py FILTER, under torchrun. Exits as GoogleTest does."""

import sys
from datetime import timedelta

import torch.distributed as dist
from paths import BUILD
from torch.distributed.distributed_c10d import PrefixStore, _get_default_store

sys.path.insert(0, str(BUILD / "tests" / "engines"))
import conformance_c10d

dist.init_process_group("gloo")
made = 0


def make_groups():
    global made
    made += 1
    return tuple(
        dist.ProcessGroupGloo(
            PrefixStore(f"conformance/{made}/{purpose}", _get_default_store()),
            dist.get_rank(),
            dist.get_world_size(),
            timedelta(seconds=60),
        )
        for purpose in ("data", "control")
    )


sys.exit(conformance_c10d.run(make_groups, dist.get_world_size(), sys.argv[1]))
