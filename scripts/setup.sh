#!/usr/bin/env bash
# Brings a machine to the point where `make build` works: packages of the system, then a Python environment in
# build/venv. Idempotent: it skips what is there and takes well under a second when nothing is missing.
#
#   scripts/setup.sh            what building and testing takes
#   scripts/setup.sh --all      that, and the browser that `make test-all` looks at a report with
#   scripts/setup.sh --to-run   what building and running the command takes, and not what tests and checks do
#   scripts/setup.sh --docs     what `make docs` takes: neither a compiler nor torch
#   scripts/setup.sh --has TOOL...   installs nothing: fails if build/venv lacks one of these tools
#
# Packages are installed with apt-get, as root or with sudo. Without apt-get, or without the right to use it, CMake says
# which libraries are there, wherever they came from, and the script lists the packages that are missing.
#
# FLOCKSTEP_TORCH=OFF leaves torch out of build/venv, FLOCKSTEP_TORCH=2.15.0 installs that version. Torch that is there
# already (an active virtual environment, or a TorchConfig.cmake on CMAKE_PREFIX_PATH) is used instead of a second copy.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly venv=build/venv mode="${1:-}"
# The names of a package in Debian, Fedora and Homebrew (-: none), a command that shows that it is here (-: CMake looks
# for its library; with ?: the build does without), and what it is for.
packages=(
  "g++                 gcc-c++             gcc            c++      the compiler"
  "cmake               cmake               cmake          cmake    the build"
  "ninja-build         ninja-build         ninja          ninja    the build"
  "ccache              ccache              ccache         ccache?  fast rebuilds"
  "mold                mold                mold           mold?    fast linking"
  "libfmt-dev          fmt-devel           fmt            -        text formatting"
  "libspdlog-dev       spdlog-devel        spdlog         -        logging"
  "libcli11-dev        cli11-devel         cli11          -        command line"
  "libtomlplusplus-dev tomlplusplus-devel  tomlplusplus   -        files of options"
  "nlohmann-json3-dev  json-devel          nlohmann-json  -        JSON"
  "libhwy-dev          highway-devel       highway        -        portable SIMD"
  "zlib1g-dev          zlib-devel          zlib           -        the data of the task images"
  "libpng-dev          libpng-devel        libpng         -        pictures of the task detection"
  "libjpeg-dev         libjpeg-turbo-devel jpeg-turbo     -        the same"
  "libopenmpi-dev      openmpi-devel       open-mpi       -        the mpi engine"
  "openmpi-bin         openmpi             open-mpi       mpirun?  mpirun"
  "libsimgrid-dev      -                   simgrid        -        the sim engine"
  "libasio-dev         asio-devel          asio           -        the mesh engine"
  "libsodium-dev       libsodium-devel     libsodium      -        the same"
  "libboost-dev        boost-devel         boost          -        headers that SimGrid's own headers need"
)
readonly for_tests=(
  "libgtest-dev        gtest-devel         googletest     -        tests"
  "libbenchmark-dev    google-benchmark-devel google-benchmark - benchmarks"
)
readonly for_docs=(
  "git                 git                 git            git      what belongs to the repository"
  "doxygen             doxygen             doxygen        doxygen  the C++ reference"
)
readonly browser="chromium-headless-shell chromium chromium - the test that looks at a report"
readonly environments="python3-venv python3 python - build/venv"
readonly headers="python3-dev python3-devel python - the PyTorch package"

requirements=(scripts/requirements.txt)
torch="${FLOCKSTEP_TORCH:-2.13.0}"
case "$mode" in
  "" | --all) packages+=("${for_tests[@]}"); requirements+=(scripts/requirements-tests.txt) ;;
  --docs) packages=("${for_docs[@]}"); requirements=(scripts/requirements-docs.txt); torch=OFF ;;
  --to-run | --has) ;;
  *) printf 'usage: %s [--all|--to-run|--docs|--has TOOL...]\n' "$0" >&2; exit 2 ;;
esac
readonly requirements torch

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

has() { [ -n "$(type -P "$@")" ]; }
has_browser() { has chromium-headless-shell chromium chromium-browser google-chrome; }
python_can_make_environments() { python3 -c 'import venv, ensurepip' 2>/dev/null; }
# The PyTorch package is compiled against those of the Python that build/venv is made of.
python_has_headers() {
  python3 -c 'import os.path, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))'
}

# names COLUMN ROW...: the names of packages; column 1 has Debian's, 2 Fedora's, 3 Homebrew's.
names() {
  local column=$1
  shift
  printf '%s\n' "$@" | awk -v c="$column" '$c != "-" && !seen[$c]++ { printf "%s%s", sep, $c; sep = " " }'
}

