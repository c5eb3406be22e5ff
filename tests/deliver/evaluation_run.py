"""Evaluations whose results ranks gather, as a script of its own: python evaluation_run.py FOLDER; prints what it found as JSON.

The rows are numbered, and what is predicted of a row is its number.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from accelerate import Accelerator
from torch.nn.parallel import DistributedDataParallel
from torchmetrics import MeanMetric
from transformers import Trainer, TrainingArguments

import penstock as ps

FOLDER = Path(sys.argv[1])
PLANS: dict[str, tuple[int, Callable[[ps.Dataset], ps.Dataset]]] = {
    "short": (245, lambda data: data.batch(30)),
    "pad": (245, lambda data: data.batch(30, pad=True)),
    "wrap": (245, lambda data: data.batch(30, wrap=True)),
    "drop": (245, lambda data: data.batch(30, drop_last=True)),
    "per rank": (245, lambda data: data.batch(10, per_rank=True)),
    "one row": (1, lambda data: data.batch(6)),
    "filtered": (245, lambda data: data.filter(ps.col("labels") % 2 == 0).batch(30)),
    "in parts": (245, lambda data: ps.concat([data.take(40), data.skip(100)]).batch(12)),
    "ragged": (25, lambda data: data.batch_padded(12)),
}


def rows(count: int) -> ps.Dataset:
    """Rows with a number, and as many values as the number says."""
    ids = np.arange(count)
    return ps.from_arrays(
        {"labels": ids, "x": np.stack([ids, np.ones(count)], axis=1).astype(np.float32), "tokens": [[i] * (1 + i % 9) for i in range(count)]}
    )  # fmt: skip


def numbers(count: int) -> ps.Dataset:
    """The same without values of different lengths."""
    return rows(count).select("x", "labels")


class Number(torch.nn.Module):
    """Predicts the number of a row, and gives it a loss of its number."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 1, bias=False)
        self.layer.weight.data = torch.tensor([[1.0, 0.0]])

    def forward(self, x: Any, labels: Any = None, tokens: Any = None, **_: Any) -> dict[str, Any]:
        found = self.layer(x)
        values = found if tokens is None else tokens
        return {"loss": found.square().mean() * 0 + labels.float().mean(), "logits": values, "again": found[:, 0]}


class Evaluating(Trainer):
    """A Trainer with a loader for each of its datasets, which are plans here."""

    def get_train_dataloader(self) -> Any:
        return ps.Loader(self.train_dataset, to="torch")

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        return ps.Loader(eval_dataset or self.eval_dataset, to="torch")

    get_test_dataloader = get_eval_dataloader


def trainer_of(out: str, metrics: Any = None, **options: Any) -> Evaluating:
    data = {name: options.pop(name) for name in ("train_dataset", "eval_dataset") if name in options}
    args = TrainingArguments(
        str(FOLDER / out), report_to=[], use_cpu=True, disable_tqdm=True, remove_unused_columns=False, logging_strategy="no",
        ddp_backend="gloo" if "RANK" in os.environ else None, **options,
    )  # fmt: skip
    return Evaluating(model=Number(), args=args, compute_metrics=metrics, **data)


def predicted() -> dict[str, Any]:
    """What Trainer.predict gives of each plan: predictions, another output, labels, and the loss."""
    found, trainer = {}, trainer_of("predicted")
    for name, (count, plan) in PLANS.items():
        data = rows(count) if name == "ragged" else numbers(count)
        made = trainer.predict(plan(data))
        logits, again = made.predictions
        found[name] = [logits[:, 0].tolist(), again.tolist(), made.label_ids.tolist(), logits.shape[1]]
    return found


