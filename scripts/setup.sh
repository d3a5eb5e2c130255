#!/usr/bin/env bash
# Brings a machine to the point where `make build` works: Debian packages, then a Python environment in build/venv.
# Idempotent: it skips what is there and takes well under a second when nothing is missing.
#
#   scripts/setup.sh            everything
#   scripts/setup.sh --to-run   what building and running the command takes, and not what tests and checks do
#   scripts/setup.sh --docs     what `make docs` takes: neither a compiler nor torch
#
# FLOCKSTEP_TORCH=OFF leaves torch out of build/venv, FLOCKSTEP_TORCH=2.15.0 installs that version. Torch that is already there (an active virtual environment, or a
# TorchConfig.cmake on CMAKE_PREFIX_PATH) is used instead of a second copy.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly venv=build/venv
# Name of the package, then what it is for.
packages=(
  "g++"                  "the compiler"
  "cmake"                "the build"
  "ninja-build"          "the build"
  "ccache"               "fast rebuilds"
  "mold"                 "fast linking"
  "libfmt-dev"           "text formatting"
  "libspdlog-dev"        "logging"
  "libcli11-dev"         "command line"
  "libtomlplusplus-dev"  "files of options"
  "nlohmann-json3-dev"   "JSON"
  "libhwy-dev"           "portable SIMD"
  "zlib1g-dev"           "the data of the task images"
  "libpng-dev"           "pictures of the task detection"
  "libjpeg-dev"          "the same"
  "libopenmpi-dev"       "the mpi engine"
  "openmpi-bin"          "mpirun"
  "libsimgrid-dev"       "the sim engine"
  "libasio-dev"          "the mesh engine"
  "libsodium-dev"        "the same"
  "libboost-dev"         "headers that SimGrid's own headers need"
)
requirements=(-r scripts/requirements.txt)
torch="${FLOCKSTEP_TORCH:-2.13.0}"
if [ "${1:-}" = --docs ]; then
  packages=("git" "what belongs to the repository" "doxygen" "the C++ reference")
  requirements=(-r scripts/requirements-docs.txt)
  torch=OFF
elif [ "${1:-}" != --to-run ]; then
  packages+=(
    "libgtest-dev"       "tests"
    "libbenchmark-dev"   "benchmarks"
    "clang-format"       "make format"
  )
  requirements+=(-r scripts/requirements-tests.txt)
fi
readonly packages requirements torch

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

install_packages() {
  local wanted=() missing=() i
  for ((i = 0; i < ${#packages[@]}; i += 2)); do wanted+=("${packages[i]}"); done
  python_can_make_environments || wanted+=("python3-venv")
  [ "${#requirements[@]}" -eq 2 ] || has_browser || wanted+=("chromium-headless-shell")
  [ "$torch" = OFF ] || python_has_headers || wanted+=("python3-dev")

  command -v dpkg-query >/dev/null ||
    fail "this is not a Debian system; install the equivalents of these packages and run cmake yourself: ${wanted[*]}"
  local installed
  # dpkg-query fails when it knows one of the names not at all; what it prints is right all the same.
  installed=" $( (dpkg-query -W -f '${db:Status-Abbrev}${binary:Package} ' "${wanted[@]}" 2>/dev/null || true) | sed 's/:[a-z0-9]*//g') "
  for package in "${wanted[@]}"; do
    [[ $installed == *"ii $package "* ]] || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return

  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    sudo -n true 2>/dev/null || fail "missing packages, and no right to install them; run: sudo apt-get install ${missing[*]}"
    as_root=(sudo -n)
  fi
  say "installing ${missing[*]}"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# For the test that looks at a report; relatives of Debian may have it under another name.
has_browser() { [ -n "$(type -P chromium-headless-shell chromium chromium-browser google-chrome)" ]; }

python_can_make_environments() { python3 -c 'import venv, ensurepip' 2>/dev/null; }

# The PyTorch package is compiled against those of the Python that build/venv is made of.
python_has_headers() {
  python3 -c 'import os.path, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))'
}

# True where a torch other than build/venv's own is at hand.
torch_is_elsewhere() {
  if [ -n "${VIRTUAL_ENV:-}" ] && [ "$VIRTUAL_ENV" != "$PWD/$venv" ] && [ -x "$VIRTUAL_ENV/bin/python" ]; then
    compgen -G "$VIRTUAL_ENV/lib/python3*/site-packages/torch/share/cmake/Torch/TorchConfig.cmake" >/dev/null && return 0
  fi
  local prefix
  local IFS=':;'
  for prefix in ${CMAKE_PREFIX_PATH:-}; do
    [ -f "$prefix/Torch/TorchConfig.cmake" ] || [ -f "$prefix/share/cmake/Torch/TorchConfig.cmake" ] && return 0
  done
  return 1
}

# The build without CUDA, where the index has one under its own version, as PyTorch's has and PyPI has not. It saves gigabytes.
cpu_build_of_torch() {
  local listed
  listed="$($venv/bin/python -m pip index versions torch 2>/dev/null || true)"
  if [[ $listed == *" $torch+cpu,"* ]]; then echo "torch==$torch+cpu"; else echo "torch==$torch"; fi
}

make_environment() {
  local torch_wanted="torch $torch"
  if [ "$torch" = OFF ]; then
    torch_wanted=""
  elif torch_is_elsewhere; then
    torch_wanted=""
    [ -d $venv ] || say "using the torch that is already here"
  fi

  # `installed` says what the environment holds, a line each; pip adds what is missing.
  local wish
  wish="$(cat $(printf "%s\n" "${requirements[@]}" | grep -v "^-r$") 2>/dev/null | grep -v '^#'; echo "$torch_wanted")"
  [ -f $venv/installed ] && [ -z "$(grep -vxFf $venv/installed <<<"$wish" || true)" ] && return

  python_can_make_environments || fail "python3 cannot make virtual environments; install python3-venv"
  [ -x $venv/bin/python ] || { say "making $venv"; python3 -m venv $venv; }
  say "installing into $venv: $(tr '\n' ' ' <<<"$wish")"
  [ -z "$torch_wanted" ] || torch_wanted="$(cpu_build_of_torch)"
  $venv/bin/python -m pip install --quiet --disable-pip-version-check "${requirements[@]}" ${torch_wanted:+"$torch_wanted"}
  printf '%s\n' "$wish" >>$venv/installed
}

install_packages
make_environment
