"""Ray Data: what stats() of a dataset says behind a loop over its batches."""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
import ray
from observed import Loop, asked, made

#: Batches in all, and of a block.
_BATCHES, _BLOCK = 128, 8


def says(loop: Loop) -> dict[str, Any]:
    """The text of stats(), which tells what the loop waited for once the data is over."""

    def source(rows: Any) -> Any:
        time.sleep(loop.source_s)
        return rows

    def function(rows: Any) -> Any:
        return {"x": made(loop, np.asarray(rows["id"]))}

    data = ray.data.range(loop.batch * _BATCHES, override_num_blocks=_BATCHES // _BLOCK)
    if loop.source_s:
        data = data.map_batches(source, batch_size=loop.batch, concurrency=1)
    if loop.function is not None:
        data = data.map_batches(function, batch_size=loop.batch, concurrency=loop.workers)
    (iterator,) = data.streaming_split(1)  # as Ray Train gives it to a worker
    for _ in iterator.iter_batches(batch_size=loop.batch, prefetch_batches=loop.prefetch):
        loop.step()
    return {"stats": iterator.stats()}


if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR")
    for each in asked():
        print(json.dumps({"name": each.name, "says": says(each)}), flush=True)
