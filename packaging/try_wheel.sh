#!/usr/bin/env bash
# Installs a wheel as a user does, into an empty environment and with no compiler on the PATH, and runs an example
# on two ranks. pip brings the torch that the wheel asks for; PIP_EXTRA_INDEX_URL may name an index that has it without CUDA.
#
#   packaging/try_wheel.sh WHEEL [PYTHON]
set -euo pipefail
[ $# -ge 1 ] || { echo "usage: $0 WHEEL [PYTHON]" >&2; exit 2; }
wheel="$(realpath "$1")"
examples="$(realpath "$(dirname "${BASH_SOURCE[0]}")/../examples/pytorch_ddp")"
python="$(command -v "${2:-python3}")"
environment="$(mktemp -d)"
readonly wheel examples python environment
trap '/bin/rm -rf "$environment"' EXIT

"$python" -m venv "$environment"
export PATH="$environment/bin" PYTHONPATH=
cd /
pip install --quiet --disable-pip-version-check "$wheel"
python -c 'import flockstep; print(flockstep.__version__)'
flockstep --version
flockstep doctor
cd "$examples"
OMP_NUM_THREADS=1 torchrun --standalone --nproc-per-node 2 adacons.py
