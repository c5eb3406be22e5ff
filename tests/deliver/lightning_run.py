"""Trainings with Lightning's Trainer, as a script of its own: python lightning_run.py '[{"out": "a", "devices": 2}, …]'.

Each rank writes what every step saw to OUT/PHASE-RANK.jsonl: [epoch, step, ids].
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint

import penstock as ps

TRAIN, VALIDATION, BATCH = 52, 20, 8


def loader_of(samples: int, seed: int | None = None) -> ps.Loader:
    ids = np.arange(samples)
    dataset = ps.from_arrays({"id": ids, "x": np.repeat(ids, 4).reshape(samples, 4).astype(np.float32) / samples})
    if seed is not None:
        dataset = dataset.shuffle(seed=seed)
    return ps.Loader(dataset.batch(BATCH, drop_last=seed is not None), to="torch")


class Data(pl.LightningDataModule):
    def train_dataloader(self) -> Any:
        return loader_of(TRAIN, seed=0)

    def val_dataloader(self) -> Any:
        return loader_of(VALIDATION)


class Model(pl.LightningModule):
    def __init__(self, out: str) -> None:
        super().__init__()
        self.layer, self.out = torch.nn.Linear(4, 1), Path(out)

    def note(self, phase: str, batch: Any, step: int) -> None:
        ids = {name: part["id"].tolist() for name, part in batch.items()} if "id" not in batch else batch["id"].tolist()
        with (self.out / f"{phase}-{self.global_rank}.jsonl").open("a") as file:
            file.write(json.dumps([self.current_epoch, step, ids]) + "\n")

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        self.note("train", batch, batch_idx)
        parts = [batch] if "id" in batch else [*batch.values()]
        return sum(self.layer(part["x"]).square().mean() for part in parts)

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        if not self.trainer.sanity_checking:
            self.note("val", batch, batch_idx)

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.01)


class ModelWithData(Model):
    train_dataloader, val_dataloader = Data.train_dataloader, Data.val_dataloader  # type: ignore[assignment]


def run(
    out: str,
    devices: int = 1,
    strategy: str = "auto",
    given: str = "loaders",
    resume: str | None = None,
    save: str | None = None,
    at_epoch_end: bool = False,
    **options: Any,
) -> None:
    Path(out).mkdir(parents=True, exist_ok=True)
    saving = {"save_on_train_epoch_end": True} if at_epoch_end else {"every_n_train_steps": 1}
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=devices,
        strategy=strategy,
        callbacks=[ModelCheckpoint(save, "{step}", save_top_k=-1, **saving)] if save else [],
        enable_checkpointing=bool(save),
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **{"max_epochs": 3, **options},
    )
    model = ModelWithData(out) if given == "model" else Model(out)
    train: Any = {
        "loaders": lambda: (loader_of(TRAIN, seed=0), loader_of(VALIDATION)),
        "several": lambda: ({"long": loader_of(TRAIN, seed=0), "short": loader_of(VALIDATION, seed=1)},),
        "module": lambda: (Data(),),
        "model": lambda: (),
    }[given]()
    if given == "module":
        trainer.fit(model, datamodule=train[0], ckpt_path=resume, weights_only=False)
    else:
        trainer.fit(model, *train, ckpt_path=resume, weights_only=False)


if __name__ == "__main__":
    for options in json.loads(sys.argv[1]):
        run(**options)