install_packages() {
  python_can_make_environments || packages+=("$environments")
  [ "$mode" != --all ] || has_browser || packages+=("$browser")
  [ "$torch" = OFF ] || python_has_headers || packages+=("$headers")
  has dpkg-query && has apt-get || { look_for_packages; return; }

  local wanted installed missing=() package as_root=()
  wanted="$(names 1 "${packages[@]}")"
  # dpkg-query fails when it knows one of the names not at all; what it prints is right all the same.
  installed="$(dpkg-query -W -f '${db:Status-Abbrev}${binary:Package} ' $wanted 2>/dev/null || true)"
  installed=" $(sed 's/:[a-z0-9]*//g' <<<"$installed") "
  for package in $wanted; do
    [[ $installed == *"ii $package "* ]] || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return

  if [ "$(id -u)" -ne 0 ]; then
    sudo -n true 2>/dev/null || { look_for_packages; return; }
    as_root=(sudo -n)
  fi
  say "installing ${missing[*]}"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# Where nothing can be installed: fails with a list of what is missing. What it found once it does not look for again.
look_for_packages() {
  local lacking=() without=() row debian fedora homebrew command purpose
  local found=build/libraries/found-with$mode
  [ -f "$found" ] && [ "$(cat "$found")" = "$(names 1 "${packages[@]}")" ] && return
  for row in "${packages[@]}"; do
    read -r debian fedora homebrew command purpose <<<"$row"
    case "$debian,$command" in
      python3-venv,* | chromium*) lacking+=("$row") ;;
      python3-dev,*) without+=("$row") ;;
      *,-) ;;
      *\?) has "${command%\?}" || without+=("$row") ;;
      *) has "$command" || lacking+=("$row") ;;
    esac
  done
  [ "$mode" = --docs ] || look_for_libraries
  [ ${#lacking[@]} -eq 0 ] || fail "cannot install what is missing; install it, then run this again:
  Debian:   sudo apt-get install $(names 1 "${lacking[@]}" "${without[@]}")
  Fedora:   sudo dnf install $(names 2 "${lacking[@]}" "${without[@]}")
  Homebrew: brew install $(names 3 "${lacking[@]}" "${without[@]}")"
  [ ${#without[@]} -eq 0 ] || say "going on without $(names 1 "${without[@]}") (Debian's names)"
  mkdir -p build/libraries
  names 1 "${packages[@]}" >"$found"
}

# Adds to `lacking` and `without` the libraries that CMake does not find. Without CMake or a compiler, those are all.
look_for_libraries() {
  local row debian rest output required=" " optional=" "
  if has cmake && has ninja && has c++; then
    output="$(cmake -S scripts/libraries -B build/libraries -G Ninja 2>&1)" || fail "CMake cannot look for libraries:
$output"
    required=" $(tr ';' ' ' <build/libraries/required) "
    optional=" $(tr ';' ' ' <build/libraries/optional) "
    [[ $mode == --to-run || $optional != *" libgtest-dev "* ]] || required+="libgtest-dev "
  else
    required=" $(names 1 "${packages[@]}") "
  fi
  for row in "${packages[@]}"; do
    read -r debian rest <<<"$row"
    [[ $rest == *" - "* ]] || continue
    if [[ $required == *" $debian "* ]]; then lacking+=("$row")
    elif [[ $optional == *" $debian "* ]]; then without+=("$row"); fi
  done
}

# True if a torch other than build/venv's own is at hand.
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

# The build without CUDA, gigabytes less, if the index has one under its own version: PyTorch's has, PyPI has not.
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
  wish="$(cat "${requirements[@]}" | grep -v '^#'; echo "$torch_wanted")"
  [ -f $venv/installed ] && [ -z "$(grep -vxFf $venv/installed <<<"$wish" || true)" ] && return

  python_can_make_environments || fail "python3 cannot make virtual environments; install python3-venv"
  [ -x $venv/bin/python ] || { say "making $venv"; python3 -m venv $venv; }
  say "installing into $venv: $(tr '\n' ' ' <<<"$wish")"
  [ -z "$torch_wanted" ] || torch_wanted="$(cpu_build_of_torch)"
  $venv/bin/python -m pip install --quiet --disable-pip-version-check "${requirements[@]/#/--requirement=}" \
    ${torch_wanted:+"$torch_wanted"}
  # Of two versions of one package, the last one is there.
  touch $venv/installed
  wish+=$'\n'"$(cat $venv/installed)"
  awk '{ name = $0; sub(/( |==)[0-9][^;]*/, "", name) } !seen[name]++' <<<"$wish" >$venv/installed
}

# Fails if build/venv lacks one of these tools, in the version of requirements-tests.txt.
check_tools() {
  local lacking=() tool wish
  for tool in "$@"; do
    wish="$(grep "^$tool==" scripts/requirements-tests.txt)"
    [ -f $venv/installed ] && grep -qxF "$wish" $venv/installed || lacking+=("$wish")
  done
  [ ${#lacking[@]} -eq 0 ] || fail "$venv lacks ${lacking[*]}: run \`make setup\`, which installs what is missing"
}

if [ "$mode" = --has ]; then
  shift
  check_tools "$@"
else
  install_packages
  make_environment
fi
