"""A training with Accelerate, as a script of its own: python accelerate_run.py FOLDER; prints what it saw as JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator, skip_first_batches

import penstock as ps

ids = np.arange(52)
x = np.repeat(ids, 4).reshape(52, 4).astype(np.float32) / 52
loader = ps.Loader(ps.from_arrays({"id": ids, "x": x}).shuffle(seed=0).batch(8, drop_last=True), to="torch")
accelerator = Accelerator(cpu=True)
layer = torch.nn.Linear(4, 1)
model, optimizer, prepared = accelerator.prepare(layer, torch.optim.SGD(layer.parameters(), lr=0.01), loader)
accelerator.register_for_checkpointing(prepared)


def train(first: int, stop: int | None = None) -> list[Any]:
    seen = []
    for epoch in range(first, 2):
        prepared.set_epoch(epoch)
        for batch in prepared:
            loss = model(batch["x"]).square().mean()
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            gathered = accelerator.gather_for_metrics(batch["id"]).tolist()
            seen.append([epoch, batch["id"].tolist(), gathered])
            if len(seen) == stop:
                accelerator.save_state(sys.argv[1])
                accelerator.wait_for_everyone()
                return seen
    return seen


before = train(0, 4)
elsewhere = list(prepared)  # another epoch, before the state is loaded
accelerator.load_state(sys.argv[1])
after = train(0)
try:
    skipped = str([batch["id"].tolist() for batch in skip_first_batches(prepared, 2)])
except ps.PenstockError as error:
    skipped = str(error)
print(json.dumps({"same": prepared is loader, "seen": before + after, "skipped": skipped}))
accelerator.end_training()
