"""MXNet's own RecordIO reader: indexed random access and sequential reading, bytes and labels alone."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice
from typing import Any

import mxnet as mx
import numpy as np
from common import BATCH, Feed, endless, main
from samples import samples

from work import Data

SIZE = BATCH["recordio"]


def stack(rows: list[tuple[Any, bytes]]) -> dict[str, Any]:
    """A batch: labels as an array, bytes as a list."""
    return {
        "label": np.array([header.label for header, _ in rows], dtype=np.float32),
        "data": [data for _, data in rows],
    }


def shuffled(data: Data) -> Feed:
    """MXIndexedRecordIO.read_idx in an order drawn each epoch."""
    reader = mx.recordio.MXIndexedRecordIO(
        str(data.place("recordio", "a.idx")), str(data.place("recordio", "a.rec")), "r"
    )
    keys, rng = list(reader.keys), random.Random(0)

    def epoch() -> Iterator[dict[str, Any]]:
        rng.shuffle(keys)
        for at in range(0, len(keys) - SIZE + 1, SIZE):
            yield stack([mx.recordio.unpack(reader.read_idx(key)) for key in keys[at : at + SIZE]])

    return Feed(batches=endless(epoch), column=lambda batch: batch["label"], settings={"reader": "MXIndexedRecordIO"})


def sequential(data: Data) -> Feed:
    """MXRecordIO.read from the first record to the last, not shuffled."""
    reader = mx.recordio.MXRecordIO(str(data.place("recordio", "a.rec")), "r")

    def epoch() -> Iterator[dict[str, Any]]:
        reader.reset()
        records = iter(reader.read, None)
        while len(rows := [mx.recordio.unpack(record) for record in islice(records, SIZE)]) == SIZE:
            yield stack(rows)

    return Feed(
        batches=endless(epoch),
        column=lambda batch: batch["label"],
        settings={"reader": "MXRecordIO"},
        note="not shuffled",
    )


def write(data: Data) -> None:
    """The samples as RecordIO, with a file of positions."""
    out = mx.recordio.MXIndexedRecordIO(str(data.place("recordio", "a.idx")), str(data.place("recordio", "a.rec")), "w")
    for number, (content, label, _) in enumerate(samples()):
        out.write_idx(number, mx.recordio.pack(mx.recordio.IRHeader(0, float(label), number, 0), content))
    out.close()


if __name__ == "__main__":
    feeds = {"recordio": {"read_idx, shuffled": shuffled, "read, in order": sequential}}
    main("MXNet", mx.__version__, feeds, write={"recordio": write})
