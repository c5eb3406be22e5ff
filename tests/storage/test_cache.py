"""The cache of remote ranges: exact whatever happens, within its limit, each range fetched once."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import fs

from penstock.storage import cache as cache_module
from penstock.storage.arrow_fs import ArrowStore
from penstock.storage.cache import RangeCache, entry_name
from penstock.storage.cached import CachedStorage
from penstock.storage.remote import RemoteStorage


def name(number: int) -> str:
    return entry_name("s3://bucket/a", "tag", 1000, number, 10)


def content(number: int, size: int = 1000) -> np.ndarray:
    return np.frombuffer(np.random.default_rng(number).bytes(size), dtype=np.uint8)


def test_what_was_put_is_got_also_by_another_process(tmp_path: Path) -> None:
    assert RangeCache(str(tmp_path), 1 << 20).put(name(1), content(1))
    found = RangeCache(str(tmp_path), 1 << 20).get(name(1), 1000)
    assert found is not None
    assert found.tobytes() == content(1).tobytes()
    assert RangeCache(str(tmp_path), 1 << 20).get(name(2), 1000) is None


@pytest.mark.parametrize("damage", ["flip", "cut", "longer", "empty", "header"])
def test_a_damaged_entry_is_none_and_removed(tmp_path: Path, damage: str) -> None:
    cache = RangeCache(str(tmp_path), 1 << 20)
    cache.put(name(1), content(1))
    (entry,) = cache.entries()
    found = bytearray(Path(entry.path).read_bytes())
    found[500] ^= damage == "flip"
    found[0] ^= damage == "header"
    sizes = {"cut": 700, "longer": len(found) + 3, "empty": 0}
    found = (found + b"more")[: sizes.get(damage, len(found))]
    Path(entry.path).write_bytes(found)
    assert RangeCache(str(tmp_path), 1 << 20).get(name(1), 1000) is None
    assert RangeCache(str(tmp_path), 1 << 20).entries() == []


def test_the_limit_holds_and_the_longest_unused_goes_first(tmp_path: Path) -> None:
    cache = RangeCache(str(tmp_path), 10 * 1032)
    for number in range(30):
        assert cache.put(name(number), content(number))
        for entry in cache.entries():
            if entry.path.endswith(name(0)[2:]):
                os.utime(entry.path, (time.time() + 60, time.time() + 60))  # always just used
        assert sum(entry.size for entry in cache.entries()) <= cache.limit_bytes
    assert cache.get(name(0), 1000) is not None
    assert cache.get(name(29), 1000) is not None
    assert cache.get(name(5), 1000) is None


def test_what_is_needed_last_goes_first(tmp_path: Path) -> None:
    cache = RangeCache(str(tmp_path), 10 * 1032)
    next_use = random.Random(0).sample(range(100), 30)
    for number, when in enumerate(next_use):
        kept = cache.put(name(number), content(number), when)
        assert kept or sum(1 for other in next_use[:number] if other < when) >= 9
    held = {number for number in range(30) if cache.get(name(number), 1000) is not None}
    soonest = set(sorted(range(30), key=lambda number: next_use[number])[:9])
    assert soonest <= held


def test_a_full_disk_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = RangeCache(str(tmp_path), 1 << 20)
    cache.put(name(0), content(0))
    monkeypatch.setattr(cache_module, "RESERVE_BYTES", 1 << 62)
    assert not cache.put(name(1), content(1))
    assert cache.get(name(0), 1000) is not None


def test_verify_and_clear_touch_nothing_else(tmp_path: Path) -> None:
    cache = RangeCache(str(tmp_path), 1 << 20)
    for number in range(5):
        cache.put(name(number), content(number))
    mine = tmp_path / name(0)[:2] / "precious"
    mine.write_text("mine")
    damaged = cache.entries()[2].path
    Path(damaged).write_bytes(b"rubbish")
    assert cache.verify() == [damaged]
    assert len(cache.entries()) == 4
    assert cache.clear() > 0
    assert cache.entries() == []
    assert mine.read_text() == "mine"


KILLER = """
    import os, random, signal, sys, time
    import numpy as np
    from penstock.storage.cache import RangeCache, entry_name

    def write(first):
        cache, number = RangeCache(sys.argv[1], 1 << 30), first
        while True:
            cache.put(entry_name("a", "", 0, number, 200_000), np.full(200_000, number % 251, dtype=np.uint8))
            number += 1

    for turn in range(200):
        child = os.fork()
        if child == 0:
            write(1000 * turn)
        time.sleep(0.002 + random.Random(turn).random() * 0.01)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
"""


def test_killed_writers_leave_no_wrong_entry(tmp_path: Path) -> None:
    """200 times SIGKILL in the middle of writing; one process that imports once forks the writers."""
    subprocess.run([sys.executable, "-c", textwrap.dedent(KILLER), str(tmp_path)], check=True)
    fresh = RangeCache(str(tmp_path), 1 << 30)
    assert len(fresh.entries()) > 0
    assert fresh.verify() == []
    for first in range(0, 200_000, 1000):
        for number in range(first, first + 10):
            found = fresh.get(entry_name("a", "", 0, number, 200_000), 200_000)
            assert found is None or (found == number % 251).all()


class Counting(ArrowStore):
    """Counts what is asked for, in a file that several processes append to."""

    def __init__(self, log: Path) -> None:
        super().__init__(fs.LocalFileSystem())
        self._log = log

    def get(self, path: str, etag: str, size: int, start: int, length: int) -> Any:
        with self._log.open("a") as log:
            log.write(f"{path} {start} {length}\n")
        time.sleep(0.002)
        return super().get(path, etag, size, start, length)


def read_all(root: Path, cache: Path, log: Path, seed: int) -> None:
    """Reads 200 ranges in the order of a seed and checks them."""
    storage = CachedStorage(RemoteStorage(Counting(log)), RangeCache(str(cache), 1 << 30))
    shards = storage.list(str(root))
    for number in np.random.default_rng(seed).permutation(200).reshape(20, 10):
        shard, offset = number % 4, number // 4 * 2_000_000
        length, at = np.full(10, 1000), np.arange(10) * 1000
        out = np.zeros(10_000, dtype=np.uint8)
        storage.read(shards, shard, offset, length, out, at)
        for row in range(10):
            with open(root / f"{shard[row]}.bin", "rb") as file:
                file.seek(int(offset[row]))
                assert out[at[row] : at[row] + 1000].tobytes() == file.read(1000)


def test_two_processes_fetch_each_range_once(tmp_path: Path) -> None:
    root, cache, log = tmp_path / "data", tmp_path / "cache", tmp_path / "log"
    root.mkdir()
    for number in range(4):
        with open(root / f"{number}.bin", "wb") as file:
            for place in range(50):
                file.seek(place * 2_000_000)
                file.write(content(number * 100 + place).tobytes())
    here = str(Path(__file__).parent)
    code = f"import sys; sys.path[:0] = [{here!r}]; from test_cache import read_all; from pathlib import Path; read_all(*map(Path, sys.argv[1:4]), int(sys.argv[4]))"
    readers = [
        subprocess.Popen([sys.executable, "-c", code, str(root), str(cache), str(log), str(seed)]) for seed in range(3)
    ]
    assert [reader.wait(60) for reader in readers] == [0, 0, 0]
    asked = log.read_text().splitlines()
    assert len(asked) == len(set(asked)) == 200
