"""NumPy arrays in .npy files: one row of the first axis is a sample, several files are shards of one array.

Records with named fields become a column a field ("box.left" where they nest). Local files are mapped.
"""

from __future__ import annotations

import ast
import math
import re
import struct
import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from numpy.lib import format as numpy_format

from penstock.core import kernels
from penstock.core.columns.ragged import edges_of
from penstock.core.columns.spec import Ids
from penstock.core.errors import DataError
from penstock.core.files.byte_ranges import ByteRanges, first_bytes, read_range
from penstock.core.files.shards import Shards
from penstock.core.verbs.options import Options
from penstock.derived.downloads import copies_of
from penstock.derived.files import derived_file
from penstock.source.arrays.strided import (
    Mapped,
    PlacedColumn,
    PlacedColumns,
    Records,
    RegularManifest,
    StoredColumn,
    distinct_columns,
    leaves,
)
from penstock.source.manifest import Manifest
from penstock.source.selection import Selection

MAGIC = b"\x93NUMPY"
#: Bytes of a header at most: the limit of NumPy's own reader, and some room for many fields.
HEADER_BYTES = 1 << 16
_KEYS = {"descr", "fortran_order", "shape"}


@dataclass(frozen=True)
class NpyHeader:
    """What an array is and where its values begin. fortran: whether the first axis varies fastest."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool
    start: int

    @property
    def size_bytes(self) -> int:
        """Bytes of all values."""
        return self.dtype.itemsize * math.prod(self.shape)

    @property
    def row_bytes(self) -> int:
        """Bytes of one row of the first axis."""
        return self.dtype.itemsize * math.prod(self.shape[1:])


def header_bytes(head: bytes, where: str) -> int:
    """Bytes of the whole header, from the first 12 bytes of the data."""
    version, width = head[6:7], {b"\x01": 2, b"\x02": 4, b"\x03": 4}.get(head[6:7])
    if not head.startswith(MAGIC) or width is None or len(head) < 8 + width:
        what = (
            f"version {version.hex()} of .npy"
            if head.startswith(MAGIC) and version
            else f"{head[:8].hex(' ') or 'nothing'}"
        )
        raise DataError(
            f"{where}, byte 0: {what} where the header of an array (.npy, version 1, 2 or 3) belongs; write it again"
        )
    length = int.from_bytes(head[8 : 8 + width], "little")
    if length > HEADER_BYTES:
        raise DataError(
            f"{where}, byte 8: a header of {length:,} bytes; at most {HEADER_BYTES:,} are read; is the file damaged?"
        )
    return 8 + width + length


def parse_header(head: bytes, where: str) -> NpyHeader:
    """The header in the first bytes of the data, whole; DataError for damage, and for arrays of Python objects."""
    size = header_bytes(head, where)
    if len(head) < size:
        raise DataError(
            f"{where}: ends at byte {len(head):,}, inside its header of {size:,} bytes; copy the file again"
        )
    text = head[10 if head[6] == 1 else 12 : size]
    try:
        with warnings.catch_warnings(action="ignore"):  # Python and NumPy warn of what damage makes of a header
            said = _said(text.decode("utf-8" if head[6] == 3 else "latin1").strip())
            if not isinstance(said, dict) or said.keys() != _KEYS:
                raise ValueError(f"it needs exactly {', '.join(sorted(_KEYS))}")
            dtype = np.dtype(numpy_format.descr_to_dtype(said["descr"]))
        shape = tuple(int(axis) for axis in said["shape"] if isinstance(axis, int) and 0 <= axis < 1 << 62)
        if not isinstance(said["shape"], tuple) or len(shape) != len(said["shape"]) or len(shape) > 64:
            raise ValueError(f"shape {said['shape']!r}")
    except (
        ValueError,
        TypeError,
        SyntaxError,
        KeyError,
        IndexError,
        MemoryError,
        RecursionError,
        struct.error,
    ) as error:
        raise DataError(f"{where}, byte 10: the header cannot be understood ({error}); write the file again") from None
    if dtype.hasobject:
        raise DataError(
            f"{where}: holds Python objects (dtype {dtype}), which are pickled; a pickle can run any code and is never "
            f"opened. Save numbers or text of a fixed width instead"
        )
    return NpyHeader(dtype, shape, bool(said["fortran_order"]) and len(shape) > 1, size)


def _said(text: str) -> Any:
    """The header's literal; Python 2 wrote (6L, 4L) for a shape."""
    try:
        return ast.literal_eval(text)
    except SyntaxError:
        return ast.literal_eval(re.sub(r"(?<=[0-9])L(?=\s*[,)])", "", text))


#: The name of the column where an array has no names of its own.
ARRAY = "array"

#: Bytes of every file that are read at once: most headers are of 128.
_HEAD_BYTES = 512
#: Bytes of rows that are turned at once, where an array lies column by column.
_TURN_BYTES = 16 << 20


