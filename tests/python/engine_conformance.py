"""One worker of the conformance suite on c10d: engine_conformance.py FILTER, under torchrun. Exits as GoogleTest does.

With lose_a_peer instead of a filter, worker 1 is killed in the middle of a transfer, and the others print what came of it.
"""

import json
import sys
from datetime import timedelta

import torch.distributed as dist
from paths import BUILD
from torch.distributed.distributed_c10d import PrefixStore, _get_default_store

sys.path.insert(0, str(BUILD / "tests" / "engines"))
import conformance_c10d

dist.init_process_group("gloo")
made = 0


def make_group():
    global made
    made += 1
    store = PrefixStore(f"conformance/{made}", _get_default_store())
    return dist.ProcessGroupGloo(store, dist.get_rank(), dist.get_world_size(), timedelta(seconds=60))


def make_groups():
    return [make_group(), make_group()], make_group()


if sys.argv[1] == "lose_a_peer":
    print(json.dumps(conformance_c10d.lose_a_peer(make_groups)))
    sys.exit(3)
sys.exit(conformance_c10d.run(make_groups, dist.get_world_size(), sys.argv[1]))
