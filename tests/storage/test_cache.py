"""The cache of remote ranges: exact whatever happens, within its limit."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.storage.cache.cache import RangeCache
from penstock.storage.cache.journal import RECORD, Journal
from support.caching import NextUses, Remote, disk_bytes


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


@pytest.mark.slow
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
    monkeypatch.setattr("penstock.storage.cache.packs._punch", lambda *_: None)
    remote.read_some(remote.storage(limit=600_000), 1, rounds=20)
    storage = remote.storage(limit=300_000)
    assert storage.cache is not None
    storage.cache.trim()
    assert disk_bytes(remote.folder) <= 300_000
    remote.read_some(storage, 1, rounds=20)


@pytest.mark.slow
def test_what_is_needed_last_goes_first(remote: Remote) -> None:
    limit = 40 * 8192 + 64 * 1024  # with the journal
    storage = remote.storage(limit)
    shards = storage.list(str(remote.data))
    when = np.random.default_rng(0).permutation(160)
    storage.expect(shards, NextUses(lambda shard, offset: when[shard * 40 + offset // 8192]))
    for number in range(160):
        remote.read(storage, number // 40, number % 40 * 8192, 8192, shards)
    storage = remote.storage(limit)
    for number in np.argsort(when)[:36].tolist():
        remote.read(storage, number // 40, number % 40 * 8192, 8192, shards)
    assert storage.cache_traffic.misses == 0


def test_a_full_disk_is_no_error(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = remote.storage()
    remote.read_some(storage, 0)
    full = shutil.disk_usage(remote.folder)._replace(free=1 << 20)
    monkeypatch.setattr("penstock.storage.cache.cache.shutil.disk_usage", lambda _: full)
    stored = storage.cache_traffic.stored_bytes
    with pytest.warns(
        UserWarning, match=r"stores nothing more for now: the disk is full.*make room on that disk"
    ) as told:
        remote.read_some(storage, 1)
    assert len(told) == 1
    assert storage.cache_traffic.stored_bytes == stored
    remote.read_some(storage, 0)


def test_a_disk_that_takes_no_more_is_no_error(remote: Remote) -> None:
    """Files of this process may not grow: what the system says is an error of each write."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    storage = remote.storage()
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        with pytest.warns(UserWarning, match="stores nothing more for now: File too large"):
            remote.read_some(storage, 0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert storage.cache_traffic.stored_bytes < 100_000
    remote.read_some(remote.storage(), 0)


def test_a_folder_that_cannot_be_written_is_no_error(remote: Remote) -> None:
    remote.folder.rmdir()
    remote.folder.write_text("a file")
    with pytest.warns(UserWarning, match=r"cache: the cache .* stores nothing more for now: Not a directory"):
        remote.read_some(remote.storage(), 0)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES])
