"""Users' own file systems: pyarrow.fs, fsspec, obstore, and what is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from obstore.store import LocalStore
from pyarrow import fs

import penstock as ps
from penstock.errors import DataError, PlanError, SourceError
from penstock.storage import adopt_storage

OPENERS = {
    "pyarrow": lambda root: (fs.LocalFileSystem(), str(root)),
    "fsspec": lambda root: (fsspec.filesystem("file"), str(root)),
    "obstore": lambda root: (LocalStore(str(root)), ""),
}


@pytest.fixture(params=sorted(OPENERS))
def opened(request: Any, photos: Path) -> tuple[Any, str]:
    return OPENERS[request.param](photos)


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


def test_what_is_no_storage_is_refused() -> None:
    with pytest.raises(PlanError, match="storage=int: pass an obstore store"):
        ps.read("x", storage=3)
