"""Penstock's side of the workloads of formats: the public API, nothing tuned."""

from __future__ import annotations

from functools import partial
from typing import Any

from common import BATCH, Feed, endless

import penstock as ps
from work import Data


def json_lines(data: Data, *, mode: str) -> Feed:
    """Workload (jsonl)."""
    files = [str(path) for path in data.files("jsonl", "lines", ".jsonl")]
    dataset = ps.read(files, columns=["id", "text", "score", "label"]).shuffle(seed=0, mode=mode)
    return feed(dataset.batch(BATCH["jsonl"], drop_last=True), "id", format="JSON lines", shuffle=mode)


def feed(train: Any, column: str, **settings: object) -> Feed:
    """Epoch after epoch of one loader, as NumPy arrays."""
    loader = ps.Loader(train, to="numpy")
    return Feed(batches=endless(lambda: loader), column=lambda batch: batch[column], settings=settings)


FEEDS = {"jsonl": {"block": partial(json_lines, mode="block"), "global": partial(json_lines, mode="global")}}
