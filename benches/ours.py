"""Penstock's own side of the bench: the public API, nothing tuned."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))

import numpy as np
from common import BATCH, Feed, main, version_of

import ours_cluster
import ours_images
import ours_tables
import penstock as ps
from ours_formats import FEEDS, feed
from penstock.core.cpus import usable_cpus
from penstock.tools.jpeg_index import build_entry_points
from work import TINY_SAMPLES, TINY_SAMPLES_IN_FILES, Data, work_folder


def photographs(data: Data, **decode: Any) -> Feed:
    """Workload (a)."""
    train = (
        ps.read(str(data.photographs))
        .shuffle(seed=0)
        .transform(
            image=[
                ps.image.Decode(**decode),
                ps.image.RandomResizedCrop(224),
                ps.image.RandomHorizontalFlip(),
                ps.image.Normalize(ps.image.IMAGENET),
            ]
        )
        .batch(BATCH["a"], drop_last=True)
    )
    return feed(train, "image", format="JPEG files", antialias=True, **decode)


def indexed(data: Data, **decode: Any) -> Feed:
    """Workload (a) with the JPEG index, which is made first if it is not there."""
    dataset = ps.read(str(data.photographs))
    build_entry_points(dataset.source, dataset.read_ranges, "image", threads=usable_cpus())
    return photographs(data, **decode)


def rows(data: Data) -> Feed:
    """Workload (b)."""
    train = ps.read([str(path) for path in data.files("b", "tfrecord", ".tfrecord")]).shuffle(seed=0)
    return feed(train.batch(BATCH["b"], drop_last=True), "floats", format="8 TFRecord files")


def tiny(_: Data, *, samples: int) -> Feed:
    """Workload (c)."""
    train = ps.from_arrays({"x": np.arange(samples)}).shuffle(seed=0)
    return replace(feed(train.batch(BATCH["c"], drop_last=True), "x"), samples=samples)


if __name__ == "__main__":
    os.environ["XDG_CACHE_HOME"] = str(work_folder() / "cache")
    pictures = {
        "exact": partial(photographs, entry_points="off"),
        "exact, JPEG index": indexed,
        "fast": partial(photographs, fast=True, entry_points="off"),
        "fast, JPEG index": partial(indexed, fast=True),
    }
    numbers = {
        "10 million": partial(tiny, samples=TINY_SAMPLES),
        "1 million": partial(tiny, samples=TINY_SAMPLES_IN_FILES),
    }
    feeds = {
        "a": pictures,
        "b": {"exact": rows},
        "c": numbers,
        **FEEDS,
        **ours_images.FEEDS,
        **ours_cluster.FEEDS,
        **ours_tables.FEEDS,
    }
    main("penstock", version_of("penstock"), feeds)
