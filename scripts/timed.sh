#!/usr/bin/env bash
# Runs a command, says every 30 seconds that it still does, and at its end how long it took. Exits as the command does.
#
#   scripts/timed.sh "make demo" COMMAND...
set -uo pipefail
readonly name=$1
shift
elapsed() { printf '%d min %02d s' $((SECONDS / 60)) $((SECONDS % 60)); }

(while sleep 30 >/dev/null 2>&1; do printf '%s: %s so far\n' "$name" "$(elapsed)"; done) &
readonly clock=$!
trap 'kill $clock 2>/dev/null' EXIT

"$@"
readonly status=$?
if [ $status -eq 0 ]; then ended=took; else ended='failed after'; fi
printf '%s %s %s\n' "$name" "$ended" "$(elapsed)"
exit $status
