"""Penstock's side of the workloads that compare readers of a format: `ps.read` on the peer's own files, nothing tuned."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))

from common import BATCH, Feed, endless

import penstock as ps
from work import Data


def mds(data: Data) -> Feed:
    """MosaicML's folder."""
    return shuffled(ps.read(str(data.place("mds", "samples"))), "mds", "label")


def recordio(data: Data) -> Feed:
    """MXNet's file, with its positions beside it."""
    columns = {"data": "data", "label": "label"}
    return shuffled(ps.read(str(data.place("recordio", "a.rec")), columns=columns), "recordio", "label")


def shuffled(dataset: ps.Dataset, workload: str, column: str) -> Feed:
    """Epoch after epoch of one loader, as NumPy and Arrow arrays."""
    loader = ps.Loader(dataset.shuffle(seed=0).batch(BATCH[workload], drop_last=True), to="numpy")
    return Feed(batches=endless(lambda: loader), column=lambda batch: batch[column])


FEEDS = {"mds": {"exact": mds}, "recordio": {"exact": recordio}}
