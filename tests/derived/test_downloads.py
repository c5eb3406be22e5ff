"""Files that lie elsewhere: read once for their index, or copied to the cache; never half, never twice, never under a wrong name."""

from __future__ import annotations

import errno
import gc
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import penstock as ps
from penstock.core.errors import DataError, StorageError
from penstock.derived import downloads as brought
from penstock.derived.lease import make_room
from support import shards as made
from support import tfrecords
from support.cases import FULL, MemoryStorage
from support.shared import new_threads

GOLDEN = Path(__file__).parent.parent / "golden" / "recordio"


def records(shard: int) -> bytes:
    messages = [tfrecords.example(id=tfrecords.integers(shard * 50 + row)) for row in range(50)]
    return b"".join(map(tfrecords.frame, messages))


@pytest.fixture
def root(tmp_path: Path) -> str:
    """What paths of this test begin with; no other test's, since all share a cache."""
    return f"memory://{tmp_path.name}-{os.getpid()}"


@pytest.fixture
def stored(root: str) -> MemoryStorage:
    return MemoryStorage({f"{root}/{shard}.tfrecord": records(shard) for shard in range(5)})


def ids(dataset: ps.Dataset) -> list[int]:
    with ps.Loader(dataset.batch(25)) as loader:
        return [int(number) for batch in loader for number in batch["id"]]


def cached() -> set[str]:
    folder = Path(os.environ["XDG_CACHE_HOME"]) / "penstock" / "unpacked"
    return {path.name for path in folder.rglob("*") if path.is_file()}


def taken(storage: MemoryStorage) -> int:
    return sum(size for _, _, size in storage.reads)


def test_records_cross_pieces(stored: MemoryStorage, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brought, "_PIECE_BYTES", 37)
    assert ids(ps.read(root, storage=stored)) == list(range(250))


def test_an_index_is_made_once(stored: MemoryStorage, root: str) -> None:
    told: list[tuple[int, int]] = []
    before = cached()
    ps.read(root, storage=stored, progress=lambda done, total: told.append((done, total)))
    whole = sum(map(len, stored.files.values()))
    assert taken(stored) >= whole
    assert told[-1] == (whole, whole)
    assert cached() == before, "a file that was here for its index stays"
    stored.reads.clear()
    again = ps.read(root, storage=stored)
    assert {path for path, _, _ in stored.reads} == {f"{root}/0.tfrecord"}, "its first records tell the columns"
    assert ids(again) == list(range(250))


def test_names_that_do_not_say_where_are_indexed_again(stored: MemoryStorage, root: str) -> None:
    """Two storages may both have a file a/0.tfrecord of one size."""
    for storage in (MemoryStorage({"a/0.tfrecord": records(0)}), MemoryStorage({"a/0.tfrecord": records(1)})):
        assert len(ps.read("a", storage=storage)) == 50
        assert taken(storage) >= len(storage.files["a/0.tfrecord"])


def test_damage_is_told_of_the_file_itself(stored: MemoryStorage, root: str) -> None:
    damaged = bytearray(stored.files[f"{root}/3.tfrecord"])
    damaged[0] ^= 1
    stored.files[f"{root}/3.tfrecord"] = bytes(damaged)
    with pytest.raises(DataError, match=rf"^{root}/3\.tfrecord, record 0, byte 0: the length's checksum"):
        ps.read(root, storage=stored)


class Failing(MemoryStorage):
    """Fails at the third piece."""

    def __init__(self, files: dict[str, bytes], fail: Callable[[], None]) -> None:
        super().__init__(files)
        self._fail = fail

    def read(self, shards: Any, shard: Any, offset: Any, length: Any, out: Any, at: Any) -> None:
        if len(self.reads) >= 3:
            self._fail()
        super().read(shards, shard, offset, length, out, at)


