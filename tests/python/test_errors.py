"""flockstep.Error: what it knows, on whichever way it comes. How it comes out of backward is with the gradient rules."""

import copy
import pickle
import subprocess
import sys

import flockstep
import pytest
from launching import environment
from paths import HANG_S

# Each class, its code, and what Python calls such a case.
CLASSES = [
    (flockstep.BadInputError, "bad_input", ValueError),
    (flockstep.BadTypeError, "bad_input", TypeError),
    (flockstep.MismatchError, "mismatch", RuntimeError),
    (flockstep.DeadlineExceededError, "deadline", TimeoutError),
    (flockstep.PeerLostError, "peer_lost", RuntimeError),
    (flockstep.UnavailableError, "unavailable", RuntimeError),
    (flockstep.BadFileError, "bad_file", OSError),
]
of_every_class = pytest.mark.parametrize(("kind", "code", "pythons"), CLASSES)


def told(error):
    return type(error), str(error), error.code, error.engine, error.rank


@of_every_class
def test_an_error_has_a_code_and_is_what_python_has_for_it(kind, code, pythons):
    assert issubclass(kind, flockstep.Error)
    assert issubclass(kind, RuntimeError)
    assert issubclass(kind, pythons)
    assert issubclass(kind, flockstep.BadInputError) == (code == "bad_input")
    assert told(kind("no", rank=3)) == (kind, "no", code, "", 3)
    assert kind("no").rank is None, "there is no process group here"


def test_every_public_exception_is_one_of_these_and_ends_in_error():
    public = [getattr(flockstep, name) for name in flockstep.__all__]
    found = {each for each in public if isinstance(each, type) and issubclass(each, BaseException)}
    assert found == {flockstep.Error, *(kind for kind, _, _ in CLASSES)}
    assert all(each.__name__.endswith("Error") for each in found)


@of_every_class
def test_what_comes_through_torch_as_a_text_is_taken_apart(kind, code, pythons):
    error = kind(f"worker 1 is gone [{code} on c10d]")
    assert told(error) == (kind, "worker 1 is gone", code, "c10d", None)
    assert error.args == ("worker 1 is gone",)
    assert str(kind(f"two workers differ [{code}]")) == "two workers differ"
    for sentence in ("a list [1, 2]", "a code [unknown on c10d]", f"it says [{code}] in the middle"):
        assert str(kind(sentence)) == sentence


@of_every_class
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
def test_a_copy_knows_the_same(kind, code, pythons, copied):
    error = kind("worker 1 is gone", engine="c10d", rank=2)
    assert told(copied(error)) == told(error)
    assert told(copied(kind("no"))) == (kind, "no", code, "", None)


def ran(script):
    command = [sys.executable, "-c", script]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=HANG_S)


def test_the_compiled_half_raises_them():
    done = ran(
        "import torch.distributed as dist\n"
        "dist.init_process_group('gloo', init_method='tcp://127.0.0.1:0', rank=0, world_size=1)\n"
        "import flockstep\n"
        "from flockstep._telemetry import Recorder\n"
        "from flockstep._worker import attach\n"
        "try:\n"
        "    Recorder(attach(), '/proc/flockstep', 'mean')\n"
        "except flockstep.Error as error:\n"
        "    print(type(error).__name__, error.code, error.rank, error)\n"
    )
    assert done.stdout.startswith("BadFileError bad_file 0 "), done.stderr
    assert "/proc/flockstep" in done.stdout


def test_names_are_loaded_when_they_are_used():
    done = ran(
        "import sys, flockstep\n"
        "print('torch' in sys.modules, 'matplotlib' in sys.modules)\n"
        "print({'Error', 'PeerLostError', 'register', 'write_report'} <= set(dir(flockstep)))\n"
        "flockstep.nothing\n"
    )
    assert done.stdout == "False False\nTrue\n"
    assert done.stderr.endswith("AttributeError: module 'flockstep' has no attribute 'nothing'\n")
