"""Training on Ray Train, on as many workers as there are: python examples/ray_train.py

A worker or a node may go at any time. Ray starts the function again on those that are left, or that came; model and loader go on from the last checkpoint, and every row is seen once
an epoch, as `penstock verify run/ledger` proves. The number of workers must divide the batch: 1, 2, 3, 4, 6, 8 … of 48.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import ray.train
import torch
from ray.train.torch import TorchTrainer, prepare_model

import penstock as ps

TASK = {"epochs": 2, "folder": str(Path("run").resolve()), "step_s": 0.0}  # step_s: how long a step seems to take


def train(task: dict[str, Any]) -> None:
    x = np.random.default_rng(0).normal(size=(4_800, 8)).astype(np.float32)
    data = ps.from_arrays({"x": x, "y": x.sum(axis=1)}).shuffle(seed=0).batch(48)
    loader = ps.Loader(data, to="torch", ledger=Path(task["folder"]) / "ledger")  # its share: from torch.distributed
    model = prepare_model(torch.nn.Linear(8, 1))
    plain = getattr(model, "module", model)  # without DDP's wrapper
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    if (checkpoint := ray.train.get_checkpoint()) is not None:
        with checkpoint.as_directory() as folder:
            saved = torch.load(Path(folder) / "state.pt")
        plain.load_state_dict(saved["model"])
        loader.load_state_dict(saved["loader"])
    while loader.epoch < task["epochs"]:
        for batch in loader:
            loss = torch.nn.functional.mse_loss(model(batch["x"])[:, 0], batch["y"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            time.sleep(task["step_s"])
            if loader.step % 20 == 0:
                report(loss.item(), {"model": plain.state_dict(), "loader": loader.state_dict()})


def report(loss: float, state: dict[str, Any]) -> None:
    """Every worker reports; the first one has the checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        torch.save(state, Path(folder) / "state.pt")
        is_first = ray.train.get_context().get_world_rank() == 0
        ray.train.report({"loss": loss}, checkpoint=ray.train.Checkpoint(folder) if is_first else None)


if __name__ == "__main__":
    workers = ray.train.ScalingConfig(num_workers=(1, 4))  # as many as there is room for
    run = ray.train.RunConfig(storage_path=TASK["folder"], failure_config=ray.train.FailureConfig(max_failures=-1))
    result = TorchTrainer(train, train_loop_config=TASK, scaling_config=workers, run_config=run).fit()
    print(f"loss of the last checkpoint: {result.metrics['loss']:.4f}")
