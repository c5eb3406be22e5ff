"""Ray Data on this machine alone: Parquet read in tasks, shuffled by a buffer or as a whole, iterated in batches of NumPy arrays; photographs as its own image benchmark has them."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from functools import partial
from typing import Any

import fsspec.implementations.http  # noqa: F401  # Ray's threads import it at once, and one of them may find half of it
import numpy as np
import ray
import ray.data
from common import BATCH, CPUS, Feed, main
from torch_photograph import preparation

from work import Data

#: Rows of the local shuffle buffer, as the guide's examples have it: some batches.
BUFFER = 10_000
#: Batches that are fetched ahead, as in Ray's own training benchmarks.
PREFETCH = 4
#: Passes over the photographs that make one epoch, since the start of an epoch is not what is measured.
PASSES = 8


def start() -> None:
    """Ray on this machine."""
    ray.init("local", num_cpus=CPUS, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False


def batches(data: Data, **arguments: Any) -> Iterator[Any]:
    """Epoch after epoch of the table."""
    start()
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


def photographs(data: Data, *, workload: str) -> Feed:
    """Workloads (cluster-…), as a rank of Ray Train gets them, decoded by torchvision. `read_images` with Pillow takes half as much CPU time again."""
    start()
    prepare = preparation(normalise=workload == "cluster-float32")
    labels = {str(path): label for path, label in data.jpegs()}

    def prepare_all(batch: dict[str, Any]) -> dict[str, Any]:
        pixels = np.stack([prepare(encoded).numpy() for encoded in batch["bytes"]])
        return {"image": pixels, "label": np.array([labels[path] for path in batch["path"]])}

    read = ray.data.read_binary_files([*labels] * PASSES, include_paths=True, shuffle="files")
    (share,) = read.map_batches(prepare_all, batch_size=None).streaming_split(1)

    def epochs() -> Iterator[Any]:
        while True:
            yield from share.iter_torch_batches(batch_size=BATCH[workload], drop_last=True, prefetch_batches=PREFETCH)

    settings = {"format": "JPEG files", "prefetch_batches": PREFETCH, "streaming_split": 1}
    return Feed(batches=epochs(), column=lambda batch: batch["image"], settings=settings)


if __name__ == "__main__":
    feeds = {
        "parquet": {"local_shuffle": local, "unshuffled": unshuffled},
        "cluster-uint8": {"streaming_split": partial(photographs, workload="cluster-uint8")},
        "cluster-float32": {"streaming_split": partial(photographs, workload="cluster-float32")},
    }
    main("Ray Data", ray.__version__, feeds)
