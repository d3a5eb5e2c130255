"""The Dockerfile names files and packages that there are: nothing here can build it."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from paths import BUILD, HANG_S, ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
BUILDING, RUNNING = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)[1:]
OF_THE_SYSTEM = {"libc6", "libgcc-s1"}  # in every image
TOOLS = {"openmpi-bin", "openssh-client", "python3"}


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=HANG_S).stdout


def test_what_is_copied_from_here_is_here_and_not_ignored():
    copied = re.findall(r"^COPY (?!--from)(\S+) ", DOCKERFILE, re.MULTILINE)
    assert {"scripts", ".", "examples", "data"} == set(copied)
    ignored = (ROOT / ".dockerignore").read_text().split()
    for name in copied:
        assert (ROOT / name).exists()
        assert name not in ignored


def libraries_of(program):
    """The Debian packages with the libraries that a program names itself."""
    names = re.findall(r"NEEDED.*\[(.*)\]", output("readelf", "-d", str(program)))
    known = dict(re.findall(r"^\s+(\S+) \(.*\) => (\S+)$", output("/sbin/ldconfig", "-p"), re.MULTILINE))
    for name in names:
        if name not in known:  # torch's own, and the loader
            continue
        where = Path(known[name])
        for place in (where, Path("/usr") / where.relative_to("/"), where.resolve()):
            found = subprocess.run(["dpkg", "-S", place], capture_output=True, text=True, timeout=HANG_S)
            if found.returncode == 0:
                yield found.stdout.split(":")[0]
                break
        else:
            pytest.fail(f"no package has {where}")


@pytest.mark.skipif(
    'VERSION_ID="12"' not in Path("/etc/os-release").read_text() or not shutil.which("dpkg"), reason="not Debian 12"
)
def test_the_packages_that_run_are_those_that_the_command_is_linked_with(needs):
    needs("mpi", "sim", "mesh")
    [named] = re.findall(r"apt-get install (.*?)&&", RUNNING)
    wanted = set(libraries_of(BUILD / "bin" / "flockstep")) - OF_THE_SYSTEM
    assert set(named.split()[2:]) == wanted | TOOLS


def test_the_environment_stays_where_it_was_built():
    """Both stages have build/venv at the same place, where the installed tasks look for torch."""
    [home] = re.findall(r"^WORKDIR (\S+)", BUILDING, re.MULTILINE)
    assert f"COPY --from=build {home}/build/venv {home}/build/venv" in RUNNING
