"""MosaicML Streaming: MDS shards on the local disk, StreamingDataset under PyTorch's DataLoader, torchvision's transforms."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from common import BATCH, CPUS, Feed, endless, main, version_of
from samples import samples
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


def load(dataset: StreamingDataset, workload: str, workers: int, collate: Any = None) -> DataLoader[Any]:
    """The data set under a DataLoader; the default collation unless another is given."""
    if workers:
        torch.set_num_threads(1)
    return DataLoader(
        dataset,
        batch_size=BATCH[workload],
        num_workers=workers,
        collate_fn=collate,
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
        batches=endless(lambda: loader),
        column=lambda batch: batch[column],
        settings=settings,
        note="from MDS files",
        samples=TINY_SAMPLES_IN_FILES if workload == "c" else None,
    )


def listed(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """A batch: labels as a tensor, bytes and captions as lists."""
    label = torch.tensor([row["label"] for row in rows])
    return {"label": label, "data": [row["data"] for row in rows], "caption": [row["caption"] for row in rows]}


def formats(data: Data, *, workers: int) -> Feed:
    """Workload mds: nothing but reading."""
    clean_stale_shared_memory()
    dataset = StreamingDataset(local=str(data.place("mds", "samples")), shuffle=True, batch_size=BATCH["mds"])
    loader = load(dataset, "mds", workers, listed)
    return Feed(batches=endless(lambda: loader), column=lambda batch: batch["label"], settings={"workers": workers})


def write_samples(data: Data) -> None:
    """Workload mds."""
    columns = {"data": "bytes", "label": "int", "caption": "str"}
    with MDSWriter(out=str(data.place("mds", "samples")), columns=columns) as out:
        for content, label, caption in samples():
            out.write({"data": content, "label": label, "caption": caption})


def write(data: Data) -> None:
    """Workloads (a), (b) and (c) as MDS."""
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
        "mds": {
            f"workers_{CPUS}": lambda data: formats(data, workers=CPUS),
            "workers_0": lambda data: formats(data, workers=0),
        },
    }
    main("MosaicML Streaming", version_of("mosaicml-streaming"), feeds, write={"a": write, "mds": write_samples})
