"""Penstock's own side of the bench: the public API, nothing tuned."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))

import numpy as np
from common import BATCH, Feed, endless, main, version_of

import penstock as ps
from work import TINY_SAMPLES, Data


def photographs(data: Data) -> Feed:
    """Workload (a)."""
    train = (
        ps.read(str(data.photographs))
        .shuffle(seed=0)
        .transform(
            image=[
                ps.image.Decode(),
                ps.image.RandomResizedCrop(224),
                ps.image.RandomHorizontalFlip(),
                ps.image.Normalize(ps.image.IMAGENET),
            ]
        )
        .batch(BATCH["a"], drop_last=True)
    )
    return feed(train, "image", format="JPEG files", antialias=True)


def rows(data: Data) -> Feed:
    """Workload (b)."""
    train = ps.read([str(path) for path in data.files("b", "tfrecord", ".tfrecord")]).shuffle(seed=0)
    return feed(train.batch(BATCH["b"], drop_last=True), "floats", format="8 TFRecord files")


def tiny(_: Data) -> Feed:
    """Workload (c)."""
    train = ps.from_arrays({"x": np.arange(TINY_SAMPLES)}).shuffle(seed=0)
    return feed(train.batch(BATCH["c"], drop_last=True), "x")


def feed(train: Any, column: str, **settings: object) -> Feed:
    """Epoch after epoch of one loader, as NumPy arrays."""
    loader = ps.Loader(train, to="numpy")
    return Feed(batches=endless(lambda: loader), column=lambda batch: batch[column], settings=settings)


if __name__ == "__main__":
    feeds = {"a": {"penstock": photographs}, "b": {"penstock": rows}, "c": {"penstock": tiny}}
    main("penstock", version_of("penstock"), feeds)
