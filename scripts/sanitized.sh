#!/usr/bin/env bash
# The tests of a build with sanitizers: ctest, then those of the PyTorch package that run its compiled half.
#
#   scripts/sanitized.sh build/asan [more of ctest's options]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly build=$1
readonly python=${PYTHON:-build/venv/bin/python}

export ASAN_OPTIONS=detect_leaks=1
export LSAN_OPTIONS=suppressions=$PWD/scripts/lsan.supp:print_suppressions=0
export TSAN_OPTIONS=suppressions=$PWD/scripts/tsan.supp:halt_on_error=1:history_size=7:die_after_fork=0
ctest --test-dir "$build" --output-on-failure --no-tests=error -j "$(nproc)" "${@:2}"

# Python is not built with them, so their library has to be there before it; and what Python itself leaks is not ours.
case "$(sed -n 's/^FLOCKSTEP_SANITIZE:STRING=//p' "$build/CMakeCache.txt")" in
  thread) library=libtsan.so ;;
  *) library=libasan.so ;;
esac
preloaded="$(g++ -print-file-name=$library) $(g++ -print-file-name=libstdc++.so)"
# protect_shadow_gap: CUDA, where torch has it, takes memory that AddressSanitizer would keep to itself.
ASAN_OPTIONS=detect_leaks=0:protect_shadow_gap=0 FLOCKSTEP_BUILD=$build FLOCKSTEP_PRELOADED=$preloaded \
  "$python" -m pytest -q -n "$(nproc)" --dist loadfile tests/python/test_engine.py tests/python/test_hooks.py \
  tests/python/test_rules.py tests/python/test_telemetry.py tests/python/test_averagers_results.py tests/python/test_averagers_join.py
