#!/bin/bash
# The command over MPI on the hosts of a file, a line each, such as "node1 slots=4":
#
#   ./command.sh hosts train --task vision --algorithm flock --out runs/flock
#
# A worker in each slot. --bind-to none: a worker and the agent that exchanges for it should not share one core.
set -euo pipefail
[ $# -gt 1 ] || { echo "command.sh: give a file of hosts, and the command's arguments" >&2; exit 2; }
hosts=$1
shift
exec mpirun --hostfile "$hosts" --bind-to none "${FLOCKSTEP:-flockstep}" "$@"
