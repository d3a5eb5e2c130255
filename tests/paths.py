"""Where things are that tests look for. FLOCKSTEP_BUILD names the build folder (default build/release)."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / os.environ.get("FLOCKSTEP_BUILD", "build/release")
PACKAGE = BUILD / "python"  # the PyTorch package, as a place to import from
# How long a test waits for what should come at once before it says that it hangs. No verdict hangs on less: others may use
# the machine, too.
HANG_S = 900


def package_is_built():
    return any(PACKAGE.glob("flockstep/_native*.so"))


def folder_to_import_from():
    """Without the compiled half, flockstep is the report alone."""
    return PACKAGE if package_is_built() else ROOT / "python"
