"""What of the laboratory a library or a program contains: the core has to do without."""

import re
import subprocess

from paths import ROOT

# Its folders, each of which is a namespace.
NAMESPACES = {folder.name for folder in (ROOT / "lab").iterdir() if folder.is_dir()}


def lines(*command):
    return subprocess.run([*map(str, command)], capture_output=True, text=True, check=True).stdout.splitlines()


def symbols_of_the_laboratory(binary):
    names = lines("nm", "-C", binary)
    assert any("flockstep::engines::" in name for name in names), f"{binary} has no symbols to look at"
    return [name for name in names if re.search(rf"\bflockstep::({'|'.join(NAMESPACES)})::", name)]


def libraries_of_the_laboratory(binary):
    needed = [line for line in lines("readelf", "-d", binary) if "(NEEDED)" in line]
    assert needed, f"{binary} needs no library at all"
    return [line for line in needed if re.search(r"\[lib(z|png|jpeg|turbojpeg|tomlplusplus)[\d.]*\.so", line)]
