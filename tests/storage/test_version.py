"""What tells one version of a file from another over HTTP: ETags, weak ones, dates, and nothing."""

from __future__ import annotations

import os
import re
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.core.errors import DataError
from penstock.storage.cache.cache import RangeCache
from penstock.storage.cache.storage import CachedStorage
from penstock.storage.fetch.remote import RemoteStorage
from penstock.storage.stores.object import ObjectStore
from penstock.storage.stores.version import NO_DATE, conditions, is_version, shown, version_of
from servers.http import http_server

SIZE = 300_000
DATE = "Sun, 22 Nov 2026 15:00:00 GMT"


def write(folder: Path, turn: int) -> None:
    """A file of one size, whose bytes and date are other ones in every turn."""
    (folder / "new").write_bytes(bytes([turn]) * SIZE)
    os.utime(folder / "new", (1_700_000_000 + 10 * turn,) * 2)
    os.replace(folder / "new", folder / "a.bin")


def opened(url: str, *, native: bool) -> RemoteStorage:
    store = ObjectStore.open(url)[0]
    store.urls = store.urls if native else None
    assert (store.urls is not None) == native
    return RemoteStorage(store)


def read(storage: Any, shards: Any) -> set[int]:
    """The bytes that ten ranges of the file consist of."""
    offset = np.arange(10) * 30_000
    out = np.zeros(10 * 1000, dtype=np.uint8)
    storage.read(shards, np.zeros(10, dtype=np.int64), offset, np.full(10, 1000), out, np.arange(10) * 1000)
    return set(out.tolist())


@pytest.mark.slow
@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("says", ["date", "weak date", "weak", "etag"])
def test_a_file_of_equal_size_is_never_mixed_in(tmp_path: Path, says: str, native: bool) -> None:
    """Seven swaps: each is an error that says what has changed, and the next dataset reads what is there."""
    asked: list[dict[str, str]] = []
    write(tmp_path, 0)
    with http_server(tmp_path, says, asked) as url:
        for turn in range(7):
            storage = opened(url, native=native)
            shards = storage.list("a.bin")
            assert read(storage, shards) == {turn}
            write(tmp_path, turn + 1)
            with pytest.raises(
                DataError, match=r"a\.bin: another object than when it was listed \(.*open the dataset again"
            ):
                read(storage, shards)
    sent = {name for headers in asked for name in headers if name.startswith("if-")}
    assert (
        sent
        == {"date": {"if-unmodified-since"}, "weak date": {"if-unmodified-since"}, "weak": set(), "etag": {"if-match"}}[
            says
        ]
    )


def test_files_by_date_are_read_by_native_threads(tmp_path: Path) -> None:
    """A date costs no request more, and none is left to obstore."""
    write(tmp_path, 1)
    asked: list[dict[str, str]] = []
    with http_server(tmp_path, "date", asked) as url:
        storage = opened(url, native=True)
        assert read(storage, storage.list("a.bin")) == {1}
    assert {headers["user-agent"].partition("/")[0] for headers in asked} == {"penstock"}


@pytest.mark.parametrize("says", ["", "date"])
def test_where_nothing_tells_versions_apart_it_is_said_once(tmp_path: Path, says: str) -> None:
    """And nothing of it is kept: another file would be served from the cache."""
    (tmp_path / "data").mkdir()
    (tmp_path / "cache").mkdir(mode=0o700)
    write(tmp_path / "data", 1)
    with http_server(tmp_path / "data", says) as url, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        remote = opened(url, native=True)
        storage = CachedStorage(remote, RangeCache(str(tmp_path / "cache"), 1 << 30))
        for turn in (1, 2):
            write(tmp_path / "data", turn)
            assert read(storage, storage.list("a.bin")) == {turn}
            shards = storage.list("a.bin")
            assert read(storage, shards) == read(storage, shards) == {turn}
    assert (storage.cache_traffic.hits > 0) == bool(says)
    said = [str(one.message) for one in told if issubclass(one.category, UserWarning)]
    assert len(said) == (not says)
    assert all(
        re.match(rf"{url}/a\.bin: the store sends neither an ETag nor a modification time.*Last-Modified$", text)
        for text in said
    )


def test_answers_without_the_date_that_was_listed(tmp_path: Path) -> None:
    """The server may mind the condition, so they are taken; that nobody knows is said once."""
    write(tmp_path, 1)
    asked: list[dict[str, str]] = []
    with http_server(tmp_path, "listed", asked) as url:
        storage = opened(url, native=True)
        shards = storage.list("a.bin")
        with pytest.warns(
            UserWarning, match=r"a\.bin: the server's listing has a modification time, but its responses do not"
        ) as told:
            assert read(storage, shards) == read(storage, shards) == {1}
    assert len(told) == 1
    assert all("if-unmodified-since" in headers for headers in asked)


def meta(etag: str | None, date: datetime) -> dict[str, Any]:
    return {"e_tag": etag, "last_modified": date}


def test_versions_as_texts() -> None:
    date = datetime(2026, 11, 22, 15, 0, 0, 500_000, tzinfo=UTC)
    assert version_of(meta('"a"', date)) == '"a"'
    assert version_of(meta('W/"a"', date)) == f'W/"a"\n{DATE}'
    assert version_of(meta(None, date)) == f"\n{DATE}"
    assert version_of(meta('W/"a"', NO_DATE)) == 'W/"a"'
    assert version_of(meta(None, NO_DATE)) == ""
    assert conditions('"a"') == {"if_match": '"a"'}
    assert conditions('W/"a"') == conditions("") == {}
    assert conditions(f"\n{DATE}") == {"if_unmodified_since": date.replace(microsecond=0)}
    assert is_version(meta('W/"a"', date), '"a"') is True
    assert is_version(meta(None, date), f"\n{DATE}") is True
    assert is_version(meta(None, date.replace(second=1)), f"\n{DATE}") is False
    assert is_version(meta('W/"b"', date), f'W/"a"\n{DATE}') is False
    assert is_version(meta(None, NO_DATE), f"\n{DATE}") is None
    assert shown(f'W/"a"\n{DATE}') == f'its ETag is no longer W/"a", or it was last changed on {DATE} then'
