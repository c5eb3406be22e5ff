"""A training run that is killed again and again: python -m support.killed_training FOLDER PLAN KILLS SEED.

Each try is a process of its own. It goes on from the newest checkpoint on 1, 2 or 4 ranks, which step together as they would in DDP, and saves a
checkpoint by atomic rename every few steps. SIGKILL comes at a random time. The last try is left alone until two more epochs are through.
The model is PyTorch's where that is installed, with momentum; it learns from the global batch, so that weights are the same bit for bit whatever the
number of ranks, if the batches are.
"""

from __future__ import annotations

import importlib.util
import io
import json
import os
import pickle
import random
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np

import penstock as ps

ROWS, BATCH = 1_500, 24
LONGEST_S = 0.06


def plan(folder: Path, kind: str) -> ps.Dataset:
    """An order that is arithmetic, or a filter whose rows are known once they come."""
    parts = [ps.read(folder / f"{name}.jsonl").shuffle(seed=seed, block_rows=16) for seed, name in enumerate("ab")]
    rows = ps.concat([parts[0], parts[1].repeat(2)])
    return rows.batch(BATCH) if kind == "order" else rows.filter(is_chosen).batch(BATCH, steps=100)


def is_chosen(batch: Any) -> Any:
    return batch["id"] % 7 < 4


def make_data(folder: Path) -> None:
    for first, name in ((0, "a"), (ROWS, "b")):
        lines = (json.dumps({"id": first + row}) for row in range(ROWS))
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")


class NumpyModel:
    """A line through the ids, learned with momentum."""

    def __init__(self) -> None:
        self.weights, self.momentum = np.zeros(2), np.zeros(2)

    def learn(self, ids: Any) -> None:
        x = np.stack([np.ones(len(ids)), ids / (2 * ROWS)])
        self.momentum = 0.9 * self.momentum + x @ (self.weights @ x - np.sin(ids)) / len(ids)
        self.weights = self.weights - 0.01 * self.momentum

    def saved(self) -> Any:
        return self.weights, self.momentum

    def load(self, saved: Any) -> None:
        self.weights, self.momentum = saved


class TorchModel:
    """The same in PyTorch."""

    def __init__(self) -> None:
        import torch

        torch.set_num_threads(1)
        torch.manual_seed(0)
        self.model = torch.nn.Linear(1, 1, dtype=torch.float64)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)

    def learn(self, ids: Any) -> None:
        import torch

        x = torch.from_numpy(ids).double()[:, None] / (2 * ROWS)
        self.optimizer.zero_grad()
        torch.nn.functional.mse_loss(self.model(x)[:, 0], torch.sin(x[:, 0])).backward()
        self.optimizer.step()

    def saved(self) -> Any:
        import torch

        out = io.BytesIO()
        torch.save([self.model.state_dict(), self.optimizer.state_dict()], out)
        return out.getvalue()

    def load(self, saved: Any) -> None:
        import torch

        model, optimizer = torch.load(io.BytesIO(saved))
        self.model.load_state_dict(model)
        self.optimizer.load_state_dict(optimizer)

    @property
    def weights(self) -> Any:
        return np.array([float(weight.detach()) for weight in self.model.parameters()])


def new_model() -> NumpyModel | TorchModel:
    return NumpyModel() if importlib.util.find_spec("torch") is None else TorchModel()


def checkpoint_in(folder: Path) -> Any:
    """The state of the loaders and of the model; None before the first checkpoint."""
    path = folder / "checkpoint"
    return pickle.loads(path.read_bytes()) if path.exists() else None


def train(folder: Path, kind: str, world_size: int, *, until: int | None, began: int | None = None) -> None:
    """Goes on from the checkpoint, to the end of the epoch before `until`, or on and on; writes a byte to `began` after its first step."""
    data, model, saved = plan(folder, kind), new_model(), checkpoint_in(folder)
    ranks = [
        ps.Loader(data, rank=rank, world_size=world_size, ledger=folder / "ledger", cpus=1)
        for rank in range(world_size)
    ]
    if saved is not None:
        model.load(saved["model"])
        for rank in ranks:
            rank.load_state_dict(saved["state"])
    while until is None or ranks[0].epoch < until:
        for batches in zip(*ranks, strict=True):
            model.learn(np.concatenate([batch["id"] for batch in batches]))
            if began is not None:
                began = os.write(began, b".") and None
            if ranks[0].step % 7 == 0:
                save(folder, ranks, model)
        save(folder, ranks, model)


def save(folder: Path, ranks: list[ps.Loader], model: NumpyModel | TorchModel) -> None:
    state = ps.merge_states([rank.state_dict() for rank in ranks])
    beside = folder / "checkpoint.new"
    beside.write_bytes(pickle.dumps({"state": state, "model": model.saved()}))
    beside.replace(folder / "checkpoint")


def killed(folder: Path, kind: str, world_size: int, seconds: float, *, early: bool, saves: bool) -> None:
    """A process that trains until SIGKILL ends it: so long after its first step, or, early, after it was started. saves: it has a checkpoint by then."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            train(folder, kind, world_size, until=None, began=writing)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(writing)
    if not early:
        os.read(reading, 1)
    while saves and checkpoint_in(folder) is None:
        time.sleep(0.01)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    os.close(reading)
    assert os.WIFSIGNALED(status), "the training ended by itself"


def main(folder: Path, kind: str, kills: int, seed: int) -> None:
    rng = random.Random(seed)
    make_data(folder)
    new_model()  # imports all that it takes, so that a try begins at once
    ps.Loader(plan(folder, kind)).close()
    for number in range(kills):
        world_size, seconds, early = rng.choice([1, 2, 4]), rng.uniform(0, LONGEST_S), rng.random() < 0.2
        killed(folder, kind, world_size, seconds, early=early, saves=number == 0)
    saved = checkpoint_in(folder)
    epochs = 2 if saved is None else saved["state"]["epoch"] + 2
    train(folder, kind, rng.choice([1, 2, 4]), until=epochs)
    print(json.dumps({"epochs": epochs}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
