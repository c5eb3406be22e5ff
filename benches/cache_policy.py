"""What share of reads a cache answers that is smaller than the data: by policy, simulated, and by running ours.

    python benches/cache_policy.py [--json]

Every epoch reads every block once, in its shuffled order; with several machines, each reads its lanes' share, another one in every
epoch, through a cache of its own. Never-evict keeps what came first; LRU drops what was used longest ago; Belady
(1966) knows the future exactly and is the best that any policy can do. Penstock's row is measured: files on the local disk count as remote,
and its own cache, on the disk, answers what it can.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import tempfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
from pyarrow import fs

from penstock.core.spec import Ids
from penstock.order.batches import BatchOrder
from penstock.order.cursor import Work
from penstock.order.segments import Segments
from penstock.order.shuffled import Shuffled
from penstock.source.manifest import Manifest
from penstock.stages.read.upcoming import Upcoming
from penstock.storage.cache.cache import RangeCache
from penstock.storage.cache.storage import CachedStorage
from penstock.storage.fetch.remote import RemoteStorage
from penstock.storage.stores.arrow import ArrowStore

BLOCKS, FILES, BATCH = 1024, 8, 32
#: With the checksums that follow it, a block takes whole pages: the policy is measured, not what shared pages lose.
STORED_BYTES = 65_536
BLOCK_BYTES = STORED_BYTES - 32
#: Reads are counted from epoch `WARM` on.
EPOCHS, WARM = 14, 4


def order() -> BatchOrder:
    rows = Shuffled(segments=Segments(((0, BLOCKS, 1),)), lanes=BATCH, rows_per_lane=1, seed=1)
    return BatchOrder(rows=rows)


def accesses(machines: int) -> list[int]:
    """The blocks in the order in which one of the machines reads them in all epochs."""
    plan = order()
    return np.concatenate([plan.ids(epoch, 0, plan.steps_per_epoch, 0, machines) for epoch in range(EPOCHS)]).tolist()


def warm(blocks: list[int]) -> int:
    return len(blocks) // EPOCHS * WARM


def never_evict(blocks: list[int], places: int) -> float:
    kept: set[int] = set()
    hits = 0
    for number, block in enumerate(blocks):
        hits += number >= warm(blocks) and block in kept
        if len(kept) < places:
            kept.add(block)
    return hits / (len(blocks) - warm(blocks))


def lru(blocks: list[int], places: int) -> float:
    kept: OrderedDict[int, None] = OrderedDict()
    hits = 0
    for number, block in enumerate(blocks):
        hits += number >= warm(blocks) and block in kept
        kept[block] = None
        kept.move_to_end(block)
        if len(kept) > places:
            kept.popitem(last=False)
    return hits / (len(blocks) - warm(blocks))


def belady(blocks: list[int], places: int) -> float:
    """Drops what is needed last; what is needed later than all that is kept is not kept at all."""
    coming: dict[int, list[int]] = {}
    for number, block in enumerate(blocks):
        coming.setdefault(block, []).append(number)
    next_use: dict[int, float] = {}
    last: list[tuple[float, int]] = []
    hits = 0
    for number, block in enumerate(blocks):
        hits += number >= warm(blocks) and block in next_use
        coming[block].pop(0)
        next_use[block] = coming[block][0] if coming[block] else math.inf
        heapq.heappush(last, (-next_use[block], block))
        while len(next_use) > places:
            when, worst = heapq.heappop(last)
            if next_use.get(worst) == -when:
                del next_use[worst]
    return hits / (len(blocks) - warm(blocks))


def ours(places: int, machines: int, folder: Path) -> tuple[float, float]:
    """Runs Penstock's cache: the share of reads that it answers, and of what is read the share that is written to it."""
    data = folder / "data"
    data.mkdir(parents=True)
    for number in range(FILES):
        (data / f"{number}.bin").write_bytes(bytes(BLOCKS // FILES * BLOCK_BYTES))
    (folder / "cache").mkdir(mode=0o700)
    cache = RangeCache(str(folder / "cache"), places * STORED_BYTES)
    storage = CachedStorage(RemoteStorage(ArrowStore(fs.LocalFileSystem())), cache)
    plan, shards = order(), storage.list(str(data))
    per_file = BLOCKS // FILES
    offset = np.tile(np.arange(per_file) * BLOCK_BYTES, FILES)
    first = np.arange(FILES + 1) * per_file
    upcoming = Upcoming(
        plan, Manifest("blocks", shards, first, offset, np.full(BLOCKS, BLOCK_BYTES)), (0, BATCH // machines)
    )
    storage.expect(shards, upcoming)
    rows = BATCH // machines
    out, at = np.empty(rows * BLOCK_BYTES, dtype=np.uint8), np.arange(rows) * BLOCK_BYTES
    before = storage.cache_traffic
    works = (Work(epoch, step, 1) for epoch in range(EPOCHS) for step in range(plan.steps_per_epoch))
    for work in upcoming.follow(works):
        if (work.epoch, work.step) == (WARM, 0):
            before = storage.cache_traffic
        ids: Ids = plan.ids(work.epoch, work.step, 1, 0, machines)
        storage.read(shards, ids // per_file, offset[ids], np.full(rows, BLOCK_BYTES), out, at)
    after, reads = storage.cache_traffic, BLOCKS // machines * (EPOCHS - WARM)
    stored = (after.stored_bytes - before.stored_bytes) / BLOCK_BYTES
    return (after.hits - before.hits) / reads, stored / reads


def figures() -> list[dict[str, Any]]:
    rows = []
    for machines in (1, 2, 4):
        for times in (2, 4):
            blocks, places = accesses(machines), BLOCKS // times
            with tempfile.TemporaryDirectory() as folder:
                hits, written = ours(places, machines, Path(folder))
            simulated = {
                "lru": lru(blocks, places),
                "never_evict": never_evict(blocks, places),
                "belady": belady(blocks, places),
            }
            rows.append(
                {
                    "machines": machines,
                    "data_by_cache": times,
                    **simulated,
                    "penstock": hits,
                    "penstock_written": written,
                }
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    rows = figures()
    if parser.parse_args().json:
        print(json.dumps(rows, indent=2))
        return
    print("| machines | data : cache of each | LRU | never evict | Belady | Penstock, measured | written |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for row in rows:
        names = ("lru", "never_evict", "belady", "penstock", "penstock_written")
        shares = " | ".join(f"{row[name]:.1%}" for name in names)
        print(f"| {row['machines']} | {row['data_by_cache']} : 1 | {shares} |")


if __name__ == "__main__":
    main()
