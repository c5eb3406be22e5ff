"""Small tables of every kind of column, as Parquet and Arrow, and what is hostile about such files."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import penstock as ps


def table(samples: int) -> pa.Table:
    """A column of every form; all values follow from the id."""
    ids = range(samples)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "third": pa.array([number / 3 for number in ids], pa.float32()),
            "flag": [number % 3 == 0 for number in ids],
            "text": [f"text {number}" * (number % 4) for number in ids],
            "data": [bytes([number % 251]) * (number % 9) for number in ids],
            "list": pa.array([list(range(number % 4)) for number in ids], pa.list_(pa.int16())),
            "pair": pa.array([[number, -number] for number in ids], pa.list_(pa.int32(), 2)),
            "box": [{"left": number, "name": str(number)} for number in ids],
        }
    )


def rows_of(dataset: ps.Dataset) -> dict[str, Any]:
    """All rows, in one batch."""
    (batch,) = ps.Loader(dataset.batch(len(dataset)))
    return batch


def check(batch: dict[str, Any]) -> None:
    """Every column is what the ids say."""
    wanted = table(int(max(batch["id"])) + 1).take(pa.array(batch["id"]))
    np.testing.assert_array_equal(batch["third"], wanted["third"].to_numpy())
    np.testing.assert_array_equal(batch["flag"], wanted["flag"].to_numpy())
    np.testing.assert_array_equal(batch["pair"], np.stack([batch["id"], -batch["id"]], 1))
    np.testing.assert_array_equal(batch["box.left"], batch["id"])
    assert batch["box.name"].to_pylist() == [str(number) for number in batch["id"]]
    for name in ("text", "data", "list"):
        assert batch[name].to_pylist() == wanted[name].to_pylist(), name


def write_arrow(path: Path, written: pa.Table, *, rows: int, stream: bool = False, packing: str | None = None) -> Path:
    """An IPC file or stream of record batches of `rows` rows."""
    options = pa.ipc.IpcWriteOptions(compression=packing)
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(str(path), written.schema, options=options) as writer:
        writer.write_table(written, max_chunksize=rows)
    return path


# For damage.py: a few rows, so that every byte matters


def _small() -> pa.Table:
    return table(5).select(["id", "text"])


def make_parquet(folder: Path) -> Path:
    path = folder / "small.parquet"
    pq.write_table(_small(), path, row_group_size=3, write_page_checksum=True)
    return path


def make_parquet_pages(folder: Path) -> Path:
    path = folder / "small.parquet"
    pq.write_table(_small(), path, write_page_index=True, write_page_checksum=True, max_rows_per_page=2)
    return path


def make_arrow(folder: Path) -> Path:
    return write_arrow(folder / "small.arrow", table(5).select(["id", "third", "text", "list"]), rows=3)


def make_stream(folder: Path) -> Path:
    return write_arrow(folder / "small.arrows", _small(), rows=3, stream=True)


def make_packed(folder: Path) -> Path:
    dictionary = pa.array(["a", "b", "a", "a", "b"]).dictionary_encode()
    written = _small().append_column("word", dictionary)
    return write_arrow(folder / "small.arrow", written, rows=3, stream=True, packing="zstd")


def hostile_parquet() -> dict[str, bytes]:
    def footer(length: int) -> bytes:
        return b"PAR1" + bytes(64) + struct.pack("<I", length) + b"PAR1"

    return {
        **{f"a footer of {length:,} bytes": footer(length) for length in (64, 68, 1 << 20, (1 << 32) - 1)},
        "an encrypted footer": b"PARE" + bytes(64) + struct.pack("<I", 64) + b"PARE",
        "magic alone": b"PAR1PAR1",
    }


def hostile_arrow() -> dict[str, bytes]:
    def message(length: int, header: bytes = bytes(64)) -> bytes:
        return b"\xff\xff\xff\xff" + struct.pack("<i", length) + header

    return {
        **{f"a header of {length:,} bytes": message(length) for length in (-1, 1, 64, 1 << 30, (1 << 31) - 1)},
        "a header that points outside itself": message(64, b"\xff" * 64),
        "the end at once": message(0),
        "magic alone": b"ARROW1\0\0",
    }
