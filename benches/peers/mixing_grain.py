"""Grain: MapDataset.mix over ArrayRecord files, read threads; and worker processes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import grain
import numpy as np
from array_record.python.array_record_module import ArrayRecordWriter
from common import CPUS, Feed
from mixing_common import Task, main
from resume_common import NoFeature

from mixing_rows import BATCH, LENGTH, SOURCES, WEIGHTS, source_rows

#: The defaults.
THREADS, BUFFER = 16, 500


def mixed(task: Task, *, workers: int = 0) -> Feed:
    """A permutation of each source; whole batches are decoded at once."""
    files = [str(task.data / "grain" / f"{number}.arrayrecord") for number in range(SOURCES)]
    sources = [
        grain.MapDataset.source(grain.sources.ArrayRecordDataSource(file)).shuffle(seed=number).repeat()
        for number, file in enumerate(files)
    ]
    rows = grain.MapDataset.mix(sources, weights=WEIGHTS).batch(BATCH, drop_remainder=True, batch_fn=decoded)
    batches = rows.to_iter_dataset(grain.ReadOptions(num_threads=THREADS, prefetch_buffer_size=BUFFER))
    if workers:
        batches = batches.mp_prefetch(grain.MultiprocessingOptions(num_workers=workers))
    settings = {"format": "ArrayRecord", "threads": THREADS, "workers": workers}
    return Feed(batches=batches, column=lambda batch: batch, settings=settings)


def decoded(records: Any) -> Any:
    """Records to one array."""
    return np.frombuffer(b"".join(records), dtype=np.uint16).reshape(-1, LENGTH)


def write(data: Path) -> None:
    """ArrayRecord in groups of one record, for random access, as its guide says."""
    (data / "grain").mkdir(parents=True, exist_ok=True)
    for number in range(SOURCES):
        writer = ArrayRecordWriter(str(data / "grain" / f"{number}.arrayrecord"), "group_size:1")
        for row in source_rows(data, number):
            writer.write(row.tobytes())
        writer.close()


if __name__ == "__main__":
    mixes = {
        f"threads_{THREADS}": mixed,
        f"workers_{CPUS}": partial(mixed, workers=CPUS),
    }
    none = NoFeature("Grain pads (batch_and_pad) and packs; none of its transformations looks at lengths to batch")
    main("Grain", grain.__version__, {"mix": mixes, "lengths": none}, write=write)
