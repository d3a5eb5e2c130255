"""What the tests of the PyTorch package share. Where it is not built, there is nothing to test: they are left out.

Most tests need several processes: let one script run many cases and print what came out, and tests look at that.
"""

import pytest
from launching import run_python, run_torchrun
from paths import package_is_built

if not package_is_built():
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def python():
    """python(script, *arguments): see launching.py."""
    return run_python


@pytest.fixture(scope="session")
def torchrun():
    """torchrun(script, workers, *arguments): see launching.py."""
    return run_torchrun
