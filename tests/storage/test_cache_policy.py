"""What a cache keeps that is smaller than the data: never worse than never evicting, far better with several machines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pyarrow import fs

from penstock.core.columns.spec import Ids
from penstock.order.rows.segments import Segments
from penstock.order.rows.shuffled import Shuffled
from penstock.order.steps.batches import BatchOrder
from penstock.order.steps.cursor import Work
from penstock.source.manifest import Manifest
from penstock.stages.read.upcoming import Upcoming
from penstock.storage.cache.cache import RangeCache
from penstock.storage.cache.policy import choose
from penstock.storage.cache.storage import CachedStorage
from penstock.storage.fetch.remote import RemoteStorage
from penstock.storage.stores.arrow import ArrowStore

BLOCKS, FILES, BATCH = 512, 8, 32
PER_FILE = BLOCKS // FILES
#: With the checksums that follow it, a block takes whole pages: the policy is measured, not what shared pages lose.
STORED_BYTES = 65_536
BLOCK_BYTES = STORED_BYTES - 32
#: Reads are counted from epoch `WARM` on.
EPOCHS, WARM = 10, 4
ORDER = BatchOrder(rows=Shuffled(segments=Segments(((0, BLOCKS, 1),)), lanes=BATCH, rows_per_lane=1, seed=1))


def hits_and_written(places: int, machines: int, folder: Path) -> tuple[float, float]:
    """Files count as remote: the share of one machine's reads that a cache of so many blocks answers, and of what is read the share that is written to it."""
    (folder / "data").mkdir()
    for number in range(FILES):
        (folder / "data" / f"{number}.bin").write_bytes(bytes(PER_FILE * BLOCK_BYTES))
    (folder / "cache").mkdir(mode=0o700)
    cache = RangeCache(str(folder / "cache"), places * STORED_BYTES)
    storage = CachedStorage(RemoteStorage(ArrowStore(fs.LocalFileSystem())), cache)
    shards, rows = storage.list(str(folder / "data")), BATCH // machines
    offset = np.tile(np.arange(PER_FILE) * BLOCK_BYTES, FILES)
    manifest = Manifest("blocks", shards, np.arange(FILES + 1) * PER_FILE, offset, np.full(BLOCKS, BLOCK_BYTES))
    upcoming = Upcoming(ORDER, manifest, (0, rows))
    storage.expect(shards, upcoming)
    out, at = np.empty(rows * BLOCK_BYTES, dtype=np.uint8), np.arange(rows) * BLOCK_BYTES
    before = storage.cache_traffic
    works = (Work(epoch, step, 1) for epoch in range(EPOCHS) for step in range(ORDER.steps_per_epoch))
    for work in upcoming.follow(works):
        if (work.epoch, work.step) == (WARM, 0):
            before = storage.cache_traffic
        ids: Ids = ORDER.ids(work.epoch, work.step, 1, 0, machines)
        storage.read(shards, ids // PER_FILE, offset[ids], np.full(rows, BLOCK_BYTES), out, at)
    after, reads = storage.cache_traffic, BLOCKS // machines * (EPOCHS - WARM)
    return (after.hits - before.hits) / reads, (after.stored_bytes - before.stored_bytes) / BLOCK_BYTES / reads


@pytest.mark.slow
@pytest.mark.parametrize("times", [2, 4])
def test_one_machine_reads_what_fits_from_the_cache_and_writes_nothing_more(times: int, tmp_path: Path) -> None:
    """The best that any policy can do; dropping the least recently used answers 16 % and 4 %."""
    hits, written = hits_and_written(BLOCKS // times, 1, tmp_path)
    assert hits >= 1 / times - 0.01
    assert written < 0.02


@pytest.mark.slow
@pytest.mark.parametrize(
    ("machines", "times", "never_evicting", "belady"),
    [
        pytest.param(2, 2, 0.51, 0.74, marks=pytest.mark.long),
        (2, 4, 0.25, 0.48),
        pytest.param(4, 4, 0.25, 0.56, marks=pytest.mark.long),
    ],
)
def test_several_machines_keep_what_each_of_them_needs_next(
    machines: int, times: int, never_evicting: float, belady: float, tmp_path: Path
) -> None:
    """Beside the shares that two simulated policies answer of the same reads: the simplest, and the best that there is."""
    hits, _ = hits_and_written(BLOCKS // times, machines, tmp_path)
    assert hits > 1.3 * never_evicting
    assert hits > 0.85 * belady


def test_the_latest_goes_for_what_is_needed_sooner() -> None:
    held, size = np.array([9.0, 1.0, 5.0]), np.full(3, 10)
    choice = choose(held, size, np.array([2.0]), np.array([10]), excess=10, spare=0)
    assert (choice.dropped.tolist(), choice.kept.tolist(), choice.until_s) == ([0], [0], 9.0)


def test_nothing_goes_for_what_is_needed_later() -> None:
    held, size = np.array([3.0, 1.0]), np.full(2, 10)
    choice = choose(held, size, np.array([4.0, 7.0]), np.full(2, 10), excess=10, spare=0)
    assert (choice.dropped.tolist(), choice.kept.tolist()) == ([], [0])
    choice = choose(held, size, np.array([4.0, 7.0]), np.full(2, 10), excess=20, spare=5)
    assert (choice.dropped.tolist(), choice.kept.tolist()) == ([], [])


def test_with_room_enough_nothing_goes() -> None:
    held, size = np.array([3.0, 1.0]), np.full(2, 10)
    choice = choose(held, size, np.array([0.5, 9.0]), np.full(2, 10), excess=-30, spare=10)
    assert (choice.dropped.tolist(), choice.kept.tolist(), choice.until_s) == ([], [0, 1], np.inf)


def test_an_empty_cache_has_nothing_to_drop() -> None:
    none = np.empty(0)
    choice = choose(none, none.astype(np.int64), np.array([1.0]), np.array([10]), excess=5, spare=0)
    assert (choice.dropped.tolist(), choice.kept.tolist()) == ([], [])
