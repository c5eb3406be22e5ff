"""Byte ranges pass their members on, whatever wraps them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock.core.files.byte_ranges import ByteRanges, read_range
from penstock.source.checks.ranges import CheckedRanges, Checks
from penstock.storage import adopt_storage
from penstock.storage.cache.storage import CachedStorage
from penstock.storage.local import LocalStorage
from penstock.storage.storage_ranges import StorageRanges
from support.cases import MemoryStorage


def test_data_in_memory_has_nothing_to_read() -> None:
    read = ps.from_arrays({"x": np.arange(3)}).read_ranges
    assert (read.storage, read.traffic, read.gone_file(LocalStorage().list(__file__))) == (None, None, None)
    with pytest.raises(ps.SourceError, match="in memory has no files"):
        read_range(read, LocalStorage().list(__file__), 0, 0, 1)


def test_a_function_can_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abcdef")
    listed = LocalStorage().list(str(tmp_path))
    assert read_range(ByteRanges(LocalStorage().read), listed, 0, 2, 3).tobytes() == b"cde"


def test_wrappers_pass_their_members_on(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = adopt_storage(MemoryStorage({"memory://a": b"abcdef"}))
    assert isinstance(storage, CachedStorage)
    forgotten: list[int] = []
    monkeypatch.setattr(storage, "forget", lambda shards: forgotten.append(len(shards)))
    shards = storage.list("memory://")
    for read in (StorageRanges(storage), CheckedRanges(StorageRanges(storage), Checks())):
        assert read_range(read, shards, 0, 1, 2).tobytes() == b"bc"
        assert read.storage is storage
        assert read.traffic is storage.traffic
        assert not read.has_checksums(shards, 0)
        read.check_files(shards)
        read.forget(shards)
    assert forgotten == [1, 1]
