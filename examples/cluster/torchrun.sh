#!/bin/bash
# On every machine: examples/cluster/torchrun.sh HOST:29500 /shared/run
# Between one and four machines; where one goes or comes, torchrun starts the trainings again on those that are there, and they go on from the last checkpoint.
set -euo pipefail

exec torchrun --nnodes=1:4 --nproc-per-node=2 --max-restarts=100 --rdzv-id=penstock --rdzv-backend=c10d --rdzv-endpoint="$1" \
    examples/cluster/train.py "$2"
