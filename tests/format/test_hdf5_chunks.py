"""Packed chunks of HDF5 files: the rows that h5py reads, whatever the chunks' shapes and filters, and an error for every damaged one."""

from __future__ import annotations

import itertools
import struct
import zlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import penstock as ps
from penstock.format.hdf5_chunks import BlockedDataset
from support.files import through

RNG = np.random.default_rng(3)
RECORD = [("a", "i2"), ("b", ">f8", (2,))]
#: Shapes of datasets and chunks: whole and cut at the end of every axis, a chunk above the rows, no values at all.
SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((43,), (7,)),
    ((43,), (50,)),
    ((9, 4, 6), (2, 4, 5)),
    ((6, 0), (2, 1)),
    ((5, 3, 7, 2), (2, 2, 2, 2)),
]


@pytest.mark.parametrize(
    "filters", [{}, {"shuffle": True}, {"fletcher32": True}, {"shuffle": True, "fletcher32": True}]
)
@pytest.mark.parametrize("dtype", ["u1", ">i4", "<f8", "f2", "S5", "?", RECORD, "c16"])
def test_any_chunks_give_the_rows_of_h5py(dtype: Any, filters: dict[str, Any]) -> None:
    with h5py.File.in_memory() as file:
        for number, (shape, chunk) in enumerate(SHAPES):
            options = {
                "maxshape": (None,) * len(shape),
                "compression": "gzip",
                "fillvalue": np.ones(1, dtype)[0],
                **filters,
            }
            dataset = file.create_dataset(str(number), shape, dtype, chunks=chunk, **options)
            raw = RNG.integers(0, 2 if dtype == "?" else 256, int(np.prod(shape)) * dataset.dtype.itemsize, np.uint8)
            written = slice(0, shape[0] - 2 * (number % 2))  # the last chunks of some are never written
            dataset[written] = raw.view(dataset.dtype).reshape(shape)[written]
            blocks, whole = BlockedDataset(dataset), dataset[:]
            for first, last in itertools.combinations(range(0, shape[0] + 1, 1 + shape[0] // 9), 2):
                found = blocks.take(first, last)()
                assert found.dtype == dataset.dtype
                assert found.shape == (last - first, *shape[1:])
                assert found.tobytes() == whole[first:last].tobytes()


@pytest.mark.parametrize(
    "packed", [{}, {"compression": "gzip"}, {"compression": "gzip", "shuffle": True}, {"compression": "lzf"}, None]
)
def test_values_of_any_length(tmp_path: Path, packed: dict[str, Any] | None) -> None:
    """In chunks that can hardly be packed, and in one piece; where nothing is packed, one says that it has gigabytes."""
    options = {} if packed is None else {"chunks": (500,), **packed}
    lengths = RNG.permutation(500) + 1
    texts = ["x" * int(length) for length in lengths]
    lists = np.empty(500, object)
    lists[:] = [RNG.integers(0, 9, int(length)) for length in lengths]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("text", data=texts, dtype=h5py.string_dtype(), **options)
        file.create_dataset("list", data=lists, dtype=h5py.vlen_dtype("i8"), **options)
        records = file.create_dataset("record", (500,), [("t", h5py.string_dtype()), ("n", "i8")], **options)
        records[:] = np.array(list(zip(texts, lengths, strict=True)), records.dtype)
    columns = ["text", "list", "record.n"]
    found = through(ps.read(tmp_path / "a.h5", columns=columns))
    assert found["text"] == texts
    assert found["record.n"] == lengths.tolist()
    assert [list(row) for row in found["list"]] == [list(row) for row in lists]
    if not packed:
        content = (tmp_path / "a.h5").read_bytes()
        length = struct.pack("<I", int(lengths[7]))
        at = next(
            at
            for at in range(len(content))
            if content[at : at + 4] == length and content[at - 16 : at - 12] == struct.pack("<I", int(lengths[6]))
        )
        (tmp_path / "a.h5").write_bytes(content[: at + 3] + b"\x70" + content[at + 4 :])
        with pytest.raises(ps.DataError, match=r"text or a list that says it has [0-9,]+ bytes, in a file of"):
            through(ps.read(tmp_path / "a.h5", columns=columns))


def test_a_chunk_that_skipped_a_filter(tmp_path: Path) -> None:
    values = RNG.integers(0, 1000, 30).astype("i4")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = file.create_dataset("x", (30,), "i4", chunks=(10,), compression="gzip", shuffle=True)
        dataset.id.write_direct_chunk((0,), values[:10].tobytes(), 3)  # neither
        dataset.id.write_direct_chunk((10,), zlib.compress(values[10:20].tobytes()), 1)  # deflate alone
        dataset[20:] = values[20:]
    assert through(ps.read(tmp_path / "a.h5"))["x"] == values.tolist()


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        (zlib.compress(bytes(39)), "a chunk of 39 bytes, where its values take 40"),
        (zlib.compress(bytes(41)), "a chunk of 41 bytes or more, where its values take 40 at most"),
        (zlib.compress(RNG.bytes(40))[:-9], "a chunk that ends in the middle of its packed bytes"),
        (b"x" * 30, "a chunk that deflate cannot unpack"),
        (RNG.bytes(2_000), "a chunk of 2,000 bytes or more, where its values take 1,064 at most"),
        (b"y" * 40, "cannot be read"),  # as long as the values: perhaps they were never packed
    ],
)
def test_a_damaged_chunk_is_told(tmp_path: Path, packed: bytes, message: str) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = file.create_dataset("x", data=np.arange(30, dtype="i4"), chunks=(10,), compression="gzip")
        dataset.id.write_direct_chunk((10,), packed)
    dataset = ps.read(tmp_path / "a.h5").batch(10)
    with ps.Loader(dataset, rank=0, world_size=1) as loader, pytest.raises(ps.DataError, match=message):
        list(loader)


def test_many_threads_read_more_files_than_stay_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks are unpacked when the file that they came from may be closed."""
    monkeypatch.setattr("penstock.format.hdf5._OPEN_FILES", 2)
    for number in range(8):
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            rows = np.arange(number * 1_000, number * 1_000 + 1_000)
            file.create_dataset("x", data=rows, chunks=(20,), compression="gzip", shuffle=True)
    found = ps.read(tmp_path).shuffle(seed=1, mode="global").batch(50)
    with ps.Loader(found, rank=0, world_size=1) as loader:
        assert sorted(np.concatenate([batch["x"] for batch in loader]).tolist()) == list(range(8_000))
