"""MosaicML Streaming: MDS shards on the local disk, Streams with proportions, under PyTorch's DataLoader."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch
from common import CPUS, Feed, endless, version_of
from mixing_common import Task, main
from resume_common import NoFeature
from streaming import MDSWriter, Stream, StreamingDataset
from streaming.base.util import clean_stale_shared_memory
from torch.utils.data import DataLoader

from mixing_rows import BATCH, LENGTH, SOURCES, WEIGHTS, source_rows


def folder(data: Path, number: int) -> str:
    """One source's shards."""
    return str(data / "mosaicml" / str(number))


def mixed(task: Task, *, workers: int) -> Feed:
    """Its default shuffle (py1e)."""
    clean_stale_shared_memory()
    if workers:
        torch.set_num_threads(1)
    streams = [Stream(local=folder(task.data, number), proportion=weight) for number, weight in enumerate(WEIGHTS)]
    loader = DataLoader(
        StreamingDataset(streams=streams, shuffle=True, batch_size=BATCH),
        batch_size=BATCH,
        num_workers=workers,
        drop_last=True,
        persistent_workers=workers > 0,
        prefetch_factor=4 if workers else None,
    )
    settings = {"format": "MDS", "workers": workers}
    return Feed(batches=endless(lambda: loader), column=lambda batch: batch["tokens"], settings=settings)


def write(data: Path) -> None:
    """MDS, in shards of its default size."""
    for number in range(SOURCES):
        columns = {"tokens": f"ndarray:uint16:{LENGTH}"}
        with MDSWriter(out=folder(data, number), columns=columns, exist_ok=True) as writer:
            for row in source_rows(data, number):
                writer.write({"tokens": row})


if __name__ == "__main__":
    mixes = {f"workers_{workers}": partial(mixed, workers=workers) for workers in (CPUS, 0)}
    none = NoFeature(
        'no batching by length; batching_method="per_stream" takes a batch of one Stream, whose files one has to sort by length oneself'
    )
    main("MosaicML Streaming", version_of("mosaicml-streaming"), {"mix": mixes, "lengths": none}, write=write)
