"""All that is kept of data in a user's cache shares one limit, and nothing is kept twice."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from pyarrow import fs

import penstock as ps
from penstock.core.files.cache_dirs import cache_folder, room_bytes
from penstock.derived.lease import make_room
from support.caching import Remote

BLOCK = 4096


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of these tests alone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "penstock"


def fill(name: str, *sizes: int) -> None:
    folder = cache_folder(name)
    assert folder is not None
    for number, size in enumerate(sizes):
        (Path(folder) / f"file {number}").write_bytes(b"x" * size)


def held(home: Path, *names: str) -> int:
    """Bytes of the disk that folders take."""
    return sum(path.stat().st_blocks * 512 for name in names for path in (home / name).glob("*"))


def test_each_folder_has_what_the_others_leave_and_a_quarter_at_least(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_CACHE_BYTES", str(90 * BLOCK))
    folders = {name: str(home / name) for name in ("remote", "unpacked", "decoded")}
    assert {room_bytes(folder) for folder in folders.values()} == {90 * BLOCK}
    fill("unpacked", 40 * BLOCK)
    fill("decoded", 10 * BLOCK)
    assert room_bytes(folders["unpacked"]) == 80 * BLOCK
    assert room_bytes(folders["decoded"]) == 50 * BLOCK
    assert room_bytes(folders["remote"]) == 40 * BLOCK
    fill("remote", 100 * BLOCK)
    assert room_bytes(folders["unpacked"]) == room_bytes(folders["decoded"]) == 90 * BLOCK // 4
    assert room_bytes(str(home / "elsewhere")) == 90 * BLOCK


@pytest.mark.slow
def test_blocks_and_files_stay_below_one_limit(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_CACHE_BYTES", "1200000")
    monkeypatch.setattr("penstock.storage.cache.cache._ROOM_S", 0.0)
    (tmp_path / "remote").mkdir()
    remote = Remote(tmp_path / "remote")
    storage = remote.storage()
    storage._undecided, storage._cache = True, None  # the user's own cache
    for round_ in range(6):
        remote.read_some(storage, round_, rounds=10)
        fill("unpacked", *[100_000] * round_)
        remote.read_some(storage, 100 + round_)
        make_room(str(home / "unpacked"))
    assert held(home, "unpacked") >= 290_000  # a quarter of it
    assert held(home, "remote") > 300_000
    packs = sum(path.stat().st_blocks * 512 for path in (home / "remote").glob("*.pack"))
    assert packs + held(home, "unpacked") <= 1_200_000
    assert storage.cache is not None
    assert storage.cache.limit_bytes < 900_000


@pytest.mark.parametrize("kind", ["hdf5", "jsonl.gz", "mds"])
def test_what_was_copied_or_unpacked_is_not_kept_as_blocks_too(kind: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    options: dict[str, Any] = {}
    if kind == "hdf5":
        with h5py.File(data / "a.h5", "w") as file:
            file["x"] = np.random.default_rng(0).random(10_000)
    elif kind == "jsonl.gz":
        (data / "a.jsonl.gz").write_bytes(gzip.compress(b'{"x": 1}\n' * 10_000))
        (data / "b.jsonl").write_bytes(b'{"x": 2}\n' * 10_000)
    else:
        source = Path(__file__).parent.parent / "golden" / "mds" / "packed-zstd"
        for path in source.iterdir():
            (data / path.name).write_bytes(path.read_bytes())
    far = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    dataset = ps.read("data", storage=far, **options)
    with ps.Loader(dataset.shuffle(seed=0).batch(10)) as loader:
        next(iter(loader))
    storage: Any = dataset.storage
    kept = storage.cache.contents
    shards = dataset.source.manifest.shards
    plain = [path for path in shards.paths.to_pylist() if path.endswith((".jsonl", ".json"))]
    assert kept.files <= len(plain) + (kind == "mds")  # the index of mds is read as it is
    assert bool(kept.pieces) == bool(plain or kind == "mds")
