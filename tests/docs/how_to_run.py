"""How to run those code blocks of the pages that cannot simply be pasted, or take too long: the one place that says so.

A block without an entry here is run as it stands. An entry that matches no block, or several, fails a test.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class How:
    """What is special about the block of a page that has this text in it."""

    page: str
    has: str
    skip: str = ""  # why it is not run
    elsewhere: str = ""  # the test that runs it instead
    tested_line: str = ""  # where that test does not name `has`: what it names
    file: str = ""  # the block is this file in the reader's own folder, and a later block runs it
    own: bool = False  # a shell block runs in that folder, not in the root of the repository
    folder: str = "."  # below either of them
    replace: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    prints: str = ""  # a regular expression that is in what a shell block prints
    launched: bool = False  # a Python block that needs `flockstep launch`
    before: str = ""  # what Python or C++ takes for granted
    continues: bool = False  # a Python block that goes on from the one before it


WHEEL = {"elsewhere": "tests/python/test_wheel.py", "tested_line": 'pip("wheel"'}
EXAMPLES = "tests/python/test_examples.py"
INSTALL = "tests/command/test_install.py"
DRAWS = {"FLOCKSTEP_PYTHON": sys.executable}
SLURM = {"SLURM_NNODES": "1", "SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "localhost"}
# In the place of a program that is the reader's own.
SAYS_ITS_PLACE = "sh -c 'echo worker $FLOCKSTEP_RANK of $FLOCKSTEP_WORKERS'"
FASHION = "data/fashion-mnist"
SHORT = "--quick --steps 2 --algorithms mean"

OWN_HEADER = {'#include "math/tempered_mean.h"\n': "\n"}  # the block before

HOW = [
    # Install and build.
    How("README.md", "make wheel", **WHEEL),
    How("README.md", "pip install --no-build-isolation .", **WHEEL),
    How("docs/pytorch.md", "pip install --no-build-isolation .", **WHEEL),
    How("README.md", "make demo", elsewhere="tests/command/test_demo.py", tested_line='"make", "-n", "demo"'),
    How("README.md", "cmake --preset release", skip="the build under test was made so"),
    # Quickstarts.
    How("README.md", 'state = flockstep.register(model, "direction_consensus")', file="train.py"),
    How("README.md", "torchrun --standalone", own=True, prints="worker 3 points against the others"),
    How("README.md", "flockstep compare --task images", replace={"--steps 100": "--steps 10"}),
    How("README.md", "#include <flockstep/torch.h>", file="main.cpp"),
    How("README.md", "project(quickstart", file="CMakeLists.txt"),
    How("README.md", "cmake --install", own=True, prints="4 workers, loss"),
    # The command.
    How("docs/command.md", "--steps 100 --seeds 3", replace={"--steps 100 --seeds 3": "--steps 4 --seeds 1"}),
    How(
        "docs/command.md",
        "--lr 0.1,0.2,0.4 --seeds 3",
        replace={"--workers 4,8": "--workers 2,4", "--lr 0.1,0.2,0.4 --seeds 3": "--lr 0.1,0.2 --seeds 1 --steps 2"},
    ),
    How(
        "docs/command.md",
        "$flockstep platforms",
        replace={
            "--workers 64": "--workers 8",
            "--steps 60": "--steps 4",
            "--workers 1024": "--workers 64",
            "--steps 16": "--steps 4",
            "--quick": "--quick --steps 2",
            "--out machine.xml": "--out machine.xml --megabytes 4 --rounds 1",
        },
    ),
    How("docs/command.md", "$flockstep report runs/first ", environment=DRAWS),
    # Guides.
    How("docs/guides/choose_an_algorithm.md", "--out runs/broken", replace={"--steps 150": "--steps 10"}),
    How("docs/guides/choose_an_algorithm.md", "--out runs/late", replace={"--steps 120": "--steps 10"}),
    How("docs/guides/choose_an_algorithm.md", "--out runs/slow", replace={"--steps 128": "--steps 16"}),
    How(
        "docs/guides/find_a_bad_worker.md",
        "forgotten_sampler.py",
        elsewhere=EXAMPLES,
        tested_line="forgotten_sampler.py",
    ),
    How(
        "docs/guides/find_a_bad_worker.md",
        "flockstep report runs/bad",
        environment=DRAWS,
        prints="worker 2 points against the others",
    ),
    How("docs/guides/find_a_bad_worker.md", "--mean.watch always", prints="worker 2 points against the others"),
    How(
        "docs/guides/run_on_slurm.md",
        "srun torchrun",
        environment=SLURM,
        replace={"per-node 4": "per-node 2", "train.py": "examples/pytorch_gpt/train.py --device cpu --steps 4"},
    ),
    How("docs/guides/run_on_slurm.md", "srun --mpi=pmix", replace={"--steps 4000": "--steps 4"}),
    How(
        "docs/guides/run_on_slurm.md",
        '--hosts "$hosts"',
        environment=SLURM,
        replace={"--hosts": "--address 127.0.0.1 --hosts", "python train.py": SAYS_ITS_PLACE},
        prints="worker 7 of 8",
    ),
    How(
        "docs/guides/run_on_slurm.md",
        "--prefix -- python train.py",
        replace={"python train.py --step-ms 20": SAYS_ITS_PLACE},
        prints="worker 3 of 4",
    ),
    How("docs/guides/train_with_stragglers.md", "--out runs/late", replace={"--steps 120": "--steps 10"}),
    How("docs/guides/train_with_stragglers.md", "straggler.py", elsewhere=EXAMPLES, tested_line='"straggler.py"'),
    How("docs/guides/train_with_stragglers.md", "--out runs/fixed", replace={"--steps 120": "--steps 10"}),
    How(
        "docs/guides/plan_a_cluster.md",
        "--compute 200ms --algorithms mean,adacons",
        replace={"--workers 64": "--workers 16", "--steps 24": "--steps 4"},
    ),
    How(
        "docs/guides/plan_a_cluster.md",
        "--platform nvlink-node",
        replace={"--workers 16,64,256": "--workers 8,16", "--steps 24": "--steps 4"},
    ),
    How(
        "docs/guides/plan_a_cluster.md",
        "--steps 80",
        replace={"--workers 16": "--workers 4", "--steps 80": "--steps 4"},
    ),
    How("docs/guides/plan_a_cluster.md", "flock:groups=nodes", replace={"--steps 24": "--steps 4"}),
    How(
        "docs/guides/plan_a_cluster.md",
        "--out machine.xml",
        replace={"--rounds 3": "--rounds 1 --megabytes 4", "--steps 40": "--steps 4"},
    ),
    How("docs/guides/add_a_rule.md", "Rule tempered_mean(double power, double eps) {", replace=OWN_HEADER),
    How("docs/guides/add_a_rule.md", "AlgorithmRow tempered_mean_row()", replace=OWN_HEADER),
    How("docs/guides/add_an_engine.md", "Stands in for", replace={'#include "engines/shm/backend.h"\n': "\n"}),
    # Integrations.
    How(
        "docs/integrations.md",
        "optimizers=(optimizer, None)",
        continues=True,
        before="from flockstep.integrations.transformers import AveragerCallback; model = GPT2LMHeadModel(model.config)",
    ),
    How(
        "docs/integrations.md",
        "sbatch torchrun.sbatch",
        elsewhere="tests/python/test_job_files.py",
        tested_line=".sbatch",
    ),
    How(
        "docs/integrations.md", "docker build", skip="needs Docker; tests/repository/test_containers.py reads the file"
    ),
    # Elastic runs.
    How(
        "docs/elastic.md",
        "--epochs 10",
        folder="examples/pytorch_elastic",
        replace={"--workers 4": "--workers 2", "--epochs 10": "--steps 20"},
    ),
    How(
        "docs/elastic.md",
        "--hosts gpu1,gpu2",
        replace={"--hosts": "--address 127.0.0.1 --hosts", "python train.py": SAYS_ITS_PLACE},
        prints="worker 7 of 8",
    ),
    How(
        "docs/elastic.md",
        "--join gpu1",
        elsewhere="tests/command/test_launch_secret.py",
        tested_line='["--join", store, "--secret-file", secret]',
    ),
    How(
        "docs/elastic.md",
        "optimizer.incarnation",
        launched=True,
        before="loss_fn, inputs, targets = cross_entropy, torch.randn(4, 1, 8, 8), torch.tensor([1, 2, 3, 4])",
    ),
    How("docs/elastic.md", "./mesh_span", elsewhere=INSTALL, tested_line='"mesh_span"'),
    How("docs/elastic.md", "flock.join(model)", before="const int steps = 4;", replace={"= ...;": "(8);"}),
    # Low communication.
    How("docs/low_communication.md", "--diloco.wait off", replace={"--steps 1280": "--steps 64"}),
    How(
        "docs/low_communication.md",
        "for shard in iid skewed",
        replace={
            "--steps 1280 --seeds 2 --lr 0.00625,0.0125,0.025,0.05,0.1,0.2": "--steps 2 --seeds 1 --lr 0.0125,0.2"
        },
    ),
    How("docs/low_communication.md", "--diloco.rule direction_consensus", replace={"--steps 320": "--steps 32"}),
    How(
        "docs/low_communication.md", "--with diloco", replace={"per-node 4": "per-node 2", "--steps 1024": "--steps 64"}
    ),
    How(
        "docs/low_communication.md",
        "--with local_sgd",
        replace={"per-node 4": "per-node 2", "--steps 967": "--steps 32"},
    ),
    # Gradient rules.
    How(
        "docs/adacons.md",
        "--adacons.beta 0.9",
        replace={
            "train --task images --algorithm adacons": "train --task images --steps 20 --algorithm adacons",
            "train --task images --algorithm direction": "train --task images --steps 60 --algorithm direction",
            "mpirun -n 8": "mpirun -n 4",
        },
    ),
    How("docs/adacons.md", "flockstep::MpiWorker worker", before="std::vector<float> gradient(8);"),
    How("docs/guard.md", "--images.noisy_workers 1", replace={"--steps 150": "--steps 30"}),
    # Using the library. All programs of the page are compiled with the others; these run, too.
    How("docs/cpp.md", "find_package(flockstep REQUIRED)", elsewhere=INSTALL),
    How(
        "docs/cpp.md",
        "find_package(flockstep REQUIRED COMPONENTS torch)",
        elsewhere=INSTALL,
        tested_line='build_example("libtorch_mnist"',
    ),
    How("docs/cpp.md", "FetchContent_MakeAvailable", elsewhere="tests/command/test_as_a_part.py"),
    # Studies, which take hours: their first steps.
    How(
        "docs/papers.md",
        "flockstep study workers",
        replace={
            "study workers": f"study workers {SHORT} --scenario recommendation-8",
            "study batch": f"study batch {SHORT} --scenario recommendation-256",
            "--scenario vision --steps 150": f"--scenario vision {SHORT}",
            "--scenario recommendation\n": f"--scenario recommendation {SHORT}\n",
        },
    ),
    How(
        "docs/papers.md",
        "study wagma-quality --out runs/studies/wagma-quality --scenario images",
        replace={
            "--size small --workers 16 --steps 300 --evaluate-every 100": "--size tiny --workers 4 --steps 2",
            "--lr 0.003,0.006,0.012,0.024,0.048 --seeds 3 --search-seeds 1": "--lr 0.003",
            "--scenario images": f"--scenario images {SHORT}",
            "--scenario navigation": f"--scenario navigation {SHORT}",
        },
    ),
    How(
        "docs/studies.md",
        "study vision",
        replace={"DIR": FASHION, "study vision": f"study vision {SHORT} --scenario late"},
    ),
    How(
        "docs/studies.md",
        "mpirun -n 8",
        replace={
            "DIR": FASHION,
            "--size small": "--size tiny",
            "--steps 50": "--steps 2",
            "mpirun -n 8": "mpirun -n 4",
        },
    ),
    How(
        "docs/studies.md",
        "study recommendation",
        replace={
            "study recommendation --jobs 2": f"study recommendation {SHORT} --scenario skewed",
            "--jobs 2": "--quick --steps 2",
            "mean,adacons,direction_consensus,local_sgd,dpsgd,sgp,adpsgd,wagma,flock": "mean,flock",
            "--scenario minus-five": "--scenario minus-five --algorithms mean",
        },
    ),
    How(
        "docs/studies.md",
        'R18="--task',
        replace={
            "--data DIR --device cuda": "",
            "--vision.depth 18 --vision.width 64 --vision.stem small": "--vision.depth 8 --vision.width 4",
            "--steps 150 --evaluate-every 75 --lr 0.05,0.1,0.2": "--steps 1 --evaluate-every 1 --lr 0.05,0.1",
            "--seeds 2": "--seeds 1",
            "--algorithms mean,adacons,direction_consensus": "--algorithms mean",
            "--adacons.magnitude mean_norm --direction_consensus.magnitude mean_norm": "",
            "--workers 8 --batch 256": "--workers 4 --batch 8",
        },
    ),
    How(
        "docs/studies.md",
        "--faulty 2",
        replace={"150 --layers 10 --width 512 --context 128": "2 --layers 1 --width 32 --context 16", "cuda": "cpu"},
    ),
    How(
        "docs/studies.md",
        "--straggler 2x100ms",
        replace={
            "DIR --device cuda --workers 8 --batch 256 --steps 300": f"{FASHION} --workers 2 --batch 4 --steps 2",
            "--vision.width 64": "--vision.width 8",
        },
    ),
    How(
        "docs/studies.md",
        "study overlap",
        replace={"study overlap ": "study overlap --quick --steps 2 ", "--steps 320": ""},
    ),
]