def trained() -> dict[str, Any]:
    """Evaluations while training, of which the best decides."""
    seen = []

    def count(evaluated: Any) -> dict[str, float]:
        seen.append(evaluated.label_ids.tolist())
        return {"rows": len(evaluated.label_ids), "right": float((evaluated.predictions[1] // 1e9 == 0).mean())}

    trainer = trainer_of(
        "trained", count, train_dataset=numbers(48).shuffle(seed=0).batch(12, drop_last=True),
        eval_dataset=numbers(245).batch(30), eval_strategy="steps", eval_steps=2, save_steps=2, save_strategy="steps",
        num_train_epochs=1, load_best_model_at_end=True, metric_for_best_model="rows", learning_rate=0.0,
    )  # fmt: skip
    trainer.train()
    again = [trainer.evaluate()["eval_rows"] for _ in range(2)]
    return {"seen": seen, "best": trainer.state.best_metric, "again": again}


def batch_by_batch(count: int) -> list[Any]:
    """Metrics of one batch after the other: how many rows each had, and which was the last."""
    seen = []

    def of_batch(evaluated: Any, compute_result: bool) -> dict[str, Any]:
        seen.append([len(evaluated.label_ids), bool(compute_result)])
        return {}

    trainer_of("batches", of_batch, batch_eval_metrics=True).evaluate(numbers(count).batch(30))
    return seen


def with_accelerate(accelerator: Accelerator) -> dict[str, Any]:
    """gather_for_metrics in loops of one's own."""
    data = numbers(103)

    def evaluated(loader: Any, stop: int | None = None) -> list[list[int]]:
        found = []
        for step, batch in enumerate(loader):
            if step == stop:
                break
            found.append(accelerator.gather_for_metrics(batch["labels"]).tolist())
        return found

    prepared = accelerator.prepare(ps.Loader(data.batch(24), to="torch"))
    found = {"whole": evaluated(prepared), "again": evaluated(prepared), "broken off": evaluated(prepared, 2)}
    found["active"] = accelerator.gradient_state.in_dataloader
    position = {**prepared.state_dict(), "epoch": 3, "step": 3}
    prepared.load_state_dict(position)
    found["resumed"] = evaluated(prepared)
    found["objects"] = [
        name
        for batch in prepared
        for name in accelerator.gather_for_metrics([f"row {one}" for one in batch["labels"].tolist()])
    ]
    with ps.Loader(data.batch(24), to="torch", isolation="process", ledger=FOLDER / "ledger") as isolated:
        found["isolated"] = evaluated(isolated)
    shuffled = data.shuffle(seed=0).batch(24)
    with ps.Loader(shuffled, to="torch", equal_parts=True) as loader:
        found["shuffled"] = evaluated(loader)
    with ps.Loader(shuffled, to="torch") as loader:
        found["training"] = [[len(batch["labels"]), accelerator.gradient_state.end_of_dataloader] for batch in loader]
    with ps.Loader(data.batch(24), to="torch", equal_parts=False) as loader:
        found["as it was"] = [len(batch["labels"]) for batch in loader]
    return found


def plainly() -> dict[str, Any]:
    """Loops without a trainer: rows are gathered, or sums of them."""
    ranks = dist.get_world_size()
    model = DistributedDataParallel(Number())
    mean, total, gathered = MeanMetric(), torch.zeros(2), []
    with torch.no_grad():
        for batch in ps.Loader(numbers(245).batch(30), to="torch", equal_parts=False):
            found = model(batch["x"], batch["labels"])["again"]
            mean.update(found)
            total += torch.tensor([found.sum(), len(found)])
        loader = ps.Loader(numbers(245).batch(30), to="torch", equal_parts=True)
        sums = torch.zeros(2)
        for batch in loader:
            found = model(batch["x"], batch["labels"])["again"]
            sums += torch.tensor([found[loader.is_real].sum(), loader.is_real.sum()])
            parts = [torch.empty_like(found) for _ in range(ranks)]
            dist.all_gather(parts, found)
            gathered += torch.cat(parts)[: loader.real_rows].tolist()
    for one in (total, sums):
        dist.all_reduce(one)
    return {"mean": mean.compute().item(), "sums": [total.tolist(), sums.tolist()], "gathered": gathered}


if __name__ == "__main__":
    results = {"predicted": predicted(), "trained": trained(), "batches": [batch_by_batch(245), batch_by_batch(240)]}
    accelerator = Accelerator(cpu=True)
    results["accelerate"] = with_accelerate(accelerator)
    if dist.is_initialized():
        results["plain"] = plainly()
    print(json.dumps(results))
    accelerator.end_training()
