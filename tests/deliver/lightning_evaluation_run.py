"""Lightning's validate and predict, as a script of its own: python lightning_evaluation_run.py FOLDER RANKS.

Each rank writes what it found to FOLDER/RANK.json. What is predicted of a row is its number.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import BasePredictionWriter
from torchmetrics import MeanMetric

import penstock as ps


def loader_of(**options: Any) -> ps.Loader:
    ids = np.arange(245)
    return ps.Loader(ps.from_arrays({"id": ids, "x": ids.astype(np.float32)[:, None]}).batch(30), to="torch", **options)


class Number(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1, bias=False)
        self.layer.weight.data[:] = 1
        self.metric = MeanMetric()
        self.gathered: list[float] = []

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        numbers = self.layer(batch["x"])[:, 0]
        self.metric.update(numbers)
        self.log("metric", self.metric, on_epoch=True)
        self.log("logged", numbers.mean(), on_epoch=True, sync_dist=True, batch_size=len(numbers))

    def test_step(self, batch: Any, batch_idx: int) -> None:
        numbers = self.layer(batch["x"])[:, 0]
        loader = self.trainer.test_dataloaders
        self.gathered += self.all_gather(numbers).reshape(-1)[: loader.real_rows].tolist()  # type: ignore[union-attr]

    def predict_step(self, batch: Any, batch_idx: int) -> Any:
        return self.layer(batch["x"])[:, 0]


class Writer(BasePredictionWriter):
    def __init__(self) -> None:
        super().__init__("batch_and_epoch")
        self.written: list[Any] = []
        self.of_epoch: Any = None

    def write_on_batch_end(self, trainer: Any, module: Any, prediction: Any, batch_indices: Any, *_: Any) -> None:
        self.written.append([list(batch_indices), prediction.tolist()])

    def write_on_epoch_end(self, trainer: Any, module: Any, predictions: Any, batch_indices: Any) -> None:
        self.of_epoch = [batch_indices[0], [one.tolist() for one in predictions]]


if __name__ == "__main__":
    folder, ranks = Path(sys.argv[1]), int(sys.argv[2])
    writer, model = Writer(), Number()
    trainer = pl.Trainer(
        accelerator="cpu", devices=ranks, strategy="ddp" if ranks > 1 else "auto", logger=False, callbacks=[writer],
        enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False,
    )  # fmt: skip
    (validated,) = trainer.validate(model, loader_of(), verbose=False)
    trainer.test(model, loader_of(equal_parts=True), verbose=False)
    predictions = trainer.predict(model, loader_of())
    found = {
        "validated": validated, "gathered": model.gathered, "written": writer.written, "of epoch": writer.of_epoch,
        "predicted": [one.tolist() for one in predictions or []],
    }  # fmt: skip
    (folder / f"{trainer.global_rank}.json").write_text(json.dumps(found))
