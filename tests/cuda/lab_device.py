"""The laboratory's command with --device cuda, against the same runs on the CPU: tasks, algorithms, engines, checkpoints, errors.

python tests/cuda/lab_device.py [--device cpu]

FLOCKSTEP_BUILD names the build folder. Prints a line for each check, and ends with 1 if one fails. With --device cpu it compares
the CPU with itself, which tries the program out.
"""

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from paths import BUILD

COMMAND = str(BUILD / "bin" / "flockstep")
DEVICE = sys.argv[sys.argv.index("--device") + 1] if "--device" in sys.argv else "cuda"
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", "2"]
# Else convolutions and LSTMs round to ten bits, and policies take other actions.
ENVIRONMENT = {**os.environ, "NVIDIA_TF32_OVERRIDE": "0"}
TASKS = {"vision": 1e-3, "translation": 1e-3, "recommendation": 1e-3, "detection": 1e-2, "navigation": 5e-2}
AVERAGERS = ["local_sgd", "local_sgd:overlap=on", "post_local_sgd", "dpsgd", "sgp", "adpsgd", "swarm", "wagma", "flock"]
AVERAGERS += ["flock:overlap=on"]
OTHERS = ["mean", "adacons", "eager_solo", "eager_majority"]
LEARNED = 0.4  # accuracy after 100 steps with four workers: about 0.7
failures = 0


def check(name, holds, told=""):
    global failures
    failures += int(not holds)
    print(f"{'ok  ' if holds else 'FAIL'} {name} {told}", flush=True)


def call(*arguments, launcher=()):
    return subprocess.run(
        [*launcher, COMMAND, *map(str, arguments)], capture_output=True, text=True, env=ENVIRONMENT, timeout=280
    )


def result(*arguments, launcher=()):
    """What --json prints; nothing where it failed, which is a check of its own."""
    done = call(*arguments, "--json", launcher=launcher)
    if done.returncode != 0:
        check(" ".join(map(str, arguments)), False, f"ended with {done.returncode}: {done.stderr[-400:]}")
        return None
    return json.loads(done.stdout)


def near(a, b, tolerance):
    return math.isfinite(a) and abs(a - b) <= tolerance * (1 + abs(b))


def compare_losses(name, there, here, tolerance):
    if there and here:
        a, b = there["train_loss"], here["train_loss"]
        check(name, near(a, b, tolerance) and there["device"] == DEVICE, f"loss {a:.6g}, on the CPU {b:.6g}")


def tasks_train_alike():
    for task, tolerance in TASKS.items():
        run = ["train", "--task", task, "--size", "tiny", "--workers", 2, "--steps", 6, "--evaluate-every", 6]
        compare_losses(f"{task} trains alike", result(*run, "--device", DEVICE), result(*run), tolerance)


def replicas_stay_equal():
    run = ["train", "--task", "vision", "--workers", 4, "--steps", 20, "--device", DEVICE, "--algorithm", "mean"]
    told = result(*run)
    check("mean leaves equal replicas", told and told["replicas_equal"])


def algorithms_learn():
    names = ",".join([*OTHERS, *AVERAGERS])
    run = [
        "compare",
        "--task",
        "vision",
        "--workers",
        4,
        "--steps",
        100,
        "--evaluate-every",
        100,
        "--algorithms",
        names,
    ]
    told = result(*run, "--device", DEVICE)
    for row in told["cases"][0]["rows"] if told else []:
        quality = row["quality"]["mean"]
        check(f"{row['algorithm']} learns with four workers on threads", quality > LEARNED, f"accuracy {quality:.3f}")


def virtual_time_is_the_same():
    run = ["train", "--engine", "sim", "--task", "vision", "--workers", 3, "--steps", 6, "--evaluate-every", 3]
    for name in ("mean", "flock", "local_sgd"):
        there, here = (result(*run, "--algorithm", name, "--device", device) for device in (DEVICE, "cpu"))
        compare_losses(f"{name} on sim trains alike", there, here, 1e-3)
        if there and here:
            check(f"{name} on sim takes the same time", there["time_s"] == here["time_s"], f"{there['time_s']:.6g} s")


def processes_train_alike():
    if not shutil.which("mpirun"):
        return
    run = ["train", "--task", "vision", "--steps", 8]
    on_gpu = result(*run, "--device", DEVICE, launcher=MPIRUN)
    compare_losses("mean under mpirun trains alike", on_gpu, result(*run, "--workers", 2), 1e-3)
    for name in ("flock", "wagma"):
        told = result(
            "train", "--task", "vision", "--steps", 100, "--algorithm", name, "--device", DEVICE, launcher=MPIRUN
        )
        check(
            f"{name} learns under mpirun",
            told and told["quality"] > LEARNED,
            told and f"accuracy {told['quality']:.3f}",
        )


def runs_go_on_elsewhere():
    for name in ("mean", "local_sgd"):
        run = ["train", "--task", "vision", "--vision.schedule", "constant", "--workers", 3, "--algorithm", name]
        run += ["--checkpoint-every", 4, "--evaluate-every", 8]
        losses = {}
        for first, second in (("cpu", "cpu"), ("cpu", DEVICE), (DEVICE, "cpu"), (DEVICE, DEVICE)):
            with tempfile.TemporaryDirectory() as folder:
                out = ["--out", Path(folder) / "run"]
                result(*run, *out, "--steps", 4, "--device", first)
                told = result(*run, *out, "--steps", 8, "--device", second, "--resume")
                losses[first, second] = told["train_loss"] if told else math.nan
        reference = losses["cpu", "cpu"]
        for (first, second), loss in losses.items():
            check(f"{name} goes on from {first} to {second}", near(loss, reference, 2e-3), f"loss {loss:.6g}")


def one_sentence(name, arguments, sentence):
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        done = call(*arguments, "--out", out)
        lines = done.stderr.strip().splitlines()
        check(name, done.returncode != 0 and sentence in done.stderr and len(lines) == 1, lines[-1] if lines else "")
        return out.exists()


def errors_are_sentences():
    if DEVICE == "cpu":
        return
    large = ["train", "--task", "vision", "--vision.depth", 18, "--vision.width", 64, "--vision.stem", "small"]
    large += ["--device", "cuda", "--workers", 2, "--batch", 80000, "--steps", 1]
    one_sentence("too little memory", large, "the GPU has not enough memory for this run: use fewer --workers")
    wrote = one_sentence("no such GPU", ["train", "--task", "vision", "--device", "cuda:99"], "there is no cuda:99")
    check("a refused run writes nothing", not wrote)
    told = result("train", "--task", "vision", "--steps", 2, "--device", "auto")
    check("auto takes the GPU", told and told["device"] == "cuda")


def main():
    if DEVICE != "cpu" and call("train", "--task", "vision", "--steps", 1, "--device", DEVICE).returncode != 0:
        print(call("train", "--task", "vision", "--steps", 1, "--device", DEVICE).stderr.strip())
        return 1
    for part in (
        tasks_train_alike,
        replicas_stay_equal,
        algorithms_learn,
        virtual_time_is_the_same,
        processes_train_alike,
        runs_go_on_elsewhere,
        errors_are_sentences,
    ):
        part()
    print(f"{failures} checks failed" if failures else "all checks hold")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
