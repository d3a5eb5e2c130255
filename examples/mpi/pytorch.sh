#!/bin/bash
# A PyTorch script as a process of mpirun or srun, which tell ranks by names of their own:
#
#   mpirun --bind-to none -n 2 ./pytorch.sh python ../pytorch_ddp/adacons.py
#   mpirun --bind-to none --hostfile hosts -x MASTER_ADDR=node1 ./pytorch.sh python train.py
set -euo pipefail
export RANK=${OMPI_COMM_WORLD_RANK:-${SLURM_PROCID:-}} WORLD_SIZE=${OMPI_COMM_WORLD_SIZE:-${SLURM_NTASKS:-}}
export LOCAL_RANK=${OMPI_COMM_WORLD_LOCAL_RANK:-${SLURM_LOCALID:-0}}
export LOCAL_WORLD_SIZE=${OMPI_COMM_WORLD_LOCAL_SIZE:-${SLURM_NTASKS_PER_NODE:-1}}
[ -n "$RANK" ] && [ -n "$WORLD_SIZE" ] || { echo "pytorch.sh: start it with mpirun of Open MPI, or with srun" >&2; exit 2; }
if [ "$LOCAL_WORLD_SIZE" = "$WORLD_SIZE" ]; then MASTER_ADDR=${MASTER_ADDR:-127.0.0.1}; fi
[ -n "${MASTER_ADDR:-}" ] || { echo "pytorch.sh: on several nodes, give the host of rank 0: -x MASTER_ADDR=HOST" >&2; exit 2; }
export MASTER_ADDR MASTER_PORT=${MASTER_PORT:-29500} OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
exec "$@"
