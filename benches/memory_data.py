"""The data of `memory.py`: files of each format, each kind of rows. Numbers are random only where compression would matter."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import memory_files as files
from memory_kinds import KINDS, TINY, Kind, parts, table

__all__ = ["FORMATS", "KINDS", "write"]


@dataclass(frozen=True)
class Form:
    """A format. write: rows of a kind, as files of a new folder; kinds: of data that it can have; has_blocks: whether its files say what is decoded together; options: of `read`; then: what is done with its rows."""

    write: Callable[[Path, str, Kind], None]
    kinds: tuple[str, ...]
    has_blocks: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    then: Callable[[Any], Any] = lambda data: data


def write(format: str, kind: str, folder: Path) -> None:
    """A small dataset in `small`, and that of a kind in `data`."""
    form, words = FORMATS[format], kind if kind.startswith(("dictionary", "run-end")) else "small rows"
    for name, of, what in (("small", TINY, words), ("data", KINDS[kind], kind)):
        (folder / name).mkdir()
        form.write(folder / name, what, of)


def _parquet(folder: Path, kind: str, of: Kind) -> None:
    batches = table(kind, of)
    first = next(batches)
    with pq.ParquetWriter(folder / "0.parquet", first.schema, compression="zstd" if of.is_packed else "none") as writer:
        for batch in (first, *batches):
            writer.write_batch(batch, row_group_size=len(batch))


def _export(folder: Path, kind: str, of: Kind) -> None:
    """Parquet, as it lies on Hugging Face's Hub."""
    _parquet(folder, kind, of)
    (folder / "0.parquet").rename(folder / "train-00000-of-00001.parquet")


def _arrow(folder: Path, kind: str, of: Kind) -> None:
    batches = table(kind, of)
    first = next(batches)
    options = pa.ipc.IpcWriteOptions(compression="zstd" if of.is_packed else None)
    with pa.ipc.new_file(folder / "0.arrow", first.schema, options=options) as writer:
        for batch in (first, *batches):
            writer.write_batch(batch)


