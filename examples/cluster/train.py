"""A training that the launch files beside this one start, on any number of processes: torchrun examples/cluster/train.py FOLDER

When the job is about to end (SIGTERM, or SLURM's SIGUSR1), the ranks agree on a step, the first one saves model and loader, and all leave. The next start goes on behind that step.
"""

import os
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

import penstock as ps

FOLDER, EPOCHS = Path(sys.argv[1]), 2
STEP_S = float(os.environ.get("STEP_S", "0"))  # how long a step seems to take


def main() -> None:
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    x = np.random.default_rng(0).normal(size=(4_800, 8)).astype(np.float32)
    data = ps.from_arrays({"x": x, "y": x.sum(axis=1)}).shuffle(seed=0).batch(48)
    loader = ps.Loader(data, to="torch", ledger=FOLDER / "ledger")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    if (FOLDER / "state.pt").exists():
        saved = torch.load(FOLDER / "state.pt")
        model.module.load_state_dict(saved["model"])
        loader.load_state_dict(saved["loader"])
    print(f"rank {loader.rank} of {loader.world_size} begins at epoch {loader.epoch}, step {loader.step}", flush=True)
    with loader.on_preempt(ends=False) as preemption:
        while loader.epoch < EPOCHS:
            for batch in loader:
                loss = torch.nn.functional.mse_loss(model(batch["x"])[:, 0], batch["y"])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                time.sleep(STEP_S)
                ends = torch.tensor([int(preemption.requested)])
                dist.all_reduce(ends, dist.ReduceOp.MAX)  # a signal reaches ranks at different steps
                if ends or loader.step % 20 == 0:
                    save({"model": model.module.state_dict(), "loader": loader.state_dict()})
                if ends:
                    raise SystemExit(85)  # of which a launcher can tell that there is more to do
    dist.destroy_process_group()


def save(state: dict) -> None:
    if dist.get_rank() == 0:
        torch.save(state, FOLDER / "state.new")
        (FOLDER / "state.new").replace(FOLDER / "state.pt")


if __name__ == "__main__":
    main()
