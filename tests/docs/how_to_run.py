"""How to run those code blocks of the pages that cannot simply be pasted, or take too long: the one place that says so.

A block without an entry here is run as it stands. An entry that matches no block, or several, fails a test.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from paths import BUILD, PACKAGE, ROOT


@dataclass(frozen=True)
class How:
    """What is special about the block of a page that has this text in it."""

    has: str
    page: str = ""
    skip: str = ""  # why it is not run
    elsewhere: str = ""  # the test that runs it instead
    file: str = ""  # the block is this file in the reader's own folder, and a later block runs it
    own: bool = False  # a shell block runs in that folder, not in the root of the repository
    folder: str = "."  # below either of them
    change: Mapping[str, str] = field(default_factory=dict)  # what is replaced in the text, and by what
    environment: Mapping[str, str] = field(default_factory=dict)
    prints: str = ""  # a regular expression that is in what a shell block prints
    launched: bool = False  # a Python block that needs `flockstep launch`
    before: str = ""  # what Python or C++ takes for granted
    continues: bool = False  # a Python block that goes on from the one before it


WHEEL = {"elsewhere": "tests/python/test_wheel.py"}
EXAMPLES = "tests/python/test_examples.py"
INSTALL = "tests/command/test_install.py"
DRAWS = {"FLOCKSTEP_PYTHON": sys.executable}
SLURM = {"SLURM_NNODES": "1", "SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "localhost"}
# In the place of a program that is the reader's own.
SAYS_ITS_PLACE = "sh -c 'echo worker $FLOCKSTEP_RANK of $FLOCKSTEP_WORKERS'"
# What the first block of docs/development.md exports, and what mpirun needs to run as root.
BUILT = {
    "PATH": os.pathsep.join([str(BUILD / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]),
    "PYTHONPATH": os.pathsep.join([str(PACKAGE), str(ROOT / "tests")]),
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}
OWN_BUILD = {"skip": "takes a build of its own"}
READERS_DATA = {"skip": "--data DIR names a folder of the reader's"}
SHORT = "--quick --steps 2 --algorithms mean"

OWN_HEADER = {'#include "math/tempered_mean.h"\n': "\n"}  # the block before

_BY_PAGE = {
    "README.md": [
        How("make wheel", **WHEEL),
        How("pip install --no-build-isolation .", **WHEEL),
        How("make demo", elsewhere="tests/command/test_demo.py"),
        How("cmake --preset release", skip="the build under test was made so"),
        How('state = flockstep.register(model, "direction_consensus")', file="train.py"),
        How("torchrun --standalone", own=True, prints="worker 3 points against the others"),
        How("flockstep compare --task images", change={"--steps 100": "--steps 10"}),
        How("#include <flockstep/torch.h>", file="main.cpp"),
        How("project(quickstart", file="CMakeLists.txt"),
        How("cmake --install", own=True, prints="4 workers, loss"),
    ],
    "docs/pytorch.md": [How("pip install --no-build-isolation .", **WHEEL)],
    "docs/command.md": [
        How("--steps 100 --seeds 3", change={"--steps 100 --seeds 3": "--steps 4 --seeds 1"}),
        How(
            "--lr 0.1,0.2,0.4 --seeds 3",
            change={"--workers 4,8": "--workers 2,4", "--lr 0.1,0.2,0.4 --seeds 3": "--lr 0.1,0.2 --seeds 1 --steps 2"},
        ),
        How(
            "$flockstep platforms",
            change={
                "--workers 64": "--workers 8",
                "--steps 60": "--steps 4",
                "--workers 1024": "--workers 64",
                "--steps 16": "--steps 4",
                "--quick": "--quick --steps 2",
                "--out machine.xml": "--out machine.xml --megabytes 4 --rounds 1",
            },
        ),
        How("$flockstep report runs/first ", environment=DRAWS),
    ],
    "docs/guides/choose_an_algorithm.md": [
        How("--out runs/broken", change={"--steps 150": "--steps 10"}),
        How("--out runs/late", change={"--steps 120": "--steps 10"}),
        How("--out runs/slow", change={"--steps 128": "--steps 16"}),
    ],
    "docs/guides/find_a_bad_worker.md": [
        How("forgotten_sampler.py", elsewhere=EXAMPLES),
        How("flockstep report runs/bad", environment=DRAWS, prints="worker 2 points against the others"),
        How("--mean.watch always", prints="worker 2 points against the others"),
    ],
    "docs/guides/run_on_slurm.md": [
        How(
            "srun torchrun",
            environment=SLURM,
            change={"per-node 4": "per-node 2", "train.py": "examples/pytorch_gpt/train.py --device cpu --steps 4"},
        ),
        How("srun --mpi=pmix", change={"--steps 4000": "--steps 4"}),
        How(
            '--hosts "$hosts"',
            environment=SLURM,
            change={"--hosts": "--address 127.0.0.1 --hosts", "python train.py": SAYS_ITS_PLACE},
            prints="worker 7 of 8",
        ),
        How(
            "--prefix -- python train.py",
            change={"python train.py --step-ms 20": SAYS_ITS_PLACE},
            prints="worker 3 of 4",
        ),
    ],
    "docs/guides/train_with_stragglers.md": [
        How("--out runs/late", change={"--steps 120": "--steps 10"}),
        How("straggler.py", elsewhere=EXAMPLES),
        How("--out runs/fixed", change={"--steps 120": "--steps 10"}),
    ],
    "docs/guides/plan_a_cluster.md": [
        How(
            "--compute 200ms --algorithms mean,adacons",
            change={"--workers 64": "--workers 16", "--steps 24": "--steps 4"},
        ),
        How("--platform nvlink-node", change={"--workers 16,64,256": "--workers 8,16", "--steps 24": "--steps 4"}),
        How("--steps 80", change={"--workers 16": "--workers 4", "--steps 80": "--steps 4"}),
        How("flock:groups=nodes", change={"--steps 24": "--steps 4"}),
        How("--out machine.xml", change={"--rounds 3": "--rounds 1 --megabytes 4", "--steps 40": "--steps 4"}),
    ],
    "docs/guides/add_a_rule.md": [
        How("Rule tempered_mean(double power, double eps) {", change=OWN_HEADER),
        How("AlgorithmRow tempered_mean_row()", change=OWN_HEADER),
    ],
    "docs/development.md": [
        How("ninja -C build/release math_test", environment=BUILT, prints="PASSED"),
        How("engines_test --engine threads", environment=BUILT, prints="100% tests passed"),
        How("pytest -q", environment=BUILT, prints="passed"),
        How("hooks_program.py", environment=BUILT, prints="OUTCOME"),
        How("build/core", **OWN_BUILD),
        How("py-spy dump", skip="needs a process to look at"),
        How("gdb --args engines_test", skip="needs gdb and a terminal"),
        How("gdb --args python", skip="needs gdb and a terminal"),
        How(
            "explorer --seeds",
            environment=BUILT,
            change={"0..9999": "0..99", "| less": "| tail -n 3"},
            prints="runs a second",
        ),
        How("--preset tsan", **OWN_BUILD),
    ],
    "docs/guides/add_an_engine.md": [How("Stands in for", change={'#include "engines/shm/backend.h"\n': "\n"})],
    "docs/integrations.md": [
        How(
            "optimizers=(optimizer, None)",
            continues=True,
            before="from flockstep.integrations.transformers import AveragerCallback; model = GPT2LMHeadModel(model.config)",
        ),
        How("sbatch torchrun.sbatch", elsewhere="tests/python/test_job_files.py"),
        How("docker build", skip="needs Docker; tests/repository/test_containers.py reads the file"),
    ],
    "docs/elastic.md": [
        How(
            "--epochs 10",
            folder="examples/pytorch_elastic",
            change={"--workers 4": "--workers 2", "--epochs 10": "--steps 20"},
        ),
        How(
            "--hosts gpu1,gpu2",
            change={"--hosts": "--address 127.0.0.1 --hosts", "python train.py": SAYS_ITS_PLACE},
            prints="worker 7 of 8",
        ),
        How("--join gpu1", elsewhere="tests/command/test_launch_secret.py"),
        How(
            "optimizer.incarnation",
            launched=True,
            before="loss_fn, inputs, targets = cross_entropy, torch.randn(4, 1, 8, 8), torch.tensor([1, 2, 3, 4])",
        ),
        How("./mesh_span", elsewhere=INSTALL),
        How("flock.join(model)", before="const int steps = 4;", change={"= ...;": "(8);"}),
    ],
    "docs/low_communication.md": [
        How("--diloco.wait off", change={"--steps 1280": "--steps 64"}),
        How(
            "for shard in iid skewed",
            change={"1280 --seeds 2 --lr 0.00625,0.0125,0.025,0.05,0.1": "2 --seeds 1 --lr 0.0125"},
        ),
        How("--diloco.rule direction_consensus", change={"--steps 320": "--steps 32"}),
        How("--with diloco", change={"per-node 4": "per-node 2", "--steps 1024": "--steps 64"}),
        How("--with local_sgd", change={"per-node 4": "per-node 2", "--steps 967": "--steps 32"}),
    ],
    "docs/adacons.md": [
        How(
            "--adacons.beta 0.9",
            change={
                "train --task images --algorithm adacons": "train --task images --steps 20 --algorithm adacons",
                "train --task images --algorithm direction": "train --task images --steps 60 --algorithm direction",
                "mpirun -n 8": "mpirun -n 4",
            },
        ),
        How("flockstep::MpiWorker worker", before="std::vector<float> gradient(8);"),
    ],
    "docs/guard.md": [How("--images.noisy_workers 1", change={"--steps 150": "--steps 30"})],
    "docs/cpp.md": [
        How("find_package(flockstep REQUIRED)", elsewhere=INSTALL),
        How("find_package(flockstep REQUIRED COMPONENTS torch)", elsewhere=INSTALL),
        How("FetchContent_MakeAvailable", elsewhere="tests/command/test_as_a_part.py"),
    ],
    "docs/papers.md": [
        How(
            "flockstep study workers",
            change={
                "study workers": f"study workers {SHORT} --scenario recommendation-8",
                "study batch": f"study batch {SHORT} --scenario recommendation-256",
                "--scenario vision --steps 150": f"--scenario vision {SHORT}",
                "--scenario recommendation\n": f"--scenario recommendation {SHORT}\n",
            },
        ),
        How(
            "study wagma-quality --out runs/studies/wagma-quality --scenario images",
            change={
                "--size small --workers 16 --steps 300 --evaluate-every 100": "--size tiny --workers 4 --steps 2",
                "--lr 0.003,0.006,0.012,0.024,0.048 --seeds 3 --search-seeds 1": "--lr 0.003",
                "--scenario images": f"--scenario images {SHORT}",
                "--scenario navigation": f"--scenario navigation {SHORT}",
            },
        ),
    ],
    "docs/studies.md": [
        How("study vision", **READERS_DATA),
        How("mpirun -n 8", **READERS_DATA),
        How(
            "study recommendation",
            change={
                "study recommendation --jobs 2": f"study recommendation {SHORT} --scenario skewed",
                "--jobs 2": "--quick --steps 2",
                "mean,adacons,direction_consensus,local_sgd,dpsgd,sgp,adpsgd,wagma,flock": "mean,flock",
                "--scenario minus-five": "--scenario minus-five --algorithms mean",
            },
        ),
        How('R18="--task', **READERS_DATA),
        How(
            "--faulty 2",
            change={"150 --layers 10 --width 512 --context 128": "2 --layers 1 --width 32 --context 16", "cuda": "cpu"},
        ),
        How("--straggler 2x100ms", **READERS_DATA),
        How("study overlap", change={"study overlap ": "study overlap --quick --steps 2 ", "--steps 320": ""}),
    ],
}
HOW = [replace(how, page=page) for page, hows in _BY_PAGE.items() for how in hows]