def _hdf5(folder: Path, kind: str, of: Kind) -> None:
    import h5py

    if kind == "chunks of a column":
        (column,) = (part[:, :4].copy().view(np.float32)[:, 0] for part in parts(of, of.rows))
        with h5py.File(folder / "0.h5", "w") as file:
            made = file.create_dataset(
                "x", (of.rows, of.row_bytes // 4), "f4", chunks=(of.rows, 1), compression="gzip", compression_opts=1
            )
            for number in range(of.row_bytes // 4):
                made[:, number] = column
        return
    chunk = (min(of.rows, of.block_rows or max(1, (1 << 20) // of.row_bytes)), of.row_bytes // 4)
    packing = {"compression": "gzip", "compression_opts": 1} if of.is_packed else {}
    with h5py.File(folder / "0.h5", "w") as file:
        made = file.create_dataset("x", (of.rows, of.row_bytes // 4), "f4", chunks=chunk, **packing)
        first = 0
        for part in parts(of):
            made[first : first + len(part)] = part.view(np.float32)
            first += len(part)


def _zarr(folder: Path, _: str, of: Kind) -> None:
    import zarr

    chunk = (min(of.rows, of.block_rows or max(1, (1 << 20) // of.row_bytes)), of.row_bytes // 4)
    packing: dict[str, Any] = {} if of.is_packed else {"compressors": None}
    group = zarr.open_group(str(folder), mode="w")
    made: Any = group.create_array("x", shape=(of.rows, of.row_bytes // 4), dtype="f4", chunks=chunk, **packing)
    first = 0
    for part in parts(of):
        made[first : first + len(part)] = part.view(np.float32)
        first += len(part)


def _npy(folder: Path, _: str, of: Kind) -> None:
    made = np.lib.format.open_memmap(folder / "0.npy", "w+", np.float32, (of.rows, of.row_bytes // 4))
    first = 0
    for part in parts(of):
        made[first : first + len(part)] = part.view(np.float32)
        first += len(part)


def _tokens(folder: Path, _: str, of: Kind) -> None:
    with (folder / "0.bin").open("wb") as file:
        for part in parts(of):
            file.write(part.data)


def _lines(folder: Path, _: str, of: Kind) -> None:
    with gzip.open(folder / "0.jsonl.gz", "wb", 1) if of.is_packed else (folder / "0.jsonl").open("wb") as file:
        for number, part in enumerate(parts(of)):
            text = b"0" * (of.row_bytes - 30) if of.is_packed else part.tobytes().hex().encode()[: of.row_bytes - 30]
            for row in range(len(part)):
                file.write(b'{"id": %d, "x": "%s"}\n' % (1_000 * number + row, text))


def _csv(folder: Path, _: str, of: Kind) -> None:
    with gzip.open(folder / "0.csv.gz", "wb", 1) if of.is_packed else (folder / "0.csv").open("wb") as file:
        file.write(b"id,x\n")
        for number, part in enumerate(parts(of)):
            text = (
                b"y" * (of.row_bytes - 10)
                if of.is_packed
                else b"y" + part.tobytes().hex().encode()[: of.row_bytes - 10]
            )
            for row in range(len(part)):
                file.write(b"%d,%s\n" % (1_000 * number + row, text))


def _tar(folder: Path, _: str, of: Kind) -> None:
    name = folder / ("0.tar.gz" if of.is_packed else "0.tar")
    with tarfile.open(name, "w:gz", compresslevel=1) if of.is_packed else tarfile.open(name, "w") as file:
        for number, part in enumerate(parts(of)):
            data = part[0].tobytes()
            for row in range(len(part)):
                member = tarfile.TarInfo(f"{1_000 * number + row:08}.bin")
                member.size = len(data)
                file.addfile(member, io.BytesIO(data))


def _npz(folder: Path, _: str, of: Kind) -> None:
    made = np.concatenate([*parts(of)]).view(np.float32)
    (np.savez_compressed if of.is_packed else np.savez)(folder / "0.npz", x=made)


def _tfrecord(folder: Path, _: str, of: Kind) -> None:
    """Examples of one feature of bytes, framed as TFRecord says, with checksums."""
    with gzip.open(folder / "0.tfrecord.gz", "wb", 1) if of.is_packed else (folder / "0.tfrecord").open("wb") as file:
        for part in parts(of):
            value = _message(2, _message(1, _message(1, part[0].tobytes())))
            example = _message(1, _message(1, _message(1, b"x") + value))
            length = struct.pack("<Q", len(example))
            record = length + _masked(length) + example + _masked(example)
            for _row in range(len(part)):
                file.write(record)


def _message(field: int, data: bytes) -> bytes:
    """A field of bytes, as Protocol Buffers write it."""
    size, left = bytearray(), len(data)
    while left >= 0x80:
        size.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([field << 3 | 2, *size, left]) + data


def _masked(data: bytes) -> bytes:
    crc = _crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _crc32c(data: bytes) -> int:
    state = 0xFFFFFFFF
    for byte in data:
        state = _CRC32C[(state ^ byte) & 0xFF] ^ state >> 8
    return state ^ 0xFFFFFFFF


def _crc32c_of(number: int) -> int:
    for _ in range(8):
        number = number >> 1 ^ (0x82F63B78 if number & 1 else 0)
    return number


_CRC32C = [*map(_crc32c_of, range(256))]


_PLAIN = ("small rows", "6 MB blocks", "64 MB blocks")
_PACKED = (*_PLAIN, "compressed 100:1")
_DICTIONARIES = ("dictionary", "dictionary with nulls")
#: Which only changes columns that have some.
_NULLS = {"nulls": "arrow"}
#: Rows of tokens are as long as those of a small dataset: 1,000 bytes.
FORMATS = {
    "parquet": Form(_parquet, (*_PACKED, *_DICTIONARIES), has_blocks=True, options=_NULLS),
    "arrow": Form(
        _arrow,
        (*_PACKED, "compressed bytes", *_DICTIONARIES, "run-end", "run-end with nulls"),
        has_blocks=True,
        options=_NULLS,
    ),
    "hdf5": Form(_hdf5, (*_PACKED, "chunks of a column"), has_blocks=True),
    "zarr": Form(_zarr, _PACKED, has_blocks=True),
    "npy": Form(_npy, _PLAIN),
    "npz": Form(_npz, _PACKED),
    "tokens": Form(_tokens, ("small rows",), options={"format": "tokens", "dtype": "uint16", "window": 499}),
    "jsonl": Form(_lines, _PACKED),
    "csv": Form(_csv, _PACKED),
    "tar": Form(_tar, _PACKED),
    "tfrecord": Form(_tfrecord, _PACKED),
    "text": Form(files.text, _PACKED),
    "recordio": Form(files.recordio, _PLAIN),
    "mds": Form(files.mds, _PACKED),
    "litdata": Form(files.litdata, _PACKED),
    "litdata rows": Form(files.litdata_rows, _PACKED, has_blocks=True),
    "lmdb": Form(files.lmdb, _PLAIN),
    "huggingface": Form(files.saved, _PLAIN, has_blocks=True),
    "huggingface export": Form(_export, (*_PACKED, "dictionary"), has_blocks=True),
    "image_folder": Form(files.images, _PACKED, then=files.decoded),
    "manifest": Form(files.manifest, _PLAIN),
}
