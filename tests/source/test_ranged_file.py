"""Shards as files: the same bytes as io.BytesIO, in few reads, by path or by ranges."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.core.files.byte_ranges import ByteRanges
from penstock.source.tables.mapped_shards import MappedShards
from penstock.source.tables.ranged_file import RangedFile, open_shard
from penstock.storage.local import LocalStorage
from support.cases import MemoryStorage

CONTENT = np.random.default_rng(1).bytes(300_000)


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage({"memory://a": b"", "memory://b": CONTENT})


def test_it_reads_as_a_file_does(storage: MemoryStorage) -> None:
    mine, theirs = RangedFile(storage.list("memory://"), 1, ByteRanges(storage.read)), io.BytesIO(CONTENT)
    rng = np.random.default_rng(2)
    for _ in range(300):
        whence = int(rng.integers(0, 3))
        offset = int(rng.integers(0, len(CONTENT) + 9)) * (-1 if whence == os.SEEK_END else 1) * (whence != 1)
        try:
            wanted = theirs.seek(offset, whence)
        except ValueError:
            with pytest.raises(OSError, match="before the file's beginning"):
                mine.seek(offset, whence)
            continue
        assert mine.seek(offset, whence) == wanted
        size = int(rng.choice([0, 1, 8, 5_000, 200_000]))
        if rng.integers(0, 2):
            assert mine.read_buffer(size).to_pybytes() == theirs.read(size)
        else:
            assert mine.read(size) == theirs.read(size)
        assert mine.tell() == theirs.tell()
    assert (mine.size(), mine.name) == (len(CONTENT), "memory://b")
    assert mine.readable()
    assert mine.seekable()
    assert not mine.writable()


def test_small_reads_share_a_range(storage: MemoryStorage) -> None:
    file = RangedFile(storage.list("memory://"), 1, ByteRanges(storage.read))
    for place in range(0, 60_000, 100):
        file.seek(place - 60_000, os.SEEK_END)
        assert len(file.read(100)) == 100
    assert len(storage.reads) == 1


def test_an_empty_file(storage: MemoryStorage) -> None:
    file = RangedFile(storage.list("memory://"), 0, ByteRanges(storage.read))
    assert file.read() == file.read(5) == b""
    assert storage.reads == []


def test_pyarrow_takes_both(storage: MemoryStorage, tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(CONTENT)
    local = LocalStorage()
    files = [
        open_shard(storage.list("memory://"), 1, ByteRanges(storage.read)),
        open_shard(local.list(str(tmp_path)), 0, ByteRanges(local.read)),
        MappedShards(local.list(str(tmp_path))).open(0),
    ]
    assert [type(file) for file in files] == [pa.PythonFile, pa.OSFile, pa.BufferReader]
    for file in files:
        assert file.size() == len(CONTENT)
        file.seek(1_000)
        assert file.read(70_000) == CONTENT[1_000:71_000]


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "b"
    path.write_bytes(CONTENT)
    local = LocalStorage()
    listed = local.list(str(path))
    path.write_bytes(CONTENT[:-1])
    with pytest.raises(ps.DataError, match="299,999 bytes now, 300,000 when it was listed; if the data was changed"):
        open_shard(listed, 0, ByteRanges(local.read))
    path.unlink()
    with pytest.raises(ps.DataError, match=r"[Nn]o such file.*open the dataset again"):
        open_shard(listed, 0, ByteRanges(local.read))


def test_a_read_that_fails_leaves_nothing_behind(storage: MemoryStorage) -> None:
    """The next one gives the bytes of its place, not those that were read ahead before."""
    whole, fails = storage.files["memory://b"], [False]

    def read(*ranges: Any) -> None:
        if fails[0]:
            raise ps.DataError("damaged")
        storage.read(*ranges)

    file = RangedFile(storage.list("memory://"), 1, read)
    assert file.read(9) == whole[:9]
    fails[0] = True
    for _ in range(2):
        file.seek(-9, os.SEEK_END)
        with pytest.raises(ps.DataError, match="damaged"):
            file.read(9)
    fails[0] = False
    assert file.read(9) == whole[-9:]
