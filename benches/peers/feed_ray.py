"""Ray Data on this machine alone: Parquet read in tasks, shuffled by a buffer or as a whole, iterated in batches of NumPy arrays."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from typing import Any

import fsspec.implementations.http  # noqa: F401  # Ray's threads import it at once, and one of them may find half of it
import ray
import ray.data
from common import BATCH, CPUS, Feed, main

from work import Data

#: Rows of the local shuffle buffer, as the guide's examples have it: some batches.
BUFFER = 10_000


def batches(data: Data, **arguments: Any) -> Iterator[Any]:
    """Epoch after epoch of the table."""
    ray.init(num_cpus=CPUS, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    files = [str(path) for path in data.files("parquet", "table", ".parquet")]
    for epoch in itertools.count():
        rows = ray.data.read_parquet(files, shuffle=ray.data.FileShuffleConfig(seed=epoch))
        yield from rows.iter_batches(batch_size=BATCH["parquet"], batch_format="numpy", drop_last=True, **arguments)


def local(data: Data) -> Feed:
    """Workload (parquet) with a local shuffle buffer."""
    found = batches(data, local_shuffle_buffer_size=BUFFER, local_shuffle_seed=0, prefetch_batches=4)
    return Feed(batches=found, column=lambda batch: batch["c00"], settings={"buffer": BUFFER}, note="shuffle buffer")


def unshuffled(data: Data) -> Feed:
    """Workload (parquet) with files in random order only: what reading alone costs."""
    note = "rows not shuffled"
    return Feed(batches=batches(data, prefetch_batches=4), column=lambda batch: batch["c00"], settings={}, note=note)


if __name__ == "__main__":
    main("Ray Data", ray.__version__, {"parquet": {"local_shuffle": local, "unshuffled": unshuffled}})
