"""`flockstep doctor`: what works on this machine and, where something does not, why and what to do.

Each check is a function that returns one Finding and raises nothing. It runs where torch is missing or broken, so torch and
the native module are imported inside the checks alone.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import timedelta
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from flockstep._command import cpp_command
from flockstep._compatibility import require_torch
from flockstep._version import __version__

_NOT_DONE = -1000  # beside exit codes and signals
_PATIENCE_S = 180  # for two processes to import torch, meet and exchange
_OLDEST_ARCHITECTURE = 80  # as src/kernels/cuda/compiler.cpp has it
_CONNECTIONS_PER_PEER = 5  # of a worker: its Gloo groups, and that of the process group
_COLOURS = {"ok": "32", "note": "33", "fail": "31"}


@dataclass(frozen=True)
class Finding:
    """What a check found: `ok`, `note` (something optional is missing) or `fail` (something needed does not work)."""

    name: str
    status: str
    found: str
    remedy: str = ""


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _torch() -> Finding:
    try:
        require_torch()
    except ImportError as error:
        found, _, remedy = _first_line(error).partition(": ")
        return Finding("torch", "fail", found, remedy)
    try:
        version = import_module("torch").__version__
    except Exception as error:  # whatever a broken installation raises
        return Finding("torch", "fail", f"cannot be imported: {_first_line(error)}", "install torch again")
    return Finding("torch", "ok", version)


def _native() -> Finding:
    try:
        import_module("flockstep._native")
        built_for = import_module("flockstep._built_for").TORCH
    except Exception as error:
        remedy = "install its wheel again, or `pip install --no-build-isolation .` in its sources"
        return Finding("native module", "fail", f"cannot be loaded: {_first_line(error)}", remedy)
    return Finding("native module", "ok", f"loads; built for torch {built_for}")


def _gloo() -> Finding:
    import torch.distributed as dist

    if dist.is_available() and dist.is_gloo_available():
        return Finding("Gloo", "ok", "in this torch")
    return Finding("Gloo", "fail", "not in this torch", "install a torch that is built with Gloo, as those of PyPI are")


def _architectures() -> list[int]:
    """Of each GPU that torch can use: 90 for sm_90."""
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return [10 * major + minor for major, minor in map(torch.cuda.get_device_capability, range(count))]


def _gpus() -> Finding:
    import torch

    if architectures := _architectures():
        found = ", ".join(f"{torch.cuda.get_device_name(i)} (sm_{each})" for i, each in enumerate(architectures))
        if min(architectures) >= _OLDEST_ARCHITECTURE:
            return Finding("GPUs", "ok", found)
        return Finding("GPUs", "note", found, f"use GPUs of sm_{_OLDEST_ARCHITECTURE} or later, or the CPU")
    if not Path("/proc/driver/nvidia/version").exists() and not Path("/dev/nvidia0").exists():
        return Finding("GPUs", "ok", "none; models train on the CPU")
    if torch.version.cuda is None:
        remedy = "install a CUDA build of the same minor version of torch: flockstep need not be built again"
        return Finding("GPUs", "note", f"torch {torch.__version__} is built without CUDA", remedy)
    remedy = f"`nvidia-smi` has to work, with a driver for CUDA {torch.version.cuda}"
    return Finding("GPUs", "note", "torch cannot use the NVIDIA GPU of this machine", remedy)


def _nccl() -> Finding:
    import torch
    import torch.distributed as dist

    if dist.is_available() and dist.is_nccl_available():
        version = torch.cuda.nccl.version()  # type: ignore[no-untyped-call]
        return Finding("NCCL", "ok", ".".join(map(str, version)))
    if not torch.cuda.is_available():
        return Finding("NCCL", "ok", "not in this torch; only GPUs need it")
    return Finding("NCCL", "note", "not in this torch", "take the backend gloo, or a torch that is built with NCCL")


def _kernels() -> Finding:
    import torch

    from flockstep._native import BucketKernels

    name = "GPU kernels"
    usable = {i: each for i, each in enumerate(_architectures()) if each >= _OLDEST_ARCHITECTURE}
    if not usable:
        return Finding(name, "ok", "not needed without a GPU that they are for")
    try:
        for index in usable:
            BucketKernels(torch.device("cuda", index))
    except RuntimeError as error:
        found, _, remedy = _first_line(error).partition(": ")
        return Finding(name, "fail", found, remedy.rstrip("."))
    return Finding(
        name, "ok", f"NVRTC compiles them for {', '.join(f'sm_{each}' for each in sorted({*usable.values()}))}"
    )


def _kernel_cache() -> Finding:
    cache, home = os.environ.get("XDG_CACHE_HOME", ""), os.environ.get("HOME", "")
    base = cache if cache.startswith("/") else f"{home}/.cache" if home.startswith("/") else ""
    remedy = "each process compiles them anew; let XDG_CACHE_HOME name a folder that can be written"
    if not base:
        return Finding("kernel cache", "note", "no folder: HOME is not set", remedy)
    folder = Path(base) / "flockstep"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return Finding("kernel cache", "note", f"{folder} cannot be written: {error.strerror}", remedy)
    return Finding("kernel cache", "ok", str(folder))


def _optional(name: str, *packages: str) -> Finding:
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        return Finding(name, "note", f"needs {', '.join(missing)}", f"`pip install {' '.join(packages)}`")
    return Finding(name, "ok", f"{', '.join(packages)} {'is' if len(packages) == 1 else 'are'} installed")


def _loopback() -> Finding:
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(5)
            with socket.create_connection(server.getsockname(), timeout=5):
                server.accept()[0].close()
    except OSError as error:
        remedy = "ranks of one machine connect over 127.0.0.1: bring up the interface lo, and let no firewall block it"
        return Finding("loopback TCP", "fail", _first_line(error), remedy)
    return Finding("loopback TCP", "ok", "127.0.0.1 accepts connections")


def _file_descriptors() -> Finding:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    ranks = max(limit - 100, 0) // _CONNECTIONS_PER_PEER
    found = "no limit" if limit == resource.RLIM_INFINITY else f"{limit} at most: enough for about {ranks} ranks"
    if limit == resource.RLIM_INFINITY or ranks >= 100:
        return Finding("open files", "ok", found)
    return Finding("open files", "note", found, "raise it with `ulimit -n 4096`")


def _threads() -> Finding:
    cores, threads = len(os.sched_getaffinity(0)), os.environ.get("OMP_NUM_THREADS")
    chosen = f"{threads} for each rank" if threads else "not set; torchrun sets it to 1 where it starts several ranks"
    return Finding("OMP_NUM_THREADS", "ok", f"{chosen}; this machine has {cores} cores")


def _end_together(process: subprocess.Popen[bytes], other: subprocess.Popen[bytes]) -> int:
    """A rank that fails or is not done in time would leave the other one waiting. Gives its exit code."""
    try:
        code = process.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        code = _NOT_DONE
    if code != 0:
        other.kill()
    return code


def _two_processes(device: str = "cpu") -> Finding:
    name = f"two ranks, {'NCCL' if device == 'cuda' else 'Gloo'}"
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor() as pool:
        outputs = [Path(folder, f"rank{rank}") for rank in range(2)]
        ranks = []
        for rank, output in enumerate(outputs):
            own = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1"}
            command = [sys.executable, "-m", "flockstep._doctor", "--rank", f"{folder}/store", device]
            with output.open("w") as file:
                ranks.append(subprocess.Popen(command, env={**os.environ, **own}, stdout=file, stderr=file))
        codes = list(pool.map(_end_together, ranks, reversed(ranks)))
        said = [output.read_text(errors="replace").splitlines() for output in outputs]
    if codes == [0, 0]:
        return Finding(name, "ok", f"an all-reduce with the rule `mean` is right ({time.monotonic() - begin:.1f} s)")
    if _NOT_DONE in codes:
        return Finding(name, "fail", f"not done after {_PATIENCE_S} s", "try again on an idle machine")
    failed = [lines for lines, code in zip(said, codes, strict=True) if code not in (0, -signal.SIGKILL)]
    if not failed:
        return Finding(name, "fail", "a rank was killed", "SIGKILL often means that memory ran out: `dmesg` tells")
    last = next((line.strip() for line in reversed(failed[0]) if line.strip()), "a signal ended a rank")
    return Finding(name, "fail", last, "a two-rank script under torchrun will show the same error in full")


def _exchange(store: str, device: str) -> None:
    """What each of the two ranks does: its gradient is rank + 1, so that the mean is 1.5."""
    import torch
    import torch.distributed as dist

    import flockstep
    from flockstep.bench.launch import share_gpu

    where = share_gpu() if device == "cuda" else torch.device("cpu")
    rank, patience = int(os.environ["RANK"]), timedelta(seconds=_PATIENCE_S)
    backend = "nccl" if device == "cuda" else "gloo"
    dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=2, timeout=patience)
    model = torch.nn.Linear(1, 1, bias=False).to(where)
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    flockstep.mean(parallel)
    parallel(torch.full((1, 1), rank + 1.0, device=where)).sum().backward()
    if model.weight.grad is None or model.weight.grad.item() != 1.5:
        sys.exit(f"the mean of 1 and 2 came out as {model.weight.grad}")
    dist.destroy_process_group()


def _checks() -> Iterator[Finding]:
    """Each as soon as it is known: the last ones take seconds, or a minute on a busy machine."""
    needed: list[Finding] = []
    for check in (_torch, _native, _gloo, _gpus, _nccl, _kernels):
        if all(finding.status != "fail" for finding in needed):
            needed.append(check())
            yield needed[-1]
    works = len(needed) > 2 and needed[2].status == "ok"  # with Gloo, whatever GPUs say
    for check in (_kernel_cache, _loopback, _file_descriptors, _threads):
        yield check()
    yield Finding("C++ command", "ok", str(cpp_command() or "not on the PATH; the package does not need it"))
    yield _optional("reports", "jinja2", "matplotlib", "msgspec", "numpy")
    yield _optional("TensorBoard", "tensorboard")
    if works:
        yield _two_processes()
    if works and _architectures() and all(finding.status == "ok" for finding in needed):
        yield _two_processes("cuda")


def _printed(findings: Iterator[Finding]) -> list[Finding]:
    coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    print(f"flockstep {__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}\n")
    seen = []
    for finding in findings:
        start, end = (f"\033[{_COLOURS[finding.status]}m", "\033[0m") if coloured else ("", "")
        print(f"{start}{finding.status:<4}{end}  {finding.name:<15}  {finding.found}", flush=True)
        if finding.remedy:
            print(f"{'':21}  -> {finding.remedy}", flush=True)
        seen.append(finding)
    failed = [finding.name for finding in seen if finding.status == "fail"]
    print(f"\nnot working: {', '.join(failed)}" if failed else "\neverything that is needed works")
    return seen


def main(arguments: list[str]) -> int:
    """Prints what each check found; the exit code is 0 if everything that is needed works, else 1."""
    parser = argparse.ArgumentParser(
        prog="flockstep doctor",
        description="Check what works on this machine and, for what does not, say why and what to do.",
        epilog="`ok` works, `note` is optional and missing, `fail` is needed and does not work. "
        "Exit code: 0 if nothing failed, else 1.",
    )
    parser.add_argument("--json", action="store_true", help="one object: flockstep, python, works, checks")
    as_json = parser.parse_args(arguments).json
    findings = list(_checks()) if as_json else _printed(_checks())
    works = all(finding.status != "fail" for finding in findings)
    if as_json:
        heading = {"flockstep": __version__, "python": platform.python_version(), "works": works}
        print(json.dumps({**heading, "checks": [asdict(finding) for finding in findings]}, indent=2))
    return 0 if works else 1


if __name__ == "__main__" and sys.argv[1:2] == ["--rank"]:
    _exchange(*sys.argv[2:])
