"""Penstock's side of the workloads that compare readers of a format: `ps.read` on the peer's own files, nothing tuned."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))

import numpy as np
from common import BATCH, Feed, endless

import penstock as ps
from tokens import token_file
from work import WINDOW, Data


def mds(data: Data) -> Feed:
    """MosaicML's folder."""
    return shuffled(ps.read(str(data.place("mds", "samples"))), "mds", "label")


def recordio(data: Data) -> Feed:
    """MXNet's file, with its positions beside it."""
    columns = {"data": "data", "label": "label"}
    return shuffled(ps.read(str(data.place("recordio", "a.rec")), columns=columns), "recordio", "label")


def tokens(data: Data) -> Feed:
    """A plain file of tokens, every window at a place of its own."""
    windows = ps.read(token_file(data), format="tokens", dtype="uint16", window=WINDOW)
    return shuffled(windows, "tokens", "tokens", mode="global")


def copies(data: Data) -> Feed:
    """No loader at all: NumPy copies the same bytes, in order, into buffers that it uses again; what memory allows."""
    stored = np.fromfile(token_file(data), dtype=np.uint16)
    rows = BATCH["tokens"]
    windows = stored[: len(stored) // (rows * WINDOW) * rows * WINDOW].reshape(-1, rows, WINDOW)
    buffers = np.empty((8, rows, WINDOW), dtype=np.uint16)

    def batches() -> Iterator[np.ndarray]:
        for number, part in enumerate(windows):
            np.copyto(buffers[number % len(buffers)], part)
            yield buffers[number % len(buffers)]

    return Feed(batches=endless(batches), column=lambda batch: batch, note="no loader: NumPy copies, in order")


def table(data: Data) -> Feed:
    """Parquet files, every column an array."""
    files = [str(path) for path in data.files("parquet", "table", ".parquet")]
    return shuffled(ps.read(files), "parquet", "c00")


def shuffled(dataset: ps.Dataset, workload: str, column: str, mode: str = "block") -> Feed:
    """Epoch after epoch of one loader, as NumPy and Arrow arrays."""
    loader = ps.Loader(dataset.shuffle(seed=0, mode=mode).batch(BATCH[workload], drop_last=True), to="numpy")
    return Feed(batches=endless(lambda: loader), column=lambda batch: batch[column])


FEEDS = {
    "mds": {"exact": mds},
    "parquet": {"exact": table},
    "recordio": {"exact": recordio},
    "tokens": {"exact": tokens, "memcpy": copies},
}
