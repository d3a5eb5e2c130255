"""scikit-build-core, and one sentence where it is not there: without build isolation, pip does not bring it."""

try:
    from scikit_build_core.build import *  # noqa: F403
except ModuleNotFoundError as error:
    if error.name != "scikit_build_core":
        raise
    raise SystemExit(
        "flockstep is built by scikit-build-core, which this Python does not have: run `pip install scikit-build-core`, "
        "then `pip install --no-build-isolation .` again"
    ) from None
