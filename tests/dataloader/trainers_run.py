"""Trainings with a DataLoader, PyTorch's or Penstock's, as a script of its own: python trainers_run.py '[{"trainer": "lightning", "loader": "penstock", "out": "a", …}, …]'.

Each rank writes what every step saw to OUT/RANK.jsonl: [epoch, ids].
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.utilities import CombinedLoader
from torch.utils.data import DataLoader, Dataset

import penstock.torch

ROWS, BATCH = 52, 8
#: Models that live on: PyTorch hangs now and then where one of DDP is let go of after its process group.
kept = list[Any]()


class Rows(Dataset[Any]):
    def __init__(self, rows: int = ROWS) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, index: int) -> Any:
        return {"id": index, "x": torch.full((4,), index / self.rows)}


def loader_of(kind: str, rows: int = ROWS, seed: int | None = None) -> Any:
    make: Any = {"torch": DataLoader, "penstock": penstock.torch.DataLoader}[kind]
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    return make(Rows(rows), batch_size=BATCH, shuffle=True, generator=generator)


def ids_of(batch: Any) -> Any:
    return batch["id"].tolist() if "id" in batch else {name: ids_of(part) for name, part in batch.items()}


class Model(pl.LightningModule):
    def __init__(self, out: str, kind: str) -> None:
        super().__init__()
        self.layer, self.out, self.kind = torch.nn.Linear(4, 1), Path(out), kind

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        with (self.out / f"{self.global_rank}.jsonl").open("a") as file:
            file.write(json.dumps([self.current_epoch, ids_of(batch)]) + "\n")
        parts = [batch] if "id" in batch else [*batch.values()]
        return sum(self.layer(part["x"]).square().mean() for part in parts)

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.01)


class WithLoader(Model):
    def train_dataloader(self) -> Any:
        return loader_of(self.kind)


def lightning(
    loader: str, out: str, devices: int = 1, strategy: str = "auto", given: str = "loader", resume: str | None = None
) -> None:
    Path(out).mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=devices,
        strategy=strategy,
        max_epochs=3,
        callbacks=[] if resume else [ModelCheckpoint(out, "{step}", save_top_k=-1, every_n_train_steps=1)],
        enable_checkpointing=not resume,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    train: Any = {
        "loader": lambda: loader_of(loader),
        "seeded": lambda: loader_of(loader, seed=1),
        "several": lambda: {"long": loader_of(loader, seed=1), "short": loader_of(loader, 20, seed=2)},
        "combined": lambda: CombinedLoader({"a": loader_of(loader), "b": loader_of(loader, 20)}, "min_size"),
        "model": lambda: None,
    }[given]()
    model = (WithLoader if given == "model" else Model)(out, loader)
    trainer.fit(model, train, ckpt_path=resume, weights_only=False)


def accelerate(loader: str, out: str) -> None:
    from accelerate import Accelerator

    Path(out).mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True)
    layer = torch.nn.Linear(4, 1)
    model, optimizer, prepared = accelerator.prepare(
        layer, torch.optim.SGD(layer.parameters(), lr=0.01), loader_of(loader)
    )
    assert accelerator.prepare(prepared) is prepared  # not divided twice
    with Path(out, f"{accelerator.process_index}.jsonl").open("w") as file:
        for epoch in range(2):
            for batch in prepared:
                accelerator.backward(model(batch["x"]).square().mean())
                optimizer.step()
                optimizer.zero_grad()
                gathered = accelerator.gather_for_metrics(batch["id"]).tolist()
                file.write(json.dumps([epoch, ids_of(batch), gathered]) + "\n")
    accelerator.end_training()
    kept.append(model)


if __name__ == "__main__":
    for options in json.loads(sys.argv[1]):
        trainer = options.pop("trainer")
        {"lightning": lightning, "accelerate": accelerate}[trainer](**options)
    os._exit(0)  # PyTorch's threads now and then abort an interpreter that ends
