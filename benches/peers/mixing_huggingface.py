"""Hugging Face datasets: interleave_datasets over Arrow files that are mapped, map-style by permutations and iterable by shuffle buffers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
from common import Feed
from mixing_common import Task, main
from resume_common import NoFeature

from mixing_rows import BATCH, LENGTH, SOURCES, WEIGHTS, source_rows

SHARDS, BUFFER = 4, 1_000


def opened(data: Path) -> list[datasets.Dataset]:
    """Every source."""
    return [datasets.load_from_disk(str(data / "huggingface" / str(number))) for number in range(SOURCES)]


def mapped(task: Task, *, kind: str, **options: Any) -> Feed:
    """A permutation of each source, drawn and mixed anew each epoch."""

    def batches() -> Iterator[Any]:
        sources = opened(task.data)
        for epoch in itertools.count():
            shuffled = [source.shuffle(seed=epoch, keep_in_memory=True) for source in sources]
            mix = datasets.interleave_datasets(shuffled, probabilities=list(WEIGHTS), seed=epoch)
            yield from mix.with_format(kind, **options).iter(BATCH, drop_last_batch=True)

    return Feed(batches=batches(), column=rows_of, settings={"format": f"Arrow, as {kind}"})


def streamed(task: Task) -> Feed:
    """A shuffle buffer for each source. As Arrow: a stream's NumPy arrays are int64, whatever is stored."""
    sources = [source.to_iterable_dataset(num_shards=SHARDS) for source in opened(task.data)]
    shuffled = [source.shuffle(seed=0, buffer_size=BUFFER) for source in sources]
    mix = datasets.interleave_datasets(shuffled, probabilities=list(WEIGHTS), seed=0).with_format("arrow")

    def batches() -> Iterator[Any]:
        for epoch in itertools.count():
            mix.set_epoch(epoch)
            yield from mix.iter(BATCH, drop_last_batch=True)

    return Feed(batches=batches(), column=rows_of, settings={"format": "Arrow, as arrow", "buffer": BUFFER})


def rows_of(batch: Any) -> Any:
    """The rows of a batch, of an Arrow table too."""
    if not isinstance(batch, pa.Table):
        return batch["tokens"]
    return np.concatenate([part.flatten().to_numpy() for part in batch["tokens"].chunks]).reshape(-1, LENGTH)


def write(data: Path) -> None:
    """Arrow files of lists of one size."""
    for number in range(SOURCES):
        tokens = pa.array(source_rows(data, number).reshape(-1))
        table = pa.table({"tokens": pa.FixedSizeListArray.from_arrays(tokens, LENGTH)})
        datasets.Dataset(table).save_to_disk(str(data / "huggingface" / str(number)))


if __name__ == "__main__":
    datasets.disable_progress_bars()
    mixes = {
        "map-style, numpy": partial(mapped, kind="numpy", dtype=np.uint16),
        "map-style, arrow": partial(mapped, kind="arrow"),
        "iterable, arrow": streamed,
    }
    none = NoFeature("no batching by length; the group_by_length sampler is Transformers' Trainer's")
    main("Hugging Face datasets", datasets.__version__, {"mix": mixes, "lengths": none}, write=write)
