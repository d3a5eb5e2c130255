"""flockstep.Error: what it knows, on whichever way it comes. How it comes out of backward is with the gradient rules."""

import copy
import pickle
import subprocess
import sys

import flockstep
import pytest
from launching import environment
from paths import HANG_S


def told(error):
    return type(error), str(error), error.code, error.engine, error.rank


def test_every_error_is_a_runtime_error_with_a_code():
    assert issubclass(flockstep.Error, RuntimeError)
    assert told(flockstep.Error("no", code="mismatch", rank=3)) == (flockstep.Error, "no", "mismatch", "", 3)
    assert flockstep.Error("no").code == "bad_input"
    assert flockstep.PeerLost("gone").code == "peer_lost"
    assert flockstep.DeadlineExceeded("late").code == "deadline"
    assert flockstep.Error("no").rank is None, "there is no process group here"


@pytest.mark.parametrize("kind", [flockstep.Error, flockstep.PeerLost, flockstep.DeadlineExceeded])
def test_what_comes_through_torch_as_a_text_is_taken_apart(kind):
    error = kind("worker 1 is gone [peer_lost on c10d]")
    assert told(error) == (kind, "worker 1 is gone", "peer_lost", "c10d", None)
    assert error.args == ("worker 1 is gone",)
    assert kind("two workers differ [mismatch]").code == "mismatch"
    for sentence in ("a list [1, 2]", "a code [unknown on c10d]", "it says [mismatch] in the middle"):
        assert str(kind(sentence)) == sentence


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
def test_a_copy_knows_the_same(copied):
    error = flockstep.PeerLost("worker 1 is gone", engine="c10d", rank=2)
    assert told(copied(error)) == told(error)
    assert told(copied(flockstep.Error("no", code="bad_file"))) == (flockstep.Error, "no", "bad_file", "", None)


def test_the_compiled_half_raises_them():
    script = (
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
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment(), capture_output=True, text=True, timeout=HANG_S
    )
    assert done.stdout.startswith("Error bad_file 0 "), done.stderr
    assert "/proc/flockstep" in done.stdout


def test_names_are_loaded_when_they_are_used():
    script = (
        "import sys, flockstep\n"
        "print('torch' in sys.modules, 'matplotlib' in sys.modules)\n"
        "print({'Error', 'PeerLost', 'report'} <= set(dir(flockstep)))\n"
        "flockstep.nothing\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment(), capture_output=True, text=True, timeout=HANG_S
    )
    assert done.stdout == "False False\nTrue\n"
    assert done.stderr.endswith("AttributeError: module 'flockstep' has no attribute 'nothing'\n")


def test_every_public_name_is_there():
    for name in flockstep.__all__:
        assert getattr(flockstep, name) is not None
