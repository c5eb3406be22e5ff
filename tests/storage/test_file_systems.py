"""Users' own file systems: pyarrow.fs, fsspec, obstore, and what is none."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from obstore.store import LocalStore
from pyarrow import fs

import penstock as ps
from penstock.core.errors import DataError, PlanError, SourceError, StorageError
from penstock.storage import adopt_storage
from penstock.storage.fetch.remote import RemoteStorage
from penstock.storage.stores.arrow import ArrowStore
from penstock.storage.stores.file_version import is_same_version, version_of
from support.files import through
from support.shards import mds

OPENERS = {
    "pyarrow": lambda root: (fs.LocalFileSystem(), str(root)),
    "fsspec": lambda root: (fsspec.filesystem("file"), str(root)),
    "obstore": lambda root: (LocalStore(str(root)), ""),
}


@pytest.fixture(params=sorted(OPENERS))
def opened(request: Any, photos: Path) -> tuple[Any, str]:
    return OPENERS[request.param](photos)


@pytest.mark.slow
def test_a_folder_of_pictures_is_the_same_dataset(opened: tuple[Any, str], photos: Path) -> None:
    storage, where = opened
    near, far = ps.read(str(photos)), ps.read(where or "/", storage=storage) if where else ps.read("", storage=storage)
    assert (far.classes, len(far)) == (near.classes, len(near))
    assert far.source.manifest.digest == near.source.manifest.digest
    for a, b in zip(ps.Loader(near.shuffle().batch(4)), ps.Loader(far.shuffle().batch(4)), strict=True):
        assert a["image"].to_pylist() == b["image"].to_pylist()


@pytest.mark.parametrize("kind", ["pyarrow", "fsspec"])
def test_globs_files_and_what_is_not_there(kind: str, tmp_path: Path) -> None:
    for name in ("a/1.bin", "a/2.bin", "a/.hidden.bin", "b/3.bin", "a/empty.bin"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"" if "empty" in name else name.encode())
    storage = adopt_storage(OPENERS[kind](tmp_path)[0])
    below = {
        where: [
            path.rpartition(str(tmp_path) + "/")[2] for path in storage.list(f"{tmp_path}/{where}").paths.to_pylist()
        ]
        for where in ("", "a", "*/*.bin", "a/2.bin")
    }
    assert below == {
        "": ["a/1.bin", "a/2.bin", "b/3.bin"],
        "a": ["a/1.bin", "a/2.bin"],
        "*/*.bin": ["a/1.bin", "a/2.bin", "b/3.bin"],
        "a/2.bin": ["a/2.bin"],
    }
    with pytest.raises(SourceError, match="no such file"):
        storage.list(f"{tmp_path}/nowhere")


@pytest.mark.parametrize("kind", sorted(OPENERS))
def test_a_file_that_changed_is_refused(kind: str, tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"before")
    storage, where = OPENERS[kind](tmp_path)
    adopted = adopt_storage(storage)
    shards = adopted.list(where)
    (tmp_path / "a.bin").write_bytes(b"after!!")
    out, zero = np.zeros(3, dtype=np.uint8), np.array([0])
    with pytest.raises(DataError, match=r"a\.bin: .*open the dataset again"):
        adopted.read(shards, zero, zero, np.array([3]), out, zero)


class Swapping:
    """An Arrow file system in which another process replaces a file between a question and the reading, or while it is read."""

    type_name = "local"

    def __init__(self, when: str) -> None:
        self._inner, self._when = fs.LocalFileSystem(), when

    def get_file_info(self, what: Any) -> Any:
        return self._inner.get_file_info(what)

    @contextlib.contextmanager
    def open_input_file(self, name: str) -> Iterator[Any]:
        if self._when == "before":
            Path(name).write_bytes(b"after!")
        with self._inner.open_input_file(name) as file:
            if self._when == "during":
                Path(name).write_bytes(b"after!")
            if self._when == "removed":
                Path(name).unlink()
            yield file


@pytest.mark.parametrize("when", ["before", "during", "removed"])
def test_a_file_that_changes_while_it_is_read_is_refused(when: str, tmp_path: Path) -> None:
    """What was asked before the reading says nothing of what was read."""
    (tmp_path / "a.bin").write_bytes(b"before")
    os.utime(tmp_path / "a.bin", (1, 1))
    storage = RemoteStorage(ArrowStore(Swapping(when)))  # type: ignore[arg-type]
    shards = storage.list(str(tmp_path / "a.bin"))
    found = "no such file any more" if when == "removed" else "changed since it was listed"
    with pytest.raises(DataError, match=rf"a\.bin: {found}.*open the dataset again"):
        read_three(storage, shards)


class Remembering(MemoryFileSystem):
    """As s3fs does: what was listed is told again, until it is asked to forget."""

    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[str, Any] = {}

    def find(self, path: str, *args: Any, **kwargs: Any) -> Any:
        self.known.update(found := super().find(path, *args, **kwargs))
        return found

    def info(self, path: str, **kwargs: Any) -> Any:
        return self.known.get(path) or super().info(path, **kwargs)

    def invalidate_cache(self, path: str | None = None) -> None:
        self.known.clear()


def read_three(storage: Any, shards: Any) -> bytes:
    out, zero = np.zeros(3, dtype=np.uint8), np.array([0])
    storage.read(shards, zero, zero, np.array([3]), out, zero)
    return out.tobytes()


@pytest.mark.parametrize("after", [b"after!", b"!"])
def test_a_file_that_changed_is_refused_whatever_is_remembered(after: bytes, tmp_path: Path) -> None:
    filesystem, where = Remembering(), str(tmp_path)
    filesystem.pipe(f"{where}/a.bin", b"before")
    storage = adopt_storage(filesystem)
    shards = storage.list(where)
    filesystem.pipe(f"{where}/a.bin", after)
    with pytest.raises(DataError, match=r"a\.bin: changed since it was listed"):
        read_three(storage, shards)


class ClientError(Exception):
    """As of aiohttp or botocore: no OSError."""

    def __init__(self, status: int | None = None) -> None:
        super().__init__("https://host/a?sig=a-secret went wrong")
        self.status = status


class Web(MemoryFileSystem):
    """As fsspec's of HTTP: names are whole URLs, and nothing can be listed. Errors come first."""

    protocol, cachable = ("web", "webs"), False

    def __init__(self, *errors: Exception) -> None:
        super().__init__()
        self.errors = list(errors)

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path

    def info(self, path: str, **_: Any) -> Any:
        if path != "web://host/a.txt":
            raise FileNotFoundError(path)
        return {"name": path, "size": 3, "type": "file", "ETag": "1"}

    def find(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("there is nothing to list")

    def cat_file(self, path: str, **_: Any) -> bytes:
        if self.errors:
            raise self.errors.pop()
        return b"abc"


def test_names_that_are_urls_and_errors_of_a_clients_own_class() -> None:
    passing = adopt_storage(Web(ClientError(503), ClientError()))
    shards = passing.list("web://host/a.txt")
    assert shards.paths.to_pylist() == ["web://host/a.txt"]
    assert read_three(passing, shards) == b"abc"
    for error, found in (
        (ClientError(403), "the file system refuses: https://host/a went wrong; check your permissions"),
        (ClientError(410), "ClientError: https://host/a went wrong"),
        (RuntimeError("Loop is not running"), "RuntimeError: Loop is not running; check the path"),
    ):
        with pytest.raises(StorageError, match=f"web://host/a.txt: {found}") as told:
            read_three(adopt_storage(Web(error)).remote, shards)  # type: ignore[attr-defined]  # behind its cache
        assert "a-secret" not in str(told.value)
    with pytest.raises(PlanError, match="a signature inside a URL"):
        passing.list("web://host/a.txt?sig=a-secret")


def test_paths_that_arrow_refuses() -> None:
    with pytest.raises(StorageError, match=r"file:///a: ArrowInvalid: .*got a URI.*; check the path"):
        ps.read("file:///a", storage=fs.LocalFileSystem())


def memory(_: Path) -> tuple[Any, str]:
    return MemoryFileSystem(), f"memory://{_.name}"


def in_zip(folder: Path) -> tuple[Any, str]:
    path = shutil.make_archive(str(folder), "zip", folder)
    return fsspec.filesystem("zip", fo=path), ""


REAL = {
    "memory": memory,
    "zip": in_zip,
    "zip::memory": lambda folder: (fsspec.filesystem("zip", fo=f"memory://{folder.name}.zip"), ""),
    "dir": lambda folder: (fsspec.filesystem("dir", path=str(folder), fs=fsspec.filesystem("file")), ""),
    "local": lambda folder: (fsspec.filesystem("file"), f"file://{folder}"),
    "simplecache::memory": lambda folder: (
        fsspec.filesystem("simplecache", target_protocol="memory"),
        f"memory://{folder.name}",
    ),
    "filecache::file": lambda folder: (fsspec.filesystem("filecache", target_protocol="file"), str(folder)),
}


def lines(folder: Path) -> None:
    for number in range(3):
        (folder / f"{number}.txt").write_text("".join(f"{number}.{row}\n" for row in range(50)))


def tokens(folder: Path) -> None:
    for number in range(2):
        (np.arange(1000, dtype=np.uint16) + number).tofile(folder / f"{number}.bin")


def parquet(folder: Path) -> None:
    for number in range(2):
        pq.write_table(pa.table({"x": np.arange(100) + 100 * number}), folder / f"{number}.parquet")


def mosaic(folder: Path) -> None:
    mds(folder, {"x": "bytes", "text": "str"}, [{"x": bytes(row), "text": b"%d" % row} for row in range(60)])


KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "text": (lines, {}),
    "tokens": (tokens, {"format": "tokens", "dtype": "uint16", "window": 100}),
    "parquet": (parquet, {}),
    "mds": (mosaic, {}),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", REAL)
def test_folders_of_several_formats_on_fsspecs_own_file_systems(name: str, kind: str, tmp_path: Path) -> None:
    """Two calls give a file's time in two forms (memory://), or a listing gives another name for it."""
    folder = tmp_path / f"{kind}-{name.replace(':', '')}"
    folder.mkdir()
    write, options = KINDS[kind]
    write(folder)
    holding = MemoryFileSystem()
    for path in sorted(folder.iterdir()):
        holding.pipe(f"/{folder.name}/{path.name}", path.read_bytes())
    holding.pipe(f"/{folder.name}.zip", Path(shutil.make_archive(str(folder), "zip", folder)).read_bytes())
    storage, where = REAL[name](folder)
    near, far = (
        through(ps.read(place, **options, **more)) for place, more in ((str(folder), {}), (where, {"storage": storage}))
    )
    assert repr(near) == repr(far)


def test_what_two_calls_say_of_a_file_is_compared_where_both_say_it() -> None:
    at = datetime(2026, 11, 22, 15, 48, 46, 891887, tzinfo=UTC)
    same = [
        ({"created": at.timestamp()}, {"created": at}),
        ({"mtime": int(at.timestamp())}, {"mtime": at.timestamp()}),
        ({"LastModified": at}, {"last_modified": "2026-11-22T15:48:46.891887+00:00"}),
        ({"Last-Modified": "Sun, 22 Nov 2026 15:48:46 GMT"}, {"modified": "x", "LastModified": at}),
        ({"ETag": '"abc"', "mtime": 1.5}, {"etag": "abc", "mtime": 7.5}),
        ({"mtime": 3}, {}),
        ({}, {"ETag": "abc"}),
    ]
    other = [
        ({"created": at.timestamp()}, {"created": at + timedelta(microseconds=3)}),
        ({"etag": "1e2", "mtime": 3}, {"etag": "100", "mtime": 3}),
        ({"ETag": "abc"}, {"etag": "abd"}),
        ({"date_time": (2026, 1, 1)}, {"date_time": (2026, 1, 2)}),
    ]
    assert [is_same_version(version_of(one), version_of(two)) for one, two in same] == [True] * len(same)
    assert [is_same_version(version_of(one), version_of(two)) for one, two in other] == [False] * len(other)


class Sizeless(MemoryFileSystem):
    """As fsspec's of HTTP lists the links of a page: names without sizes."""

    cachable = False

    def find(self, path: str, *args: Any, **kwargs: Any) -> Any:
        return {name: {"name": name, "size": None, "type": "file"} for name in super().find(path, *args, **kwargs)}


def test_a_listing_without_sizes(tmp_path: Path) -> None:
    filesystem = Sizeless()
    filesystem.pipe({f"/{tmp_path.name}/{number}.txt": b"row\n" * number for number in range(4)})
    assert len(ps.read(f"/{tmp_path.name}", storage=filesystem)) == 6


def test_what_is_no_storage_is_refused() -> None:
    with pytest.raises(PlanError, match="storage=int: pass an obstore store"):
        ps.read("x", storage=3)
