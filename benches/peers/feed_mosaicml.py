"""MosaicML Streaming: MDS shards on the local disk, StreamingDataset under PyTorch's DataLoader, torchvision's transforms."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from common import BATCH, CPUS, Feed, endless, main, version_of
from streaming import MDSWriter, StreamingDataset
from streaming.base.util import clean_stale_shared_memory
from torch.utils.data import DataLoader
from torch_photograph import preparation

from work import FLOATS, INTS, TINY_SAMPLES_IN_FILES, Data

PASSES = 50


class Photographs(StreamingDataset):
    """JPEG bytes in, a normalised tensor out."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.prepare = preparation()

    def __getitem__(self, at: int) -> Any:
        row = super().__getitem__(at)
        return self.prepare(row["image"]), row["label"]


def load(dataset: StreamingDataset, workload: str, workers: int) -> DataLoader[Any]:
    """The data set under a DataLoader; the default collation."""
    if workers:
        torch.set_num_threads(1)
    return DataLoader(
        dataset,
        batch_size=BATCH[workload],
        num_workers=workers,
        drop_last=True,
        persistent_workers=workers > 0,
        prefetch_factor=4 if workers else None,
    )


def photographs(data: Data, *, workers: int) -> Feed:
    """Workload (a)."""
    clean_stale_shared_memory()
    local = data.place("a", "mds")
    dataset = Photographs(
        local=str(local), shuffle=True, shuffle_algo="py1s", batch_size=BATCH["a"], epoch_size=PASSES * 2_048
    )
    loader = load(dataset, "a", workers)
    settings = {
        "format": "MDS",
        "workers": workers,
        "transforms": "torchvision.transforms.v2 on tensors",
        "antialias": True,
    }
    return Feed(batches=endless(lambda: loader), column=lambda batch: batch[0], settings=settings)


def plain(data: Data, workload: str, column: str, *, workers: int) -> Feed:
    """Workloads (b) and (c), in MDS."""
    clean_stale_shared_memory()
    local = data.place(workload, "mds")
    loader = load(StreamingDataset(local=str(local), shuffle=True, batch_size=BATCH[workload]), workload, workers)
    settings = {"format": "MDS", "workers": workers}
    return Feed(
        batches=endless(lambda: loader), column=lambda batch: batch[column], settings=settings, note="from MDS files"
    )


def write(data: Data) -> None:
    """All three workloads as MDS."""
    photos = data.jpegs()
    with MDSWriter(
        out=str(data.place("a", "mds")), columns={"image": "bytes", "label": "int"}, size_limit=1 << 24
    ) as out:
        for number in np.random.default_rng(0).permutation(len(photos)):
            path, label = photos[number]
            out.write({"image": path.read_bytes(), "label": label})
    arrays = np.load(data.rows)
    floats, ints, labels = arrays["floats"], arrays["ints"], arrays["label"]
    columns = {"floats": f"ndarray:float32:{FLOATS}", "ints": f"ndarray:int64:{INTS}", "label": "int"}
    with MDSWriter(out=str(data.place("b", "mds")), columns=columns) as out:
        for row in range(len(labels)):
            out.write({"floats": floats[row], "ints": ints[row], "label": int(labels[row])})
    with MDSWriter(out=str(data.place("c", "mds")), columns={"x": "int"}) as out:
        for number in range(TINY_SAMPLES_IN_FILES):
            out.write({"x": number})


if __name__ == "__main__":
    feeds = {
        "a": {
            f"workers_{CPUS}": lambda data: photographs(data, workers=CPUS),
        },
        "b": {f"workers_{CPUS}": lambda data: plain(data, "b", "floats", workers=CPUS)},
        "c": {
            f"workers_{CPUS}": lambda data: plain(data, "c", "x", workers=CPUS),
        },
    }
    main("MosaicML Streaming", version_of("mosaicml-streaming"), feeds, write=write)