@pytest.mark.parametrize("call", ["posix_fallocate", "pwritev", "pwrite", "open", "ftruncate"])
def test_whatever_the_system_refuses_is_no_error(
    remote: Remote, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    """In mid-run: what was kept before is read, what comes is not kept, and one warning says so."""
    storage = remote.storage()
    remote.read_some(storage, 0)
    before, real = remote.requests(), getattr(os, call)

    def refuse(path: Any, *arguments: Any, **more: Any) -> Any:
        is_written = call != "open" or arguments[0] & (os.O_WRONLY | os.O_RDWR)
        if is_written and (call != "open" or str(path).startswith(str(remote.folder))):
            raise OSError(number, os.strerror(number), path)
        return real(path, *arguments, **more)

    with monkeypatch.context() as patch, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        patch.setattr(os, call, refuse)
        for seed in (1, 2, 0):
            remote.read_some(storage, seed)
    is_used = call != "ftruncate"  # a pack is gone on with
    assert [os.strerror(number) in str(one.message) for one in told] == [True] * is_used
    after = remote.requests()
    remote.read_some(storage, 0)
    assert remote.requests() == after > before


SMALL_DISK = """
import sys, warnings
from pathlib import Path
from support.caching import Remote, disk_bytes
remote = Remote(Path(sys.argv[1]))
remote.folder = Path(sys.argv[2])
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    storage = remote.storage(limit=1 << 30)
    for seed in range(20):
        remote.read_some(storage, seed, rounds=10)
    kept = storage.cache_traffic.stored_bytes
    try:
        (remote.folder / "other").write_bytes(bytes(4 << 20))  # somebody else fills it in mid-run
    except OSError:
        pass
    for seed in range(20, 30):
        remote.read_some(storage, seed, rounds=10)
assert kept > 500_000, kept
assert len(told) == 1 and "stores nothing more for now" in str(told[0].message), [str(one.message) for one in told]
"""


@pytest.mark.slow
def test_a_small_disk_that_fills_up(remote: Remote, tmp_path: Path) -> None:
    """A real file system of 4 MiB, of which others take the rest."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
        environment = os.environ | {"PYTHONPATH": path}
        code = [sys.executable, "-c", SMALL_DISK, str(remote.data.parent), str(disk)]
        subprocess.run(code, check=True, env=environment)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("length", [300, 5000, 8192, 8193, 300_000])
def test_a_bit_that_flips_behind_a_running_reader_is_found_at_once(remote: Remote, length: int) -> None:
    """In every epoch, whatever part of the piece is read; it heals by one request, is counted, and blames nobody."""
    storage = remote.storage()
    shards = storage.list(str(remote.data))
    for turn, (first, size) in enumerate([(0, length), (length // 2, 1), (length // 2 - 9, 20)]):
        remote.read(storage, turn, 50, length, shards)
        remote.read(storage, turn, 50, length, shards)
        (pack,) = remote.folder.glob("*.pack")
        content, before = pack.read_bytes(), remote.requests()
        at = content.index(remote.content[turn][50 : 50 + length]) + length // 2
        with pack.open("r+b") as file:
            file.seek(at)
            file.write(bytes([content[at] ^ 8]))
        remote.read(storage, turn, 50 + first, size, shards)
        remote.read(storage, turn, 50, length, shards)
        assert storage.cache_traffic.damaged == turn + 1
        assert before < remote.requests() <= before + 3
    other = remote.storage()
    remote.read(other, [0, 1, 2], [50] * 3, [length] * 3)
    assert (other.cache_traffic.misses, other.cache_traffic.damaged) == (0, 0)


def test_pieces_of_earlier_versions_are_read(remote: Remote) -> None:
    """They have no checksums of blocks: parts of them are compared with that of the whole."""
    storage = remote.storage()
    remote.read(storage, 0, 0, 300_000)
    journal = remote.folder / "journal"
    content = bytearray(journal.read_bytes())
    records = np.frombuffer(content, RECORD, offset=RECORD.itemsize)
    assert records["in_blocks"].all()
    records["in_blocks"] = 0
    journal.unlink()
    journal.write_bytes(content)
    fresh, before = remote.storage(), remote.requests()
    for offset, length in [(0, 300_000), (70_000, 100_000), (299_999, 1)]:
        remote.read(fresh, 0, offset, length)
    assert remote.requests() == before
    (pack,) = remote.folder.glob("*.pack")
    with pack.open("r+b") as file:
        file.seek(150_000)
        file.write(b"flip")
    remote.read(fresh, 0, 5, 10)
    assert fresh.cache_traffic.damaged == 1


def test_no_byte_goes_while_others_still_read_there(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the journal takes no more, pieces are dropped for this process alone: their bytes stay for the others."""
    storage, other = remote.storage(), remote.storage()
    remote.read_some(storage, 0)
    remote.read_some(other, 0)
    before, held = remote.requests(), disk_bytes(remote.folder)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "append", full)
        storage.cache.set_limit(50_000)  # type: ignore[union-attr]
    assert disk_bytes(remote.folder) == held
    remote.read_some(other, 0)
    assert (remote.requests(), other.cache_traffic.damaged) == (before, 0)


def test_another_cache_in_the_midst_of_reading(remote: Remote, tmp_path: Path) -> None:
    """Places of the cache before mean nothing in the next one."""
    storage = remote.storage()
    shards = storage.list(str(remote.data))
    old = storage.cache
    assert old is not None
    remote.read(storage, [3, 2, 1, 0], [0] * 4, [1000] * 4, shards)
    new = RangeCache(str(tmp_path / "new"), 1 << 30)
    (tmp_path / "new").mkdir(mode=0o700)
    storage.use_cache(new)
    storage._bases_of(old, shards)  # what a thread does that began before
    remote.read(storage, [0, 1, 2, 3], [0] * 4, [1000] * 4, shards)
    remote.read(storage, [3, 2, 1, 0], [0] * 4, [1000] * 4, shards)
    high, *_ = new.files.owners(new._index.live()[2]["begin"])
    assert len(set(high.tolist())) == 4
    assert storage._bases_of(new, shards).files is new.files


@pytest.mark.slow
def test_a_forked_child_writes_elsewhere(remote: Remote) -> None:
    code = (
        "import os, sys; from pathlib import Path; from support.caching import Remote; r = Remote(Path(sys.argv[1])); s = r.storage();"
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
    monkeypatch.setattr("penstock.storage.cache.index._OLD_RECORDS", 50)
    storage, other = remote.storage(limit=300_000), remote.storage(limit=300_000)
    for seed in range(10):
        remote.read_some(storage, seed)
        remote.read_some(other, seed)
    pieces = other.cache.contents.pieces  # type: ignore[union-attr]
    assert (remote.folder / "journal").stat().st_size <= (2 * pieces + 400) * RECORD.itemsize


@pytest.mark.slow
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