def read_headers(shards: Shards, read: ByteRanges) -> list[NpyHeader]:
    """The header of every file; DataError for the first that has none, or whose size is not what it says."""
    heads = first_bytes(shards, read, _HEAD_BYTES)
    headers = []
    for shard, start in enumerate(heads):
        path, size = shards.path(shard), int(shards.sizes[shard])
        head, whole = start, header_bytes(start, path)
        if len(head) < whole <= size:
            head = read_range(read, shards, shard, 0, whole).tobytes()
        header = parse_header(head, path)
        if header.start + header.size_bytes != size:
            raise DataError(
                f"{path}: {size:,} bytes, and {header.dtype} of shape {header.shape} behind its header takes "
                f"{header.start + header.size_bytes:,}; the file is cut, or something was appended to it; write it again"
            )
        headers.append(header)
    return headers


def open_npy(shards: Shards, read: ByteRanges, options: Options) -> Records | PlacedColumns:
    """Opens .npy files as shards of one array, which all have the dtype and shape (but for the first axis) of the first."""
    headers = read_headers(shards, read)
    first = headers[0]
    for shard, header in enumerate(headers):
        if not header.shape:
            raise DataError(f"{shards.path(shard)}: a single value, without rows; save an array of at least one axis")
        if header.shape[1:] != first.shape[1:] or header.dtype.newbyteorder("=") != first.dtype.newbyteorder("="):
            raise DataError(
                f"{shards.path(shard)}: rows of {header.dtype} and shape {header.shape[1:]}, {shards.path(0)} has {first.dtype} "
                f"and {first.shape[1:]}; the files of a dataset must agree, read the others apart"
            )
    if len({header.dtype for header in headers}) > 1:
        raise DataError(f"{shards.path(0)} and others differ in byte order; write them again in one")
    columns = _columns(first, shards.path(0), options)
    if any(header.fortran for header in headers):
        return _turned(shards, copies_of(shards, read, options), read, headers, columns)
    return _records(shards, read, headers, columns)


def _columns(header: NpyHeader, path: str, options: Options) -> dict[str, StoredColumn]:
    offered = distinct_columns(leaves(header.dtype, header.shape[1:], path, "" if header.dtype.names else ARRAY), path)
    features = Selection(options.columns).choose_stored({name: one.field for name, one in offered.items()}, path)
    return {name: offered[feature] for name, feature in features.items()}


def _first_sample(headers: list[NpyHeader]) -> Ids:
    return edges_of([header.shape[0] for header in headers])


def _records(shards: Shards, read: ByteRanges, headers: list[NpyHeader], columns: dict[str, StoredColumn]) -> Records:
    first_sample = _first_sample(headers)
    row_bytes = headers[0].row_bytes
    manifest = RegularManifest(
        format="npy",
        shards=shards,
        first_sample=first_sample,
        first_of_run=first_sample,
        run_start=np.array([header.start for header in headers], dtype=np.int64),
        record_bytes=row_bytes,
        stride_bytes=row_bytes,
    )
    return Records(manifest, columns, Mapped(shards, read) if shards.is_local else None)


def _turned(
    shards: Shards, copies: Shards, read: ByteRanges, headers: list[NpyHeader], columns: dict[str, StoredColumn]
) -> PlacedColumns:
    """Arrays in Fortran's order, whose rows do not lie together: turned once, into the cache."""

    def write(shard: int, out: BinaryIO) -> None:
        copies.check_now(shard)
        read.check_files(copies, np.array([shard]))
        turn(copies.path(shard), headers[shard], out)

    paths = [
        derived_file(copies, shard, "an array in C's order", header.size_bytes, partial(write, shard))
        if header.fortran
        else copies.path(shard)
        for shard, header in enumerate(headers)
    ]
    sizes = np.array([header.size_bytes if header.fortran else header.size_bytes + header.start for header in headers])
    is_made = np.array([header.fortran for header in headers])[:, None]
    stamps = None if copies.stamps is None else np.where(is_made, -1, copies.stamps)
    files = Shards(
        pa.array(paths, pa.large_string()),
        sizes.astype(np.int64),
        copies.versions,
        stamps=stamps,
        made_of=copies.as_made_of,
    )
    numbers = np.arange(len(shards), dtype=np.int64)
    starts = np.array([0 if header.fortran else header.start for header in headers], dtype=np.int64)
    placed = {
        name: PlacedColumn(column, numbers, starts + column.at, headers[0].row_bytes)
        for name, column in columns.items()
    }
    return PlacedColumns(Manifest("npy", shards, _first_sample(headers)), placed, Mapped(files, read))


def turn(path: str, header: NpyHeader, out: BinaryIO) -> None:
    """Writes the values of a file's array in Fortran's order row by row."""
    values: Any = np.memmap(path, dtype=header.dtype, mode="r", offset=header.start, shape=header.shape, order="F")
    watched = kernels.WatchedMemory(values.ctypes.data, values.nbytes, values)
    rows = max(1, _TURN_BYTES // max(1, header.row_bytes))
    for start in range(0, header.shape[0], rows):  # noqa: FURB122 (one piece at a time is what bounds memory)
        out.write(np.ascontiguousarray(values[start : start + rows]).reshape(-1).view(np.uint8).data)
    if watched.is_lost:
        raise DataError(f"{path}: cut while it was read, or its disk failed; copy or write it again")
