"""LitData: CombinedStreamingDataset of chunks of tokens on the local disk, TokensLoader, StreamingDataLoader."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import litdata
import torch
from common import CPUS, Feed, endless, version_of
from feed_litdata import load
from mixing_common import Task, main
from resume_common import NoFeature

from mixing_rows import LENGTH, SOURCES, WEIGHTS, source_rows

#: Rows that are written at a time, and of a chunk.
PART, CHUNK = 250, 1_000


def mixed(task: Task, *, workers: int) -> Feed:
    """Until a source ends; then anew."""
    sources = [
        litdata.StreamingDataset(
            str(task.data / "litdata" / str(number)),
            item_loader=litdata.TokensLoader(block_size=LENGTH),
            shuffle=True,
            drop_last=True,
        )
        for number in range(SOURCES)
    ]
    dataset = litdata.CombinedStreamingDataset(sources, weights=WEIGHTS, iterate_over_all=False)
    loader = load(dataset, "tokens", workers)
    settings = {"format": "LitData chunks", "workers": workers, "item_loader": "TokensLoader"}
    return Feed(batches=endless(lambda: loader), column=lambda batch: batch, settings=settings)


def _parts(number: int, data: Path) -> Iterator[torch.Tensor]:
    rows = source_rows(data, number)
    for first in range(0, len(rows), PART):
        yield torch.from_numpy(rows[first : first + PART].reshape(-1))


def write(data: Path) -> None:
    """Chunks of 4 MB, so that both workers have some of every source."""
    for number in range(SOURCES):
        litdata.optimize(
            functools.partial(_parts, data=data),
            [number],
            str(data / "litdata" / str(number)),
            num_workers=1,
            chunk_size=CHUNK * LENGTH,
            item_loader=litdata.TokensLoader(),
            mode="overwrite",
        )


if __name__ == "__main__":
    mixes = {f"workers_{workers}": functools.partial(mixed, workers=workers) for workers in (CPUS, 0)}
    none = NoFeature("no batching by length; a collate function pads what a batch happens to hold")
    main("LitData", version_of("litdata"), {"mix": mixes, "lengths": none}, write=write)
