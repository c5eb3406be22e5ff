"""The cache of remote ranges: exact whatever happens, within its limit."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from caching import NextUses, Remote, disk_bytes

from penstock.storage import cache as cache_module
from penstock.storage.cache_journal import RECORD


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    return Remote(tmp_path)


def test_what_was_read_is_kept_for_all_processes(remote: Remote) -> None:
    for seed in (1, 2, 1):
        remote.read_some(remote.storage(), seed)
    before = remote.requests()
    again = remote.storage()
    remote.read_some(again, 2)
    assert remote.requests() == before
    assert (again.cache_traffic.misses, again.cache_traffic.fetched_bytes) == (0, 0)


def test_ranges_are_put_together_from_pieces(remote: Remote) -> None:
    """Other ranges over the same bytes fetch only what is not there: no byte twice."""
    storage = remote.storage()
    remote.read(storage, [0, 0], [1000, 5000], [1000, 1000])
    assert storage.cache_traffic.fetched_bytes == 2000
    remote.read(storage, [0], [500], [6000])
    assert storage.cache_traffic.fetched_bytes == 6000
    assert storage.cache_traffic.hit_bytes == 0  # none came from the cache whole
    remote.read(storage, [0] * 60, np.arange(60) * 100 + 500, [100] * 60)
    assert storage.cache_traffic.fetched_bytes == 6000
    assert (storage.cache_traffic.hits, storage.cache_traffic.misses) == (60, 3)


def test_long_ranges_and_empty_ones(tmp_path: Path) -> None:
    remote = Remote(tmp_path, files=1, file_bytes=20_000_000)
    for storage in (remote.storage(), remote.storage()):
        remote.read(storage, [0, 0], [0, 7], [20_000_000, 0])
        remote.read(storage, 0, 9_999_999, 7)
    assert storage.cache_traffic.fetched_bytes == 0


@pytest.mark.parametrize("damage", ["flip", "cut", "longer", "gone", "zeros"])
def test_a_damaged_pack_costs_a_request_and_no_wrong_byte(remote: Remote, damage: str) -> None:
    remote.read_some(remote.storage(), 1)
    (pack,) = remote.folder.glob("*.pack")
    content = bytearray(pack.read_bytes())
    content[500] ^= 1
    changed = {"cut": content[:700], "longer": content + b"more", "zeros": bytes(len(content))}.get(damage, content)
    pack.unlink() if damage == "gone" else pack.write_bytes(changed)
    remote.read_some(remote.storage(), 1)
    before = remote.requests()
    remote.read_some(remote.storage(), 1)
    assert remote.requests() == before


@pytest.mark.parametrize("damage", ["flip", "cut", "longer", "gone", "empty", "header"])
def test_a_damaged_journal_costs_requests_and_no_wrong_byte(remote: Remote, damage: str) -> None:
    remote.read_some(remote.storage(), 1)
    journal = remote.folder / "journal"
    content = bytearray(journal.read_bytes())
    content[0 if damage == "header" else RECORD.itemsize * 5 + 20] ^= 4
    sizes = {"cut": len(content) // 2 + 17, "empty": 0}
    changed = (content + b"torn" * (damage == "longer"))[: sizes.get(damage)]
    journal.unlink() if damage == "gone" else journal.write_bytes(changed)
    for _ in range(2):
        remote.read_some(remote.storage(), 1)
    before = remote.requests()
    remote.read_some(remote.storage(), 1)
    assert remote.requests() == before


def test_damage_behind_a_running_reader_is_survived(remote: Remote) -> None:
    storage = remote.storage()
    remote.read_some(storage, 1)
    for path in remote.folder.iterdir():
        path.unlink()
    remote.read_some(storage, 1)
    remote.read_some(storage, 2)


def test_the_limit_holds_on_the_disk(remote: Remote) -> None:
    storage = remote.storage(limit=600_000)
    for seed in range(8):
        remote.read_some(storage, seed, rounds=10)
        assert disk_bytes(remote.folder) <= 600_000 * 1.02
    assert storage.cache_traffic.stored_bytes > 400_000


def test_a_lower_limit_makes_the_cache_smaller(remote: Remote) -> None:
    remote.read_some(remote.storage(), 1, rounds=20)
    assert disk_bytes(remote.folder) > 300_000
    storage = remote.storage(limit=200_000)
    assert storage.cache is not None
    storage.cache.trim()
    assert disk_bytes(remote.folder) <= 200_000
    remote.read_some(storage, 1, rounds=20)


def test_where_no_holes_can_be_made_whole_packs_go(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.storage.cache_packs._punch", lambda *_: None)
    remote.read_some(remote.storage(limit=600_000), 1, rounds=20)
    storage = remote.storage(limit=300_000)
    assert storage.cache is not None
    storage.cache.trim()
    assert disk_bytes(remote.folder) <= 300_000
    remote.read_some(storage, 1, rounds=20)


def test_what_is_needed_last_goes_first(remote: Remote) -> None:
    storage = remote.storage(limit=40 * 8192)
    shards = storage.list(str(remote.data))
    when = np.random.default_rng(0).permutation(160)
    storage.expect(shards, NextUses(lambda shard, offset: when[shard * 40 + offset // 8192]))
    for number in range(160):
        remote.read(storage, number // 40, number % 40 * 8192, 8192, shards)
    storage = remote.storage(limit=40 * 8192)
    for number in np.argsort(when)[:36].tolist():
        remote.read(storage, number // 40, number % 40 * 8192, 8192, shards)
    assert storage.cache_traffic.misses == 0


def test_a_full_disk_is_no_error(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = remote.storage()
    remote.read_some(storage, 0)
    monkeypatch.setattr(cache_module, "RESERVE_BYTES", 1 << 62)
    stored = storage.cache_traffic.stored_bytes
    remote.read_some(storage, 1)
    assert storage.cache_traffic.stored_bytes == stored
    remote.read_some(storage, 0)


def test_a_disk_that_takes_no_more_is_no_error(remote: Remote) -> None:
    """Files of this process may not grow: what the system says is an error of each write."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    storage = remote.storage()
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        remote.read_some(storage, 0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert storage.cache_traffic.stored_bytes < 100_000
    remote.read_some(remote.storage(), 0)


def test_a_folder_that_cannot_be_written_is_no_error(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    remote.folder.rmdir()
    remote.folder.write_text("a file")
    remote.read_some(remote.storage(), 0)


def test_a_forked_child_writes_elsewhere(remote: Remote) -> None:
    code = (
        "import os, sys; from pathlib import Path; from caching import Remote; r = Remote(Path(sys.argv[1])); s = r.storage();"
        "r.read_some(s, 1); child = os.fork(); r.read_some(s, 2 + (child == 0)); child and os.wait()"
    )
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    subprocess.run(
        [sys.executable, "-c", code, str(remote.data.parent)], check=True, env=os.environ | {"PYTHONPATH": path}
    )
    before = remote.requests()
    fresh = remote.storage()
    for seed in (1, 2, 3):
        remote.read_some(fresh, seed)
    assert remote.requests() == before
    assert len(list(remote.folder.glob("*.pack"))) == 2


def test_packs_are_gone_on_with(remote: Remote) -> None:
    for seed in range(6):
        remote.read_some(remote.storage(), seed)
    assert len(list(remote.folder.glob("*.pack"))) == 1


def test_the_journal_is_written_anew(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.storage.cache_index._OLD_RECORDS", 50)
    storage, other = remote.storage(limit=300_000), remote.storage(limit=300_000)
    for seed in range(10):
        remote.read_some(storage, seed)
        remote.read_some(other, seed)
    pieces = other.cache.contents.pieces  # type: ignore[union-attr]
    assert (remote.folder / "journal").stat().st_size <= (2 * pieces + 400) * RECORD.itemsize


def test_verify_and_clear_touch_nothing_else(remote: Remote) -> None:
    storage = remote.storage()
    remote.read_some(storage, 1)
    cache = storage.cache
    assert cache is not None
    mine = remote.folder / "precious.pack"
    mine.write_text("mine")
    (pack,) = [path for path in remote.folder.glob("*.pack") if path != mine]
    content = bytearray(pack.read_bytes())
    content[100] ^= 1
    pack.write_bytes(content)
    pieces = cache.contents.pieces
    assert cache.verify() == (pieces, 1)
    assert cache.contents.pieces == pieces - 1
    assert cache.clear() > 0
    assert (cache.contents.pieces, cache.contents.disk_bytes) == (0, 0)
    assert mine.read_text() == "mine"
    remote.read_some(storage, 1)
