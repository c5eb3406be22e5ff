"""Penstock's side of the workloads that compare readers of a format: `ps.read` on the peer's own files, nothing tuned."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))

from common import BATCH, Feed, endless

import penstock as ps
from work import Data


def tar(data: Data) -> Feed:
    """WebDataset's archives."""
    columns = {"image": "jpg", "label": "cls"}
    return shuffled(ps.read([str(path) for path in data.archives], columns=columns), "tar", "label")


def shuffled(dataset: ps.Dataset, workload: str, column: str) -> Feed:
    """Epoch after epoch of one loader, as NumPy and Arrow arrays."""
    loader = ps.Loader(dataset.shuffle(seed=0).batch(BATCH[workload], drop_last=True), to="numpy")
    return Feed(batches=endless(lambda: loader), column=lambda batch: batch[column])


FEEDS = {"tar": {"exact": tar}}
