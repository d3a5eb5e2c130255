"""Model hashes of short runs: every engine with every algorithm on `linear`, and every task. A change that only reshapes the
code leaves them as they are.

model_hashes.py > before.json             with the command of build/release (FLOCKSTEP_BUILD: another build folder)
model_hashes.py --against before.json     says what differs; exit 1 if anything does

Hashes belong to one machine: its SIMD width, its torch. Averaging that waits for nobody has a fixed result only where time is
virtual or logical, so on mpi and c10d it is left out.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / os.environ.get("FLOCKSTEP_BUILD", "build/release")
COMMAND = BUILD / "bin" / "flockstep"
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", "3"]
LINEAR = ["--task", "linear", "--steps", "30", "--linear.dimension", "203", "--bucket-kib", "1"]
NOBODY_WAITS = {"eager_solo", "eager_majority", "adpsgd", "swarm", "wagma", "flock"}
OVER_C10D = """
import hashlib, torch, torch.distributed as dist, flockstep
dist.init_process_group("gloo")
for name in ("weighted_mean", "normalized_mean", "adacons", "adasum", "direction_consensus", "geometric_median"):
    torch.manual_seed(1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(203, 7))
    getattr(flockstep, name)(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    torch.manual_seed(2 + dist.get_rank())
    for _ in range(10):
        optimizer.zero_grad()
        model(torch.randn(8, 203)).square().mean().backward()
        optimizer.step()
    numbers = b"".join(part.detach().numpy().tobytes() for part in model.parameters())
    if dist.get_rank() == 0:
        print(name, hashlib.sha256(numbers).hexdigest()[:16])
dist.destroy_process_group()
"""


def listed(what: str, key: str | None = None) -> list[str]:
    rows = json.loads(subprocess.run([COMMAND, what, "--json"], check=True, capture_output=True).stdout)
    return [row["name"] for row in (rows[key] if key else rows) if row.get("available", True)]


def hash_of(*arguments: str, launcher: tuple[str, ...] = ()) -> str:
    call = [*launcher, COMMAND, "train", *arguments, "--json"]
    done = subprocess.run(call, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, call))}: {done.stderr}")
    return str(json.loads(done.stdout)["model_hash"])


def on_linear(engines: list[str], algorithms: list[str]) -> dict[str, str]:
    found = {}
    calls = {"self": ["--workers", "1"], "threads": ["--workers", "3", "--deterministic"], "sim": ["--workers", "3"]}
    for engine, more in calls.items():
        for algorithm in algorithms if engine in engines else []:
            found[f"{engine} {algorithm}"] = hash_of(*LINEAR, "--engine", engine, *more, "--algorithm", algorithm)
    for algorithm in sorted(set(algorithms) - NOBODY_WAITS) if "mpi" in engines else []:
        found[f"mpi {algorithm}"] = hash_of(*LINEAR, "--algorithm", algorithm, launcher=tuple(MPIRUN))
    return found


def of_tasks(tasks: list[str]) -> dict[str, str]:
    small = ["--workers", "2", "--steps", "3", "--deterministic"]
    return {
        f"{task} {name}": hash_of("--task", task, *small, "--algorithm", name)
        for task in tasks
        for name in ("mean", "wagma")
    }


def over_c10d() -> dict[str, str]:
    if not list(BUILD.glob("python/flockstep/_native*.so")):
        return {}
    with tempfile.NamedTemporaryFile("w", suffix=".py") as program:
        program.write(OVER_C10D)
        program.flush()
        torchrun = [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node",
            "3",
            program.name,
        ]
        environment = {**os.environ, "PYTHONPATH": str(BUILD / "python"), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(torchrun, check=True, capture_output=True, text=True, env=environment)
    return {f"c10d {name}": found for name, found in (line.split() for line in done.stdout.splitlines())}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="what an earlier call printed")
    chosen = parser.parse_args()
    found = on_linear(listed("engines", "engines"), listed("algorithms")) | of_tasks(listed("tasks")) | over_c10d()
    if not chosen.against:
        print(json.dumps(found, indent=1))
        return 0
    before = json.loads(chosen.against.read_text())
    different = [name for name in before | found if before.get(name) != found.get(name)]
    print(
        "\n".join(
            [
                *(f"{name}: {before.get(name)} -> {found.get(name)}" for name in different),
                f"{len(before)} before, {len(found)} now, {len(different)} differ",
            ]
        )
    )
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
