"""WebDataset: tar shards dealt to workers, batches made inside the workers, torchvision's transforms."""

from __future__ import annotations

import io
import tarfile
from typing import Any

import numpy as np
import torch
import webdataset as wds
from common import BATCH, CPUS, Feed, main, version_of
from torch_photograph import preparation

from work import Data

SHARDS = 12


def photographs(data: Data, *, workers: int) -> Feed:
    """Workload (a)."""
    if workers:
        torch.set_num_threads(1)
    prepare = preparation()

    def sample(encoded: bytes, label: bytes) -> tuple[torch.Tensor, int]:
        return prepare(encoded), int(label)

    files = [str(path) for path in data.archives]
    dataset = (
        wds.WebDataset(files, resampled=True, shardshuffle=False, nodesplitter=wds.split_by_node)
        .shuffle(512)
        .to_tuple("jpg", "cls")
        .map(lambda fields: sample(*fields))
        .batched(BATCH["a"], partial=False)
    )
    loader = wds.WebLoader(dataset, batch_size=None, num_workers=workers, prefetch_factor=4 if workers else None)
    settings = {
        "format": f"{SHARDS} tar files",
        "workers": workers,
        "transforms": "torchvision.transforms.v2 on tensors",
        "antialias": True,
    }
    return Feed(batches=loader, column=lambda batch: batch[0], settings=settings)


def read(data: Data, *, workers: int) -> Feed:
    """Workload (tar): the members' bytes as they are, and the label as an int64."""
    dataset = (
        wds.WebDataset(
            [str(path) for path in data.archives],
            resampled=True,
            shardshuffle=False,
            nodesplitter=wds.split_by_node,
            empty_check=False,
        )
        .shuffle(512)
        .to_tuple("jpg", "cls")
        .map_tuple(None, int)
        .batched(BATCH["tar"], partial=False)
    )
    loader = wds.WebLoader(dataset, batch_size=None, num_workers=workers, prefetch_factor=4 if workers else None)
    settings = {"format": f"{SHARDS} tar files", "workers": workers, "shuffle": "a buffer of 512"}
    return Feed(batches=loader, column=lambda batch: batch[1], settings=settings)


def write(data: Data) -> None:
    """(a) as tar files: 00017.jpg beside 00017.cls."""
    photos = data.jpegs()
    order = np.random.default_rng(0).permutation(len(photos))
    for shard in range(SHARDS):
        with tarfile.open(data.place("a", f"webdataset/part-{shard:02d}.tar"), "w") as archive:
            for number in order[shard::SHARDS]:
                path, label = photos[number]
                _add(archive, f"{number:05d}.jpg", path.read_bytes())
                _add(archive, f"{number:05d}.cls", str(label).encode())


def _add(archive: Any, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


if __name__ == "__main__":
    feeds = {
        "a": {
            f"workers_{CPUS}": lambda data: photographs(data, workers=CPUS),
        },
        "tar": {
            "workers_0": lambda data: read(data, workers=0),
            f"workers_{CPUS}": lambda data: read(data, workers=CPUS),
        },
    }
    main("WebDataset", version_of("webdataset"), feeds, write={"a": write})
