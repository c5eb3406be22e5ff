"""Files derived from the data: made once, whole or absent, held from eviction while in use."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import BinaryIO

import pytest

import penstock as ps
from penstock.derived.files import DerivedFiles
from penstock.derived.lease import make_room
from support.cases import FULL


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DerivedFiles:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return DerivedFiles("unpacked", ["a", "b"], "data.bin", "a copy")


def test_a_file_is_made_once(files: DerivedFiles) -> None:
    made: list[str] = []

    def get() -> None:
        path = files.get("a", 3, lambda file: (made.append("a"), time.sleep(0.1), file.write(b"abc")))
        assert Path(path).read_bytes() == b"abc"

    threads = [threading.Thread(target=get) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == ["a"]
    assert files.missing({"a": 3, "b": None}) == ["b"]
    assert files.missing({"a": 4}) == ["a"]
    assert files.missing({"a": None}) == []


def test_what_fails_leaves_nothing(files: DerivedFiles) -> None:
    def fail(file: BinaryIO) -> None:
        file.write(b"ab")
        raise KeyError

    with pytest.raises(KeyError):
        files.get("a", 3, fail)
    assert files.size("a") is None
    assert not list(Path(files.folder, "scratch").iterdir())


def test_a_full_disk(files: DerivedFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: FULL)
    with pytest.raises(ps.StorageError, match=r"^data\.bin: no room for a copy below .*free some"):
        files.get("a", 3, lambda file: file.write(b"abc"))


def test_leases(files: DerivedFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    files.get("a", 3, lambda file: file.write(b"abc"))
    monkeypatch.setenv("PENSTOCK_CACHE_BYTES", "0")
    make_room(files.folder)
    assert files.size("a") == 3
    files.release()
    make_room(files.folder)
    assert files.size("a") is None


def test_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with (
        pytest.warns(UserWarning, match="no cache"),
        pytest.raises(ps.SourceError, match=r"data\.bin: a copy is written to the cache first"),
    ):
        DerivedFiles("unpacked", ["a"], "data.bin", "a copy")
