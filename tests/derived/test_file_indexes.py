"""The cache of indexes and unpacked files: private, whole or not at all, never believed when stale."""

from __future__ import annotations

import gzip
import os
import pwd
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from penstock.core import kernels
from penstock.core.errors import StorageError
from penstock.core.files.cache_dirs import cache_folder, found_folder
from penstock.derived.file_indexes import IndexedFile, entry_key, load_entry, store_entry
from penstock.format import tfrecord
from support.cases import FULL
from support.tfrecords import GOLDEN, example, frame, integers, open_files, parse, write


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "penstock"


@pytest.fixture
def indexed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of files of each native indexing."""
    calls: list[int] = []
    native = kernels.index_tfrecords

    def index(paths, *arguments, **named):
        calls.append(len(paths))
        return native(paths, *arguments, **named)

    monkeypatch.setattr(tfrecord, "_FRAMING", replace(tfrecord._FRAMING, index=index))
    return calls


def test_a_file_is_indexed_once_and_again_when_it_changes(tmp_path: Path, indexed: list[int], cache: Path) -> None:
    paths = [write(tmp_path / str(part), [example(x=integers(part))] * 3) for part in range(3)]
    for _ in range(2):
        assert parse(open_files(*paths))["x"].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert indexed == [3]
    write(paths[1], [example(x=integers(7))] * 4)
    assert parse(open_files(*paths))["x"].tolist() == [0, 0, 0, 7, 7, 7, 7, 2, 2, 2]
    assert indexed == [3, 1]
    assert (cache.stat().st_mode & 0o777, (cache / "index").stat().st_mode & 0o777) == (0o700, 0o700)


def test_a_damaged_entry_is_built_anew(indexed: list[int], cache: Path) -> None:
    path = GOLDEN / "dense.tfrecord"
    wanted = parse(open_files(path))["label"].tolist()
    (entry,) = (cache / "index").glob("*.index")
    whole = entry.read_bytes()
    for damaged in (b"", whole[:30], whole[:-1], whole + b"x", whole[:60] + b"\xff" + whole[61:], b"x" * len(whole)):
        entry.write_bytes(damaged)
        assert parse(open_files(path))["label"].tolist() == wanted
        assert entry.read_bytes() == whole
    assert len(indexed) == 7


@pytest.mark.parametrize(
    ("length", "start"), [([1 << 40], 0), ([20], 1 << 50), ([20], -8), ([1 << 62] * 4, 0), ([-1], 0)], ids=str
)
def test_an_entry_whose_checksum_is_right_and_whose_numbers_are_impossible_is_built_anew(
    length: list[int], start: int, indexed: list[int], cache: Path
) -> None:
    path = GOLDEN / "dense.tfrecord"
    wanted = parse(open_files(path))["label"].tolist()
    (entry,) = (cache / "index").glob("*.index")
    whole = entry.read_bytes()
    store_entry(str(cache / "index"), entry.stem, IndexedFile(np.array(length, dtype=np.int64), start))
    assert entry.read_bytes() != whole
    assert parse(open_files(path))["label"].tolist() == wanted
    assert entry.read_bytes() == whole
    assert len(indexed) == 2


@pytest.mark.parametrize("home", ["", "/", "here"])
def test_without_a_home_the_cache_is_where_the_system_says(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never at the root of the file system, nor where the program runs."""
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", home)
    made: list[str] = []
    monkeypatch.setattr(os, "makedirs", lambda path, **_: made.append(path))
    monkeypatch.setattr(pwd, "getpwuid", lambda _: SimpleNamespace(pw_dir="/"))
    with pytest.warns(UserWarning, match=r"no cache: .*no home folder; .* set XDG_CACHE_HOME"):
        assert cache_folder("index") is None
    assert found_folder("index") is None
    assert not made


def test_entries_are_what_was_stored(cache: Path) -> None:
    folder = cache_folder("index")
    for number, length in enumerate([[], [16], [17, 1 << 31, 1 << 33]]):
        key = entry_key("test", number, "/a", 1, 2)
        store_entry(folder, key, IndexedFile(np.array(length, dtype=np.int64), 3, 1, 5))
        entry = load_entry(folder, key)
        assert entry is not None
        assert (entry.length.tolist(), entry.start, entry.packing, entry.unpacked_bytes) == (length, 3, 1, 5)
    assert entry_key("t", 1, "/a", 1, 2) != entry_key("t", 1, "/a", 1, 3)


def test_a_cache_that_others_can_write_is_not_used(tmp_path: Path, indexed: list[int], cache: Path) -> None:
    path = write(tmp_path / "a", [example(x=integers(1))])
    open_files(path)
    (cache / "index").chmod(0o777)
    for _ in range(2):
        with pytest.warns(UserWarning, match=r"no cache: .*index: others may write into it"):
            open_files(path)
    assert indexed == [1, 1, 1]
    (cache / "index").chmod(0o700)


def test_a_cache_that_is_a_link_is_not_used(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    cache.parent.mkdir()
    cache.symlink_to(tmp_path / "elsewhere")
    with pytest.warns(UserWarning, match="no cache"):
        assert cache_folder("index") is None


def test_packed_files_are_unpacked_once(tmp_path: Path, indexed: list[int], cache: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"".join(frame(example(x=integers(row))) for row in range(50))))
    plain = write(tmp_path / "b", [example(x=integers(99))])
    for _ in range(2):
        source = open_files(path, plain)
        assert parse(source)["x"].tolist() == [*range(50), 99]
        assert source.manifest.shards.path(0) == str(path)
        assert source.manifest.stored.path(0).startswith(str(cache / "unpacked"))
        assert source.manifest.stored.path(1) == str(plain)
    assert indexed == [2]
    (unpacked,) = (path for path in (cache / "unpacked").iterdir() if path.is_file())
    unpacked.unlink()
    assert parse(open_files(path, plain))["x"].tolist() == [*range(50), 99]
    assert indexed == [2, 1]


def test_many_at_once(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"".join(frame(example(x=integers(row))) for row in range(500))))
    with ThreadPoolExecutor(8) as threads:
        sources = list(threads.map(lambda _: open_files(path), range(16)))
    assert all(parse(source)["x"].tolist() == list(range(500)) for source in sources)
    assert [file.suffix for file in cache.rglob("*") if file.is_file() and file.suffix == ".tmp"] == []


def test_no_room_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(frame(example(x=integers(1)))))
    monkeypatch.setattr("shutil.disk_usage", lambda _: FULL)
    with pytest.raises(
        StorageError, match=r"no room for the unpacked file below .*; free some, or point XDG_CACHE_HOME"
    ):
        open_files(path)
    assert [path for path in (cache / "unpacked").rglob("*") if path.is_file()] == []


def test_progress_is_told_and_can_stop_it(tmp_path: Path) -> None:
    path = write(tmp_path / "a", [example(x=integers(1))] * 10)
    told: list[tuple[int, int]] = []
    open_files(path, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (path.stat().st_size,) * 2
    work = kernels.WorkProgress()
    work.stop()
    sizes = np.array([os.stat(path).st_size], dtype=np.int64)
    with pytest.raises(KeyboardInterrupt):
        kernels.index_tfrecords([str(path)], sizes, record_bytes=1 << 30, threads=1, progress=work)
