"""What the tests of the built command share.

Tests have two layers. `make test` runs those that are not marked `thorough`, `make test-rest` those that are. A file is in the second
layer if its tests build or install something, need another project's program or package, train until something is learnt, measure, or
repeat for one more rule, task or engine what a test of the first layer shows for another one: `pytestmark = pytest.mark.thorough`.
"""

import functools
import json
import os
import re
import subprocess
import sys

import pytest
from paths import BUILD, HANG_S, folder_to_import_from
from progress import Progress

sys.path.insert(0, str(folder_to_import_from()))
os.environ["FLOCKSTEP_PROGRESS_S"] = "0"  # only on a slow machine would there be such lines
COMMAND = BUILD / "bin" / "flockstep"
# What mpirun needs to run as root, with more workers than cores, and with an agent beside each worker.
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]


# With several processes (-n), what takes longest begins first.
LONGEST_FIRST = [
    "test_wheel",
    "test_as_a_part",
    "test_install",
    "test_blocks",
    "test_examples",
    "test_transformers",
    "test_lightning",
    "test_tasks",
    "test_bench",
    "test_rules",
    "test_engine",
    "test_hooks",
    "test_sketched",
    "test_elastic",
    "test_report",
    "test_demo",
]


def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Progress())


def pytest_collection_modifyitems(items):
    order = {name: place for place, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: order.get(item.path.stem, len(order)))


def pytest_ignore_collect(collection_path, config):
    """Leaves files of the second layer alone in the first one, which does without the packages that they import."""
    if config.option.markexpr != "not thorough" or not re.fullmatch(r"test_\w+\.py", collection_path.name):
        return None
    return True if re.search(r"^pytestmark = .*mark\.thorough", collection_path.read_text(), re.MULTILINE) else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from xdist.scheduler import LoadScopeScheduling

    @functools.cache
    def shares_fixtures(file):
        return 'scope="module"' in (config.rootpath / file).read_text()

    class BySharedFixtures(LoadScopeScheduling):
        """Tests of a file stay in one process if they share what takes long to make."""

        def _split_scope(self, nodeid):
            file = nodeid.split("::")[0]
            return file if shares_fixtures(file) else nodeid

    config.option.loadscopereorder = False
    return BySharedFixtures(config, log)


def run(*arguments, workers=0, **keywords):
    """Runs the command, under mpirun when `workers` is given, and returns the completed process."""
    launcher = [*MPIRUN, "-n", str(workers)] if workers else []
    return subprocess.run(
        [*launcher, COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        stdin=subprocess.DEVNULL,
        **keywords,
    )


def run_json(*arguments, **keywords):
    """The result that the command prints with --json; fails the test if the command does."""
    done = run(*arguments, "--json", **keywords)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="session")
def engines():
    """The engines that this build can run."""
    listed = run_json("engines")["engines"]
    return {engine["name"] for engine in listed if engine["available"]}


@pytest.fixture(scope="session")
def has_torch():
    """Whether this build has the tasks that need torch."""
    return next(task for task in run_json("tasks") if task["name"] == "vision")["available"]


@pytest.fixture(scope="session")
def torch(has_torch):
    """Skips the test where torch is not built."""
    if not has_torch:
        pytest.skip("torch is not built")


@pytest.fixture
def without_pictures(monkeypatch):
    """Of a comparison: to draw its report takes longer than to make its runs."""
    monkeypatch.setenv("FLOCKSTEP_PYTHON", "/bin/true")


@pytest.fixture
def needs(engines):
    """needs("mpi") skips the test where that engine is not built."""

    def check(*names):
        for name in names:
            if name not in engines:
                pytest.skip(f"{name} is not built")

    return check
