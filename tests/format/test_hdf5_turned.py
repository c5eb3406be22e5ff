"""HDF5 datasets whose chunks lie across rows: their rows are h5py's, in the order that they had before they were mapped, and in little memory."""

from __future__ import annotations

import pickle
import shutil
import threading
import warnings
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import penstock as ps
from penstock.core.errors import DataError
from penstock.core.files.byte_ranges import ByteRanges
from penstock.format import hdf5_turned
from penstock.format.hdf5 import Hdf5Files
from penstock.resolve import dealt
from penstock.source.protocol import Access
from penstock.storage.local import LocalStorage
from support.seams import lowered_of

RNG = np.random.default_rng(5)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Blocks of whole chunks are large from 4 kB on."""
    monkeypatch.setattr(hdf5_turned, "_LARGE_BYTES", 4_000)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def written(
    folder: Path, chunk: tuple[int, ...] = (500, 1), rows: int = 1_003, dtype: Any = "f4", **packing: Any
) -> Any:
    """A matrix in chunks of a column each, and numbers beside it."""
    values = (RNG.random((rows, 12)) * 100).astype(dtype)
    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset("x", data=values, chunks=chunk, **packing)
        file.create_dataset("n", data=np.arange(rows), chunks=(100,))
        file["flat"] = np.arange(rows, dtype="i2")
    return values


def rows_of(plan: ps.Dataset, column: str = "x") -> Any:
    with ps.Loader(plan) as loader:
        return np.concatenate([batch[column] for batch in loader])


@pytest.mark.parametrize("chunk", [(500, 1), (1_003, 5), (300, 12), (2_000, 3)])
@pytest.mark.parametrize(
    "packing",
    [
        {},
        {"compression": "gzip"},
        {"compression": "gzip", "shuffle": True},
        {"compression": "lzf"},
        {"compression": "gzip", "fletcher32": True},
    ],
)
def test_rows_are_those_of_h5py(tmp_path: Path, chunk: tuple[int, ...], packing: dict[str, Any]) -> None:
    values = written(tmp_path, chunk, **packing, maxshape=(None, None))
    data = ps.read(tmp_path / "x.h5")
    assert (data.source.access is Access.MEMORY) == (chunk[1] < 12)
    assert (rows_of(data.batch(64)) == values).all()
    assert (rows_of(data.batch(64), "n") == np.arange(1_003)).all()
    assert (rows_of(data.batch(64), "flat") == np.arange(1_003)).all()
    numbers = rows_of(data.shuffle(seed=1).batch(64, lanes=8), "n")
    assert (rows_of(data.shuffle(seed=1).batch(64, lanes=8)) == values[numbers]).all()
    assert sorted(numbers.tolist()) == [*range(1_003)]


@pytest.mark.parametrize("dtype", [">f8", "u1", "?", "c8", "i2"])
def test_types(tmp_path: Path, dtype: str) -> None:
    values = written(tmp_path, dtype=dtype, compression="gzip", shuffle=True)
    data = ps.read(tmp_path / "x.h5", columns=["x"])
    assert data.source.access is Access.MEMORY
    assert (rows_of(data.batch(50)) == values).all()


def test_the_order_is_what_it_is_without_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it cannot be made: a saved state goes on with the rows that come next, here and there."""
    written(tmp_path, compression="gzip")
    plans = [ps.read(tmp_path / "x.h5").shuffle(seed=3).batch(16)]
    with monkeypatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is no cache
        patch.setenv("XDG_CACHE_HOME", str(tmp_path / "x.h5"))  # no folder
        plans.append(ps.read(tmp_path / "x.h5").shuffle(seed=3).batch(16))
        assert plans[1].source.access is Access.BLOCKS
        with ps.Loader(plans[1]) as loader:
            steps = iter(loader)
            next(steps)
            state, wanted = loader.state_dict(), [batch["n"].tolist() for batch in steps]
    with ps.Loader(plans[0]) as loader:
        loader.load_state_dict(state)
        assert [batch["n"].tolist() for batch in loader] == wanted
        assert loader.state_dict()["data"] == state["data"]
        assert lowered_of(loader).order.lanes == 16


def test_it_travels_to_where_there_is_no_copy(tmp_path: Path) -> None:
    values = written(tmp_path, compression="gzip")
    sent = pickle.dumps(ps.read(tmp_path / "x.h5", columns=["x", "n"]))
    shutil.rmtree(tmp_path / "cache")
    there = pickle.loads(sent)
    assert (rows_of(there.batch(50)) == values).all()
    with ps.Loader(there.shuffle(seed=3).batch(16)) as loader:
        wanted = [batch["n"].tolist() for batch in ps.Loader(ps.read(tmp_path / "x.h5").shuffle(seed=3).batch(16))]
        assert [batch["n"].tolist() for batch in loader] == wanted


