"""All tests that need a GPU, on one or more of them: the C++ programs of the build, its command (lab_device.py), and each
*_ddp.py of this folder, averagers.py and sharded.py under torchrun with 1, 2 and 4 ranks.

python tests/cuda/run.py [--workers 1,2,4] [--limit SECONDS] [NAME ...]

FLOCKSTEP_BUILD names the build folder, whose PyTorch package is taken, or else the one that is installed. Any Python with a
CUDA torch will do. Ends with a table, and with 1 if something failed. Without a GPU it says so and ends with 0.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from paths import BUILD, PACKAGE, ROOT, package_is_built

FOLDER = Path(__file__).resolve().parent
TAIL = 40  # lines of a program that failed


@dataclass(frozen=True)
class Test:
    name: str
    workers: int
    command: list[str]


@dataclass(frozen=True)
class Outcome:
    test: Test
    passed: bool
    told: str
    seconds: float

    def cells(self):
        verdict = "passed" if self.passed else "FAILED"
        return [self.test.name, str(self.test.workers), verdict, self.told, f"{self.seconds:.0f} s"]


def why_not():
    """In a sentence, why nothing can run here; or nothing."""
    try:
        import torch.cuda
    except ImportError:
        return f"{sys.executable} has no torch"
    return None if torch.cuda.is_available() else "no CUDA device"


def programs():
    """Those in C++, as far as they are built."""
    folder = BUILD / "bin"
    found = [Test(path.name, 1, [str(path)]) for path in sorted(folder.glob("cuda_*_test"))]
    device, spans = str(folder / "device_test"), str(folder / "algorithms_test")
    modules = ["--workers", "2", "--gtest_filter=DeviceDataParallel*", "--gtest_color=no"]
    if Path(spans).exists():
        found.append(Test("algorithms_test", 1, [spans, "--gtest_filter=*DeviceSpans*"]))
    if Path(device).exists():
        numbers = "--gtest_filter=DeviceExchange*:DeviceAverager*:*Device*Tasks*:*DeviceLoop*"
        found.append(Test("device_test", 1, [device, numbers]))
        found.append(Test("device_test", 2, [device, "--engine", "threads", *modules]))
        if shutil.which("mpirun"):  # over NCCL: to it, each process is a machine of its own, as share_gpu() has it
            mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", "2"]
            alone = "NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 NCCL_SOCKET_IFNAME=lo NCCL_HOSTID=h$OMPI_COMM_WORLD_RANK"
            shell = ["bash", "-c", f'{alone} exec "$0" "$@"']
            found.append(Test("device_test", 2, [*mpirun, *shell, device, "--engine", "mpi", *modules]))
    if (folder / "flockstep").exists():
        found.append(Test("lab_device", 4, [sys.executable, str(FOLDER / "lab_device.py")]))
    return found


def tests(workers, names):
    found = programs()
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
    for path in [*sorted(FOLDER.glob("*_ddp.py")), FOLDER / "averagers.py", FOLDER / "sharded.py"]:
        found += [Test(path.stem, size, [*launcher, str(size), str(path)]) for size in workers]
    return [test for test in found if not names or test.name in names]


def environment():
    package = [str(PACKAGE)] if package_is_built() else []
    before = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([*package, *before])}


def summary(text):
    """How many checks held, of those that a program printed; or tests, of GoogleTest's."""
    checks = re.findall(r"^(ok  |FAIL) ", text, re.MULTILINE)
    if checks:
        return f"{checks.count('ok  ')} of {len(checks)} checks"
    ran = re.search(r"\[=+\] (\d+) tests? from .* ran", text)
    skipped = len(re.findall(r"^\[  SKIPPED \] \S+ \(", text, re.MULTILINE))
    return f"{ran[1]} tests, {skipped} skipped" if ran else "no checks"


def run(test, limit_s):
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            test.command,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=environment(),
            cwd=ROOT,
            start_new_session=True,  # so that at the time limit none of its processes is left behind
        )
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            code = None
        output.seek(0)
        text = output.read()
    told = summary(text) if code is not None else f"not done after {limit_s} s, {summary(text)}"
    outcome = Outcome(test, code == 0, told, time.monotonic() - began)
    print("  ".join(outcome.cells()), flush=True)
    if not outcome.passed:
        lines = text.splitlines()
        for line in [*(line for line in lines if line.startswith("FAIL")), "...", *lines[-TAIL:]]:
            print(f"    {line}")
    return outcome


def table(rows):
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def main():
    parser = argparse.ArgumentParser(description="All tests that need a GPU.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="such as exact_ddp [all]")
    parser.add_argument("--workers", default="1,2,4", help="numbers of ranks [1,2,4]")
    parser.add_argument("--limit", type=float, default=300, metavar="SECONDS", help="of one program [300]")
    chosen = parser.parse_args()
    reason = why_not()
    if reason:
        print(f"skipped: {reason}")
        return 0
    wanted = tests([int(size) for size in chosen.workers.split(",")], chosen.names)
    if not wanted:
        print(f"there is no test of the name {' or '.join(chosen.names)} here")
        return 2
    outcomes = [run(test, chosen.limit) for test in wanted]
    print()
    print(table([["test", "ranks", "outcome", "", "took"], *(outcome.cells() for outcome in outcomes)]))
    failed = sum(not outcome.passed for outcome in outcomes)
    print(f"\n{len(outcomes) - failed} of {len(outcomes)} passed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
