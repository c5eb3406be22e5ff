"""Ray Data: what stats() of a dataset says behind a loop over its batches."""

from __future__ import annotations

import multiprocessing.dummy
import time
from dataclasses import replace
from typing import Any

import numpy as np
import ray
from observed import Loads, Loop, made, nothing, tell

#: Blocks of the data.
_BLOCKS = 16


def says(loop: Loop) -> dict[str, Any]:
    """The text of stats(), which tells what the loop waited for once the data is over."""
    sent = replace(loop, step=nothing)

    def source(rows: Any) -> Any:
        time.sleep(sent.source_s)
        return rows

    def function(rows: Any) -> Any:
        return {"x": made(sent, np.asarray(rows["id"]))}

    class Kept:
        """In an actor, which keeps what was loaded."""

        def __call__(self, rows: Any) -> Any:
            return function(rows)

    data = ray.data.range(loop.batch * loop.batches, override_num_blocks=_BLOCKS)
    if loop.source_s:
        data = data.map_batches(source, batch_size=loop.batch, concurrency=1)
    if loop.function is not None:
        called = Kept if isinstance(loop.function, Loads) else function
        data = data.map_batches(called, batch_size=loop.batch, concurrency=loop.workers)
    (iterator,) = data.streaming_split(1)  # as Ray Train gives it to a worker
    for _ in iterator.iter_batches(batch_size=loop.batch, prefetch_batches=loop.prefetch):
        loop.step()
    return {"stats": iterator.stats()}


if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR")
    tell(multiprocessing.dummy, says)
