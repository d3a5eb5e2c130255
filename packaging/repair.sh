#!/usr/bin/env bash
# Makes a wheel that needs nothing but manylinux's own libraries and torch's: others are put into it. cibuildwheel calls it,
# and `make packages`.
#
#   packaging/repair.sh WHEEL FOLDER     needs auditwheel, patchelf, readelf and python3
set -euo pipefail
[ $# -eq 2 ] || { echo "usage: $0 WHEEL FOLDER" >&2; exit 2; }
readonly wheel="$1" folder="$2"
work="$(mktemp -d)"
readonly work
trap 'rm -rf "$work"' EXIT

# torch's libraries come from the torch that is installed, whether it is for CUDA or not.
auditwheel repair --exclude 'libtorch*.so' --exclude 'libc10.so' --wheel-dir "$work/repaired" "$wheel"
repaired=("$work"/repaired/*-manylinux_*.whl)
[ -f "${repaired[0]}" ] || { echo "$wheel did not become a manylinux wheel" >&2; exit 1; }

python3 -m zipfile -e "${repaired[0]}" "$work/content"
readonly of_the_system='lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s)\.so\.[0-9]+|ld-linux[a-z0-9_-]*\.so\.[0-9]+'
readonly of_torch='lib(torch|torch_cpu|torch_python|c10)\.so'
while read -r library; do
  [[ $library =~ ^($of_the_system|$of_torch)$ ]] || [ -f "$work/content/flockstep.libs/$library" ] ||
    { echo "${repaired[0]##*/} needs $library, which neither manylinux nor a torch without CUDA has" >&2; exit 1; }
done < <(find "$work/content" -name '*.so*' -exec readelf --dynamic {} + | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort -u)
mkdir -p "$folder"
mv "${repaired[0]}" "$folder"
echo "$folder/$(basename "${repaired[0]}")"
