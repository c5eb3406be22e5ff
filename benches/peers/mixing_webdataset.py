"""WebDataset: RandomMix of tar shards, a shuffle buffer a source, batches made inside the workers."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch
import webdataset as wds
from common import CPUS, Feed, version_of
from mixing_common import Task, main
from resume_common import NoFeature

from mixing_rows import BATCH, LENGTH, SOURCES, WEIGHTS, source_rows

SHARDS, BUFFER = 4, 1_000


def source(data: Path, number: int) -> Any:
    """One source's rows for ever, from shards drawn at random."""
    files = [str(data / "webdataset" / f"{number}-{shard}.tar") for shard in range(SHARDS)]
    rows = wds.WebDataset(files, resampled=True, shardshuffle=False, nodesplitter=wds.split_by_node, empty_check=False)
    return rows.shuffle(BUFFER).to_tuple("bin")


def mixed(task: Task, *, workers: int) -> Feed:
    """Whole batches are decoded at once."""
    mix = wds.RandomMix([source(task.data, number) for number in range(SOURCES)], list(WEIGHTS))
    batches = wds.DataPipeline(mix, wds.batched(BATCH, collation_fn=decoded, partial=False))
    loader = wds.WebLoader(batches, batch_size=None, num_workers=workers, prefetch_factor=4 if workers else None)
    settings = {"format": f"{SHARDS} tar files a source", "workers": workers, "buffer": BUFFER}
    return Feed(batches=loader, column=lambda batch: batch, settings=settings)


def decoded(rows: Any) -> torch.Tensor:
    """Members to one tensor."""
    joined = bytearray(b"".join(member for (member,) in rows))
    return torch.frombuffer(joined, dtype=torch.uint16).reshape(-1, LENGTH)


def write(data: Path) -> None:
    """Tar files of the rows' bytes."""
    (data / "webdataset").mkdir(parents=True, exist_ok=True)
    for number in range(SOURCES):
        rows = source_rows(data, number)
        for shard in range(SHARDS):
            with wds.TarWriter(str(data / "webdataset" / f"{number}-{shard}.tar")) as writer:
                for row in range(shard, len(rows), SHARDS):
                    writer.write({"__key__": f"{row:06}", "bin": rows[row].tobytes()})


if __name__ == "__main__":
    mixes = {f"workers_{workers}": partial(mixed, workers=workers) for workers in (CPUS, 0)}
    none = NoFeature("no batching by length; batched() takes rows as they come")
    main("WebDataset", version_of("webdataset"), {"mix": mixes, "lengths": none}, write=write)
