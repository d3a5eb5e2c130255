"""Workers for benchmarks: this process is one of torchrun's, or starts torchrun; and children of it under a time limit.

share_gpu() is for the tests on GPUs, too.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import NoReturn

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

PATIENCE = timedelta(seconds=120)
GRACE_S = 3  # for the others to end by themselves, once one has failed


def under_torchrun() -> bool:
    return {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys()


def start_torchrun(workers: int, arguments: list[str]) -> int:
    """This command again, as so many workers on this machine; gives torchrun's exit code."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(workers)]
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    return subprocess.run([*command, "-m", "flockstep.bench", *arguments], env=environment).returncode


def ranks_share_gpus() -> bool:
    """Whether this machine has fewer GPUs than ranks."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", os.environ["WORLD_SIZE"])) > torch.cuda.device_count()


def share_gpu() -> torch.device:
    """This rank's GPU, which becomes the current one: to be called before a NCCL group is made.

    Ranks beyond the number of GPUs share them. NCCL refuses two ranks of one machine on one GPU ("Duplicate GPU detected"),
    so each rank pretends to be a machine of its own (NCCL_HOSTID). NCCL must not try shared memory or peer access between
    such machines, and finds them over the loopback interface. With a GPU for every rank NCCL is left alone.
    """
    rank = int(os.environ.get("LOCAL_RANK", os.environ["RANK"]))
    if ranks_share_gpus():
        own = {"NCCL_HOSTID": f"h{os.environ['RANK']}", "NCCL_SOCKET_IFNAME": "lo"}
        os.environ.update(own, NCCL_P2P_DISABLE="1", NCCL_SHM_DISABLE="1")
    device = torch.device("cuda", rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def join_group(place: str, device: str = "cpu") -> None:
    """Makes the default process group, apart from those of other places.

    On CUDA tensors travel by NCCL, and those on the CPU by Gloo.
    """
    if device == "cuda":
        share_gpu()
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    shared = dist.TCPStore(host, port, is_master=False, timeout=PATIENCE)  # type: ignore[attr-defined]
    store = PrefixStore(place, shared)
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    backend = "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo"
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=PATIENCE)


def leave_group() -> NoReturn:
    """Ends this process, its work being done, without ending the interpreter.

    A thread of torch's that still holds tensors of the last collective would then abort what has succeeded.
    """
    dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)


class Children:
    """Runs a module as a child of every worker, again and again, and outlives what happens to it."""

    def __init__(self) -> None:
        self._store, self.rank, self.size = next(rendezvous("env://", timeout=PATIENCE))
        self._runs = 0

    def run(
        self, module: str, arguments: list[str], limit_s: float, environment: Mapping[str, str] | None = None
    ) -> tuple[str, str]:
        """What worker 0's child printed, or nothing; and why it failed, or nothing. The same call on every worker.

        `environment` is added to this process's own.
        """
        self._runs += 1
        place = f"flockstep/bench/{self._runs}"
        with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
            command = [sys.executable, "-m", module, place, *arguments]
            child = subprocess.Popen(command, stdout=output, stderr=errors, env={**os.environ, **(environment or {})})
            failure = self._wait(child, f"{place}/failure", limit_s)
            if not failure and child.returncode != 0:
                errors.seek(0)
                lines = [line.strip() for line in errors if line.strip()]
                last = lines[-1] if lines else f"it ended with code {child.returncode}"
                failure = re.sub(r"^\[rank\d+\]: ", "", last)
            if failure:
                self._store.compare_set(f"{place}/failure", "", failure)  # the first reason is the reason
            self._meet(place)
            output.seek(0)
            found = self._store.check([f"{place}/failure"])
            return output.read(), self._store.get(f"{place}/failure").decode() if found else ""

    def _wait(self, child: subprocess.Popen[bytes], failure: str, limit_s: float) -> str:
        """Until the child has ended, of itself or at our hands, and then why at our hands."""
        end = time.monotonic() + limit_s
        hurried = False
        while child.poll() is None:
            if not hurried and self._store.check([failure]):
                hurried, end = True, min(end, time.monotonic() + GRACE_S)
            if time.monotonic() > end:
                child.kill()
                child.wait()
                return f"it was not done after {limit_s:.0f} s"
            time.sleep(0.1)
        return ""

    def _meet(self, place: str) -> None:
        """So that nobody reads before all have written."""
        if self._store.add(f"{place}/arrived", 1) == self.size:
            self._store.set(f"{place}/all", "")
        self._store.wait([f"{place}/all"], PATIENCE)