@pytest.mark.parametrize("joins", ["concat", "zip"])
def test_beside_other_files_it_takes_as_many_lanes_as_without_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, joins: str
) -> None:
    """Whatever a machine has room for: ranks of two machines take one order."""
    with h5py.File(tmp_path / "x.h5", "w") as file:  # packed it is a small part of what it is decoded
        file.create_dataset("x", data=np.zeros((1_003, 100), "f4"), chunks=(500, 1), compression="gzip")
        file.create_dataset("n", data=np.arange(1_003), chunks=(100,))
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file.create_dataset("x", data=np.zeros((1_003, 100), "f4"), chunks=(100, 100), compression="gzip")
        file.create_dataset("m" if joins == "zip" else "n", data=np.arange(1_003), chunks=(100,))

    def plan() -> ps.Dataset:
        one, other = (ps.read(tmp_path / name, limits=ps.Limits(ratio=1 << 40)) for name in ("x.h5", "other.h5"))
        if joins == "zip":
            return ps.zip([one, other.select("m")]).shuffle(seed=3).batch(64)
        return ps.concat([one.select("x", "n"), other]).shuffle(seed=3, block_rows=100).batch(64)

    here = plan()
    with monkeypatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setenv("XDG_CACHE_HOME", str(tmp_path / "x.h5"))  # no folder
        there = plan()
    for most in (50_000, 200_000, 400_000, 800_000):
        monkeypatch.setattr(dealt, "OPEN_BYTES", most)
        taken = []
        for data in (here, there):
            with ps.Loader(data) as loader:
                taken.append([batch["n"].tolist() for batch in loader])
        assert taken[0] == taken[1], most


def test_several_files_and_one_that_changed(tmp_path: Path) -> None:
    each = []
    for name in "ab":
        (tmp_path / name).mkdir()
        each.append(written(tmp_path / name, compression="gzip"))
    files = [str(tmp_path / name / "x.h5") for name in "ab"]
    assert (rows_of(ps.read(files).batch(64)) == np.concatenate(each)).all()
    made = {
        path: path.stat().st_ino
        for path in (tmp_path / "cache").rglob("*")
        if path.is_file() and path.stat().st_size > 40_000
    }
    assert len(made) == 2
    assert (rows_of(ps.read(files).batch(64)) == np.concatenate(each)).all()  # nothing is made again
    assert all(path.stat().st_ino == number for path, number in made.items())
    other = written(tmp_path / "b", rows=777, compression="gzip")
    assert (rows_of(ps.read(files).batch(64)) == np.concatenate([each[0], other])).all()


def test_what_has_no_room_is_read_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = written(tmp_path, compression="gzip")
    monkeypatch.setenv("PENSTOCK_CACHE_BYTES", "1000")
    data = ps.read(tmp_path / "x.h5")
    assert data.source.access is Access.BLOCKS
    assert (rows_of(data.batch(64)) == values).all()


def test_text_beside_it_is_read_in_blocks(tmp_path: Path) -> None:
    written(tmp_path, compression="gzip")
    with h5py.File(tmp_path / "x.h5", "a") as file:
        file["name"] = [f"row {n}" for n in range(1_003)]
    data = ps.read(tmp_path / "x.h5")
    assert data.source.access is Access.BLOCKS
    with ps.Loader(data.batch(64)) as loader:
        assert next(iter(loader))["name"].to_pylist()[:2] == ["row 0", "row 1"]


def test_a_small_file_that_says_it_is_large_makes_no_large_file(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", (1_000_000, 500), "f4", chunks=(1_000_000, 1), compression="gzip")
    with pytest.warns(UserWarning, match="decodes every chunk"):
        data = ps.read(tmp_path / "x.h5")
    assert data.source.access is Access.BLOCKS
    assert sum(path.stat().st_size for path in (tmp_path / "cache").rglob("*") if path.is_file()) < 1_000_000


def test_a_damaged_chunk_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    written(tmp_path, compression="gzip")
    with h5py.File(tmp_path / "x.h5", "r") as file:
        info = file["x"].id.get_chunk_info(3)
    raw = bytearray((tmp_path / "x.h5").read_bytes())
    raw[info.byte_offset + 10 : info.byte_offset + 60] = bytes(50)
    (tmp_path / "x.h5").write_bytes(raw)
    with pytest.raises(DataError, match=r"x\.h5, x.*cannot be read .*write it again"):
        ps.read(tmp_path / "x.h5")


def test_a_copy_that_is_broken_off_keeps_no_lock(tmp_path: Path) -> None:
    """What was left is collected in any thread."""
    written(tmp_path, (8, 2), rows=400)
    files = Hdf5Files(LocalStorage().list(str(tmp_path)), ByteRanges())
    pieces = files.pieces(0, "x")
    next(pieces)()
    ending = threading.Thread(target=pieces.close)
    ending.start()
    ending.join()
    facts = list[Any]()
    looking = threading.Thread(target=lambda: facts.append(files.facts(0, "x")), daemon=True)
    looking.start()
    looking.join(60)
    assert [one.shape for one in facts] == [(400, 12)]
