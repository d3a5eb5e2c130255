"""What the tests of the built command share.

Tests have two layers. `make test` runs those that are not marked `thorough`, `make test-rest` those that are. A file is in the second
layer if its tests build or install something, need another project's program or package, train until something is learnt, measure, or
repeat for one more rule, task or engine what a test of the first layer shows for another one: `pytestmark = pytest.mark.thorough`.
"""

import functools
import itertools
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


@functools.cache
def engines_of_this_build():
    """Names of all engines, and whether this build can run them."""
    done = subprocess.run([COMMAND, "engines", "--json"], capture_output=True, text=True, check=True, timeout=HANG_S)
    return {engine["name"]: engine["available"] for engine in json.loads(done.stdout)["engines"]}


def skip_unless_built(*names):
    for name in names:
        if not engines_of_this_build().get(name, True):
            pytest.skip(f"{name} is not built")


def engines_of(arguments, workers):
    """The engines that a call names, by --engine, by a launcher or by mpirun."""
    words = [str(word) for word in arguments]
    named = [after for word, after in itertools.pairwise(words) if word == "--engine"]
    return [*named, *(["mesh"] if words[:1] == ["launch"] else []), *(["mpi"] if workers else [])]


def command_line(arguments, workers=0):
    """The command, under mpirun when `workers` is given. Skips the test if this build lacks the engine of the call."""
    skip_unless_built(*engines_of(arguments, workers))
    return [*([*MPIRUN, "-n", str(workers)] if workers else []), COMMAND, *map(str, arguments)]


def expect_documented(code, stdout, stderr):
    """docs/errors.md: a failure has one of a few exit codes, and says in one or two sentences what is wrong."""
    assert code in (1, 2) or 128 < code < 160, (code, stderr)
    assert (stderr or stdout).strip(), f"a failure without a word (exit code {code})"
    assert not re.search(r"Traceback \(most recent call last\)|terminate called", stderr), stderr
    for message in re.findall(r"^flockstep:(.*)", stderr, re.MULTILINE):
        assert message.strip(), stderr
        ours, _, _ = message.partition("torch failed: ")  # then come torch's own words
        assert len(re.split(r"[.!?] +", ours)) <= 2, stderr


def run(*arguments, workers=0, **keywords):
    """Runs the command, under mpirun when `workers` is given, and returns the completed process."""
    done = subprocess.run(
        command_line(arguments, workers),
        capture_output=True,
        text=True,
        timeout=HANG_S,
        stdin=subprocess.DEVNULL,
        **keywords,
    )
    if done.returncode != 0:
        expect_documented(done.returncode, done.stdout, done.stderr)
    return done


def refused(*arguments, names, code=2, **keywords):
    """Runs a call that has to fail with one message, which contains all of `names`. Returns the message."""
    done = run(*arguments, **keywords)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert done.stderr.count("flockstep: ") == 1, done.stderr
    if not keywords.get("workers"):  # mpirun has words of its own
        assert re.fullmatch(r"flockstep: .+\n", done.stderr), done.stderr
    for name in names if isinstance(names, tuple) else (names,):
        assert str(name) in done.stderr, done.stderr
    return done.stderr


def run_json(*arguments, **keywords):
    """The result that the command prints with --json; fails the test if the command does."""
    done = run(*arguments, "--json", **keywords)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


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


@pytest.fixture(scope="session")
def needs():
    """needs("mpi") skips the test where that engine is not built."""
    return skip_unless_built
