"""What the programs of this folder share: a device for each rank, checks, and how long backward() keeps the host.

Each runs under torchrun, prints a line for each check, and ends with 1 if one fails. Ranks beyond the number of GPUs share
them (flockstep.bench.launch.share_gpu). With --device cpu a program runs without a GPU, over Gloo, as far as it makes sense:
to try the program itself.
"""

import os
import sys
import time
import traceback
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "python"), str(Path(__file__).parents[1])]

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from ddp_training import batch, made  # noqa: E402
from flockstep.bench.launch import share_gpu  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

RANK, WORKERS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
ON_GPU = "--device" not in sys.argv or sys.argv[sys.argv.index("--device") + 1] != "cpu"
DEVICE = share_gpu() if ON_GPU else torch.device("cpu")
BUSY_MS, MOST_MS = 500, 50
SMALL = {"bucket_cap_mb": 0.005}  # several buckets, once DDP has rebuilt them
_failures = 0
_cpu_group = []


def check(name, holds, told=""):
    """The same on all ranks: it holds where it does on each."""
    global _failures
    everywhere = torch.tensor([int(bool(holds))], device=DEVICE)
    dist.all_reduce(everywhere, dist.ReduceOp.MIN)
    _failures += int(everywhere.item() == 0)
    if RANK == 0:
        print(f"{'ok  ' if everywhere.item() else 'FAIL'} {name} {told}", flush=True)


def begin():
    torch.set_num_threads(1)  # the ranks share the processors
    dist.init_process_group("nccl" if ON_GPU else "gloo")


def finish():
    dist.destroy_process_group()
    if RANK == 0:
        print(f"{_failures} checks failed" if _failures else "all checks hold", flush=True)
    sys.exit(int(_failures > 0))


def run(cases):
    """One after the other. One that raises has failed, and so has the program: others may be in another case by then."""
    for name, case in cases.items():
        try:
            case()
        except Exception:
            print(f"FAIL {name}, rank {RANK}: it raised\n{traceback.format_exc()}", flush=True)
            os._exit(1)


def cpu_group():
    """All ranks over Gloo, for tensors on the CPU. Collective when it is first asked for."""
    if not _cpu_group:
        _cpu_group.append(dist.new_group(backend="gloo") if ON_GPU else dist.group.WORLD)
    return _cpu_group[0]


def loss_of(model, step, **options):
    x, y = batch(step)
    kind = next(model.parameters()).dtype
    return nn.functional.cross_entropy(model(x.to(DEVICE, kind), **options).float(), y.to(DEVICE))


def wrapped(kind=torch.float32, **options):
    return DistributedDataParallel(made().to(DEVICE, kind), **{**SMALL, **options})


def is_same_everywhere(tensor):
    everybody = [torch.zeros_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(everybody, tensor)
    return all(torch.equal(each.nan_to_num(1e30), tensor.nan_to_num(1e30)) for each in everybody)


def host_never_waits(name, register, **options):
    """With the stream busy, backward() returns at once: in steady state. `register(model)` gives the state."""
    model = wrapped(**options)
    state = register(model)
    for step in range(5):
        model.zero_grad()
        loss_of(model, step).backward()
    torch.cuda.synchronize()
    dist.barrier()
    loss = loss_of(model, 5)
    torch.cuda.synchronize()
    worst = 0.0
    for step in range(3):
        torch.cuda._sleep(int(BUSY_MS * 1e-3 * 1.7e9))
        began = time.perf_counter()
        loss.backward()
        worst = max(worst, 1e3 * (time.perf_counter() - began))
        if step < 2:
            model.zero_grad()
            loss = loss_of(model, 6 + step)
    began = time.perf_counter()
    torch.cuda.synchronize()
    waited = 1e3 * (time.perf_counter() - began)
    step = state.step
    state.close()
    check(
        f"backward() of {name} returns at once",
        worst < MOST_MS < waited and step == 8,
        f"{worst:.1f} ms, then {waited:.0f} ms",
    )
