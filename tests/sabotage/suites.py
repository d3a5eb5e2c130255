"""Which tests could notice a fault in a file, and in which order they are asked."""

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from copied import Copy

# As in src/CMakeLists.txt and lab/CMakeLists.txt.
LAYERS = ["base", "math", "kernels", "protocol", "engines", "runtime", "algorithms", "telemetry", "session", "api"]
LAYERS += ["supervisor", "torch", "train", "tasks", "runs", "compare", "study", "bench", "command", "python"]


# What the names of entries begin with that run on one engine.
ENGINES = {"self", "threads", "sim", "mpi", "mesh", "c10d"}


class Program(NamedTuple):
    """A program of C++ tests: the folder of its sources, the layers that it is about, and the last one that it reaches."""

    name: str
    folder: str
    about: list[str]
    last: str


# In the order in which they are asked: what is quick and near to the core first.
PROGRAMS = [
    Program("math_test", "math", ["math"], "math"),
    Program("kernels_test", "kernels", ["kernels"], "kernels"),
    Program("protocol_test", "protocol", ["protocol"], "protocol"),
    Program("supervisor_test", "supervisor", ["supervisor"], "supervisor"),
    Program("session_test", "session", ["session"], "session"),
    Program("runtime_test", "runtime", ["runtime"], "runtime"),
    Program("simulation_test", "simulation", [], "runtime"),
    Program("explorer", "simulation", ["protocol", "runtime"], "runtime"),
    Program("mpi_worker_test", "engines", [], "api"),
    Program("engines_test", "engines", ["engines"], "engines"),
    Program("algorithms_test", "algorithms", ["algorithms", "api", "session", "runtime"], "api"),
    Program("torch_test", "torch", ["torch"], "torch"),
    Program("device_test", "device", [], "torch"),
    Program("train_test", "train", ["telemetry", "train"], "train"),
    Program("base_test", "base", ["base"], "base"),
    Program("tasks_test", "tasks", ["tasks"], "tasks"),
    Program("compare_test", "compare", ["compare"], "compare"),
    Program("runs_test", "runs", ["runs"], "runs"),
    Program("study_test", "study", ["study"], "study"),
    Program("bench_test", "bench", ["bench"], "bench"),
]

# Python tests by the beginning of the file that has the fault; all that match are asked, in this order.
PYTHON = [
    ("src/engines/mpi", "command/test_mpi_failures.py command/test_many_workers.py"),
    ("src/engines/sim", "command/test_sim.py command/test_platforms.py"),
    ("src/engines/c10d", "python/test_engine.py python/test_lost_peer.py"),
    ("src/engines/mesh", "command/test_launched_train.py command/test_early_end.py python/test_elastic.py"),
    ("src/supervisor", "command/test_launch.py command/test_launch_hosts.py command/test_launch_secret.py"),
    ("src/supervisor", "command/test_generations.py python/test_launch.py"),
    (
        "src/telemetry",
        "command/test_runs.py command/test_step_times.py command/test_report_traces.py python/test_telemetry.py",
    ),
    ("src/session", "command/test_early_end.py command/test_tasks.py python/test_averagers_checkpoint.py"),
    ("src/torch", "python/test_hooks.py python/test_sketched.py python/test_sharded.py python/test_scaling.py"),
    ("src/torch", "python/test_averagers_results.py python/test_averagers_ddp.py python/test_averagers_checkpoint.py"),
    ("src/torch", "python/test_averagers_join.py python/test_averagers_exit.py python/test_averagers_optimizer.py"),
    ("src/torch", "python/test_telemetry.py python/test_guarded.py"),
    ("src/", "python/test_rules.py python/test_hooks.py python/test_averagers_results.py python/test_elastic.py"),
    ("src/", "command/test_rules.py command/test_tasks.py command/test_same_bits.py"),
]


class Entry(NamedTuple):
    name: str
    command: list[str]
    environment: dict[str, str]


class Suite(NamedTuple):
    name: str
    targets: list[str]
    tests: list[str]  # files or folders of the tree, whose change asks for another run
    command: list[str]  # empty: the entries of ctest that run the program
    folder: str = ""  # of the fault: an engine's entries come first, and those of other engines are left out

    def entries(self, copy: Copy) -> list[Entry]:
        if self.command:
            return [Entry(self.name, self.command, {})]
        listed = subprocess.run(
            ["ctest", "--test-dir", copy.release, "--show-only=json-v1"], check=True, capture_output=True, text=True
        )
        found = []
        for test in json.loads(listed.stdout)["tests"]:
            properties: dict[str, Any] = {each["name"]: each["value"] for each in test.get("properties", [])}
            command = test.get("command", [])
            if any(Path(word).name == self.name for word in command) and "PASS_REGULAR_EXPRESSION" not in properties:
                failing_fast = ["--gtest_fail_fast"] if "--gtest_brief=1" in command else []
                environment = dict(each.split("=", 1) for each in properties.get("ENVIRONMENT", []))
                found.append(Entry(test["name"], [*command, *failing_fast], environment))
        reaching = [
            each
            for each in found
            if self.folder not in ENGINES or each.name.split(".")[0] not in ENGINES - {self.folder}
        ]
        return sorted(reaching, key=lambda entry: self.folder not in entry.name)


def suites_for(file: str, layer: str, target: str, test: str) -> list[Suite]:
    """The test that is known to catch it, then the programs about its layer, those of later layers, and the Python tests."""
    suites = []
    if test:
        command = shlex.split(test)
        named = [word for word in command if word.startswith("tests/")]
        program = next((each for each in PROGRAMS if each.name in command), None)
        suites.append(Suite(test, [target], named or [f"tests/{program.folder if program else 'simulation'}"], command))
    reaching = [each for each in PROGRAMS if LAYERS.index(each.last) >= LAYERS.index(layer)]
    for program in sorted(reaching, key=lambda each: layer not in each.about):
        suites.append(Suite(program.name, [program.name], [f"tests/{program.folder}"], [], Path(file).parts[-2]))
    names = [f"tests/{name}" for start, listed in PYTHON if file.startswith(start) for name in listed.split()]
    for name in dict.fromkeys(names):
        command = ["python", "-m", "pytest", "-x", "-q", "-n", "2", "-p", "no:cacheprovider", name]
        targets = ["flockstep_command", "flockstep_native", *(["conformance_c10d"] if "test_engine" in name else [])]
        suites.append(Suite(name, targets, [name], command))
    return suites