def test_a_store_that_fails_is_told(stored: MemoryStorage, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ps.StorageError("the store is gone")

    monkeypatch.setattr(brought, "_PIECE_BYTES", 500)
    before = cached()
    with pytest.raises(ps.StorageError, match="the store is gone"):
        ps.read(root, storage=Failing(stored.files, fail))
    assert cached() == before


def test_ctrl_c_ends_it(stored: MemoryStorage, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pause, before = threading.Event(), {*threading.enumerate()}
    monkeypatch.setattr(brought, "_PIECE_BYTES", 500)

    def progress(done: int, total: int) -> None:
        pause.set()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ps.read(root, storage=Failing(stored.files, lambda: pause.wait(10) and None), progress=progress)
    assert not [name for name in new_threads(before) if name.startswith("penstock-br")]


def test_no_room_is_told(stored: MemoryStorage, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wanted for a while comes to memory if it is small."""
    monkeypatch.setattr("shutil.disk_usage", lambda _: FULL)
    assert ids(ps.read(root, storage=stored)) == list(range(250))
    monkeypatch.setattr(brought, "_IN_MEMORY_BYTES", 100)
    other = MemoryStorage({f"{root}/other/{name[-10:]}": content for name, content in stored.files.items()})
    with pytest.raises(
        StorageError, match=r"no room for a copy below .*at least .* bytes are needed, and 0 are usable"
    ) as caught:
        ps.read(f"{root}/other", storage=other)
    assert caught.value.errno == errno.ENOSPC
    assert str(caught.value).startswith(root)


@pytest.mark.parametrize("call", ["pwrite", "open"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_a_disk_that_takes_no_more_in_mid_run(
    root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    """A library that wants a file of its own gets none: what is said names the file, and what to do."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("id", data=np.arange(50), chunks=(9,))
    stored = MemoryStorage({f"{root}/a.h5": (tmp_path / "a.h5").read_bytes()})
    real = getattr(os, call)

    def refuse(path: Any, *arguments: Any, **more: Any) -> Any:
        if call == "pwrite" or "scratch" in str(path):
            raise OSError(number, os.strerror(number), path)
        return real(path, *arguments, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, call, refuse)
        with pytest.raises(
            StorageError, match=rf"^{root}/a\.h5: no room for a copy below .*{os.strerror(number)}.*free some"
        ):
            ps.read(root, storage=stored)
    assert not list((Path(os.environ["XDG_CACHE_HOME"]) / "penstock" / "unpacked" / "scratch").iterdir())
    assert ids(ps.read(root, storage=stored)) == list(range(50))


def test_copies_are_made_once_and_stay_in_use(root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("id", data=np.arange(50), chunks=(9,))
    stored = MemoryStorage({f"{root}/a.h5": (tmp_path / "a.h5").read_bytes()})
    dataset = ps.read(root, storage=stored)
    stored.reads.clear()
    again = ps.read(root, storage=stored)
    assert taken(stored) <= 512
    monkeypatch.setenv("PENSTOCK_CACHE_BYTES", "0")
    folder = str(Path(os.environ["XDG_CACHE_HOME"]) / "penstock" / "unpacked")
    make_room(folder)
    assert ids(dataset) == ids(again) == list(range(50))
    held = cached()
    del dataset, again
    gc.collect()
    make_room(folder)
    assert held - cached(), "nobody uses the copy, and it stays"


def recordio(name: str, root: str, **more: bytes) -> MemoryStorage:
    files = {f"{root}/x.{kind}": (GOLDEN / f"{name}.{kind}").read_bytes() for kind in ("rec", "idx")}
    return MemoryStorage(files | {f"{root}/x.{kind}": content for kind, content in more.items()})


def test_stated_positions_spare_the_file(root: str) -> None:
    rows = [b"\0" * 8 + row.to_bytes(8, "little") + bytes(8) + b"x" * 4000 for row in range(300)]
    framed = [made.recordio(row) for row in rows]
    starts = np.cumsum([0, *map(len, framed)])[:-1]
    index = "".join(f"{row}\t{start}\n" for row, start in enumerate(starts)).encode()
    stored = MemoryStorage({f"{root}/x.rec": b"".join(framed), f"{root}/x.idx": index})
    dataset = ps.read(f"{root}/x.rec", storage=stored)
    assert taken(stored) < len(stored.files[f"{root}/x.rec"]) // 2
    assert ids(dataset) == list(range(300))


@pytest.mark.parametrize("wrong", [b"", b"0\tx\n", b"0\t0\n1\t4\n", b"0\t0\n1\t999999999\n", b"0\t8\n", b"\xff" * 99])
@pytest.mark.parametrize("name", ["scalar", "ragged"])
def test_positions_that_do_not_fit_are_not_used(name: str, wrong: bytes, root: str) -> None:
    near = ps.read(GOLDEN / f"{name}.rec", columns=["id"])
    far = ps.read(f"{root}/x.rec", storage=recordio(name, root, idx=wrong), columns=["id"])
    assert ids(far) == ids(near)


def test_sound_positions_and_none(root: str) -> None:
    near = ps.read(GOLDEN / "ragged.rec", columns=["id"])
    stored = recordio("ragged", root)
    assert ids(ps.read(f"{root}/x.rec", storage=stored, columns=["id"])) == ids(near)
    del stored.files[f"{root}/x.idx"]
    stored.files[f"{root}/y.rec"] = stored.files.pop(f"{root}/x.rec")
    assert ids(ps.read(f"{root}/y.rec", storage=stored, columns=["id"])) == ids(near)
