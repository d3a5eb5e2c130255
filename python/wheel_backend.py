"""scikit-build-core, with one sentence where it is not there (without build isolation, pip does not bring it), and with the
dependencies of a wheel, which works with one minor version of torch alone."""

from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

try:
    from scikit_build_core.build import *  # noqa: F403
except ModuleNotFoundError as error:
    if error.name != "scikit_build_core":
        raise
    raise SystemExit(
        "flockstep is built by scikit-build-core, which this Python does not have: run `pip install scikit-build-core`, "
        "then `pip install --no-build-isolation .` again"
    ) from None


class Dependencies:
    """Those of pyproject.toml, with the minor version of the torch that the wheel is built against."""

    def build_state(self, state):
        self._is_for_one_torch = state != "sdist"

    def dynamic_wheel(self, settings):
        return {"dependencies": True}

    def dynamic_metadata(self, settings, project):
        dependencies = [settings["torch"], *settings["others"]]
        if self._is_for_one_torch:
            with suppress(PackageNotFoundError):  # CMake will say that there is none
                dependencies[0] = f"torch=={'.'.join(version('torch').split('.')[:2])}.*"
        return {"dependencies": dependencies}
