"""Damage, once for all formats: a format adds one row to `SMALL` and is run through test_damage.py.

What is damaged is one small file. Whatever happens to it, reading gives a clear error or samples, in bounded time and memory; which samples may
come is what the row promises (`sees`, `cut`), and docs/formats.md says the same in words.
"""

from __future__ import annotations

import contextlib
import json
import lzma
import os
import random
import resource
import shutil
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import penstock as ps
from penstock.batch.pick import pick
from penstock.core.columns.spec import Columns, Spans
from penstock.source.protocol import Source
from penstock.stages.read.blocks import load_block
from support import shards, tables, tars, tfrecords
from support.tries import TRIES, some, tries

GOLDEN = Path(__file__).parent.parent / "golden"

Rows = list[tuple[Any, ...]]

#: How many flips of bits are tried of every format.
FLIPS = tries(1_000) if TRIES >= 1_000 else tries(500, at_least=30)
#: Address space that damaged files may make a process ask for, and memory that they may make it use.
ASKED_BYTES = 8 << 30
USED_BYTES = 256 << 20
#: Up to so many bytes a long run cuts a file at every byte; a larger one at so many places.
CUT_EVERYWHERE = 2_048
CUTS = 1_000


@dataclass(frozen=True, kw_only=True)
class Small:
    """A small dataset of one format, and what its reader promises of damage.

    make(folder): writes the dataset and returns the file to damage; at most a few KB, so that every byte matters. where: what
    `ps.read` gets, of that file. options: further arguments of `ps.read`. sees: "all" if damage is told or does no harm,
    "structure" if values can change unseen, or garbage behind the end be taken for values; "nothing" where a file is nothing but values. cut: "told" if every truncation is an
    error or loses nothing, "prefix" if a file cut between records is one of fewer records, "short" if the last record can be cut
    short unseen. hostile: contents of the file that must be refused, by name.
    """

    name: str
    make: Callable[[Path], Path]
    where: Callable[[Path], str] = str
    options: Mapping[str, Any] = field(default_factory=dict)
    sees: str = "structure"
    cut: str = "told"
    hostile: Callable[[], Mapping[str, bytes]] = dict


def read_rows(small: Small, victim: Path) -> Rows:
    """All rows of the dataset as Python values, without the engine: its threads are not what is tried."""
    return rows_of(load_all(ps.read(small.where(victim), **small.options)))


def load_all(dataset: ps.Dataset) -> Columns:
    """The columns of all samples, as the source gives them."""
    source, manifest = dataset.source, dataset.source.manifest
    if not isinstance(source, Source):
        rows = load_block(source, 0, manifest.samples)
        return pick([rows], np.zeros(len(rows), dtype=np.int64), np.arange(len(rows)), source.spec, tfrecords.allocate)
    samples = np.arange(manifest.samples)
    if manifest.length is None and not manifest.one_record_each:
        nothing = np.empty(0, dtype=np.int64)
        return source.parse(samples, Spans((), nothing, nothing, nothing), tfrecords.allocate)
    offset = np.zeros_like(samples) if manifest.offset is None else manifest.offset
    length = manifest.stored.sizes if manifest.length is None else manifest.length
    at = np.cumsum(length) - length
    buffer = np.empty(int(length.sum()), dtype=np.uint8)
    dataset.read_ranges(manifest.stored, manifest.shard_of(samples), offset, length, buffer, at)
    return source.parse(samples, Spans((buffer,), np.zeros_like(samples), at, length), tfrecords.allocate)


def rows_of(columns: Columns) -> Rows:
    """The rows of columns, with a NaN equal to itself."""
    return [
        tuple(map(repr, row)) for row in zip(*(tfrecords.listed(column) for column in columns.values()), strict=True)
    ]


class Victim:
    """The file that is damaged; every version of it has a time of its own, so that no index is taken for another's."""

    def __init__(self, path: Path) -> None:
        self.path, self.whole = path, path.read_bytes()
        self._versions = 0

    def write(self, content: bytes) -> None:
        """Other bytes, in place: to cut a file to nothing first would cost more than to open and read it."""
        with self.path.open("r+b", buffering=0) as file:
            file.write(content)
            file.truncate()
        self._versions += 1
        os.utime(self.path, ns=(self._versions, self._versions))

    def damage(self, content: bytes) -> None:
        """Other bytes behind the time that the file has."""
        found = self.path.stat()
        self.write(content)
        os.utime(self.path, ns=(found.st_atime_ns, found.st_mtime_ns))


def cuts(size: int) -> list[int]:
    """The sizes to which a file is cut: in a long run all of a small file, else the smallest, the largest and some between."""
    return some(range(size), full=size if size <= CUT_EVERYWHERE else CUTS)


def flips(content: bytes) -> Iterator[bytes]:
    """The content with one bit flipped, or a few; `FLIPS` times."""
    rng = random.Random(2)
    for _ in range(FLIPS):
        flipped = bytearray(content)
        for _ in range(rng.choice([1, 1, 1, 2, 8])):
            flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
        yield bytes(flipped)


@contextlib.contextmanager
def bounded_memory() -> Iterator[None]:
    """What runs inside can neither ask for much address space nor use much memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limits = resource.getrlimit(resource.RLIMIT_AS)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + ASKED_BYTES, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used) << 10 < USED_BYTES


# One row a format


def make_tfrecord(folder: Path) -> Path:
    rows = [
        tfrecords.example(x=tfrecords.floats(row, row / 3), y=tfrecords.integers(*range(row)), z=tfrecords.texts(b"z"))
        for row in range(6)
    ]
    return tfrecords.write(folder / "small.tfrecord", rows)


def hostile_tfrecords() -> dict[str, bytes]:
    def stating(length: int) -> bytes:
        stated = struct.pack("<Q", length)
        return tfrecords.frame(b"") + stated + tfrecords.masked(stated) + b"12345678"

    return {f"a record of {length} bytes": stating(length) for length in (1 << 63, (1 << 64) - 1, 1 << 40, 100)}


def make_recordio(folder: Path) -> Path:
    data = [b"", b"abcd" + shards.MAGIC + b"e", bytes(range(20)), b"abc"]
    path = folder / "small.rec"
    path.write_bytes(
        b"".join(shards.recordio(struct.pack("<IfQQ", 0, 1.5, row, 0) + part) for row, part in enumerate(data))
    )
    return path


def hostile_recordio() -> dict[str, bytes]:
    def stating(flag: int, length: int, rest: bytes = b"") -> bytes:
        return shards.recordio(bytes(24)) + shards.MAGIC + struct.pack("<I", flag << 29 | length) + rest

    return {
        "a record of 512 MB": stating(0, (1 << 29) - 1),
        "a part that never ends": stating(1, 4, b"abcd") + stating(2, 4, b"abcd"),
        "an unknown flag": stating(7, 0),
        "as many labels as a u32 can state": shards.recordio(struct.pack("<IfQQ", (1 << 32) - 1, 0, 0, 0)),
    }


def make_mds(folder: Path) -> Path:
    rows = [{"s": b"text", "x": b"\x41\x04" + bytes([2]) + bytes(range(16)), "z": b"ab" * row} for row in range(6)]
    return shards.mds(folder, {"s": "str", "x": "ndarray", "z": "bytes"}, rows)


def make_mds_index(folder: Path) -> Path:
    return make_mds(folder).parent / "index.json"


def make_litdata(folder: Path) -> Path:
    shutil.copytree(GOLDEN / "litdata" / "pairs", folder, dirs_exist_ok=True)
    return folder / "chunk-0-0.bin"


def make_litdata_rows(folder: Path) -> Path:
    shutil.copytree(GOLDEN / "litdata" / "rows-packed", folder, dirs_exist_ok=True)
    return folder / "chunk-0-0.bin"


def folder_of(victim: Path) -> str:
    return str(victim.parent)


def make_webdataset(folder: Path) -> Path:
    files = [(f"{row}.{kind}", f"{row}{kind}".encode() * row) for row in range(4) for kind in ("jpg", "json")]
    numbers = [(f"{row}.npy", tars.npy(np.arange(row, dtype=np.int16))) for row in range(4)]
    return tars.write(folder / "small.tar", sorted(files + numbers))


def hostile_archives() -> dict[str, bytes]:
    def stating(field: bytes) -> bytes:
        header = tars.member("000.cls")
        return tars.with_sum(header[:124] + field + header[136:]) + bytes(2048)

    def extended(kind: bytes, content: bytes, size: int | None = None) -> bytes:
        header = tars.member("x", kind, size=len(content) if size is None else size)
        return header + content.ljust(-(-len(content) // 512) * 512, b"\0") + tars.member("0.cls") + bytes(1024)

    return {
        "a size of 2^63": stating(b"\x80\0\0\0\x80" + bytes(7)),
        "a size of 2^64 - 1": stating(b"\x80\0\0\0" + b"\xff" * 8),
        "a size beyond 2^64": stating(b"\x80\0\0\x01" + bytes(8)),
        "a negative size": stating(b"\xff" * 12),
        "a size that is no number": stating(b"99999999999\0"),
        "a size that is as long as it can be": stating(b"777777777777"),
        "a name without an end": extended(b"L", b"x" * 512, 1 << 30),
        "a name of gigabytes": extended(b"L", b"", 7 << 30),
        "an extended header of gigabytes": extended(b"x", b"", 7 << 30),
        "an extended header with a length that lies": extended(b"x", b"99999 path=a\n"),
        "an extended header with a size of 2^63": extended(b"x", b"28 size=9223372036854775808\n"),
        "a sparse member": extended(b"x", b"22 GNU.sparse.major=1\n"),
        "a name for all members": extended(b"g", b"10 path=a\n"),
        "nothing but long names": tars.member("x", b"L", size=1) + b"x" * 512,
        "a header of ones": b"\xff" * 2048,
    }


def written(name: str, content: bytes) -> Callable[[Path], Path]:
    """A maker of one small file."""

    def make(folder: Path) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    return make


def json_rows(rows: int = 8) -> bytes:
    return b"".join(
        json.dumps({"x": row, "y": [row / 3] * row, "z": "é\n" * row}, ensure_ascii=row % 2 == 0).encode() + b"\n"
        for row in range(rows)
    )


def hostile_json() -> dict[str, bytes]:
    return {
        "nested": b'{"x": ' + b"[" * 200_000,
        "no object": b"1\n",
        "an array": b'[{"x": 1}]\n',
        "half a pair": b'{"x": "\\ud800"}\n',
        "binary": bytes(range(256)),
        "UTF-16": '{"x": 1}\n'.encode("utf-16"),
    }


def hostile_csv() -> dict[str, bytes]:
    return {
        "an open quote": b'a,b\n1,"' + b"x" * 5_000,
        "binary": bytes(range(256)),
        "UTF-16": "a,b\n1,2\n".encode("utf-16"),
    }


def bomb(pack: Callable[[bytes], bytes]) -> Callable[[], Mapping[str, bytes]]:
    """A small file that becomes a large one."""
    return lambda: {"a bomb": pack(b"\n" * (64 << 20)), "cut": pack(b"some lines\n" * 100)[:-5]}


JSON_COLUMNS = {"x": "x", "y": ps.Column(feature="y", dtype="float64", shape=(None,)), "z": "z"}

SMALL = [
    Small(
        name="tfrecord",
        make=make_tfrecord,
        options={"columns": {"x": "x", "y": ps.Column(feature="y", dtype="int64", shape=(None,)), "z": "z"}},
        sees="all",
        cut="prefix",
        hostile=hostile_tfrecords,
    ),
    Small(name="recordio", make=make_recordio, cut="prefix", hostile=hostile_recordio),
    Small(name="mds", make=make_mds, where=folder_of),
    Small(name="mds index", make=make_mds_index, where=folder_of),
    Small(name="litdata", make=make_litdata, where=folder_of),
    Small(name="litdata rows", make=make_litdata_rows, where=folder_of),
    Small(name="webdataset", make=make_webdataset, hostile=hostile_archives),
    Small(name="parquet", make=tables.make_parquet, hostile=tables.hostile_parquet),
    Small(
        name="parquet filtered",
        make=tables.make_parquet_pages,
        options={"filters": [("id", ">=", 2), ("text", "!=", "none")]},
        hostile=tables.hostile_parquet,
    ),
    Small(name="arrow", make=tables.make_arrow, hostile=tables.hostile_arrow),
    Small(name="arrow stream", make=tables.make_stream, cut="prefix", hostile=tables.hostile_arrow),
    Small(name="arrow packed", make=tables.make_packed, cut="prefix"),
    Small(
        name="jsonl",
        make=written("small.jsonl", json_rows()),
        options={"columns": JSON_COLUMNS},
        cut="prefix",
        hostile=hostile_json,
    ),
    Small(
        name="jsonl.xz",
        make=written("small.jsonl.xz", lzma.compress(json_rows())),
        options={"columns": JSON_COLUMNS},
        sees="all",
        hostile=bomb(lzma.compress),
    ),
    Small(
        name="csv",
        make=written("small.csv", b"x,y,z\r\n" + b"".join(b'%d,%d.5,"t,""\n%d"\r\n' % (n, n, n) for n in range(20))),
        cut="short",
        hostile=hostile_csv,
    ),
    Small(
        name="text",
        make=written("small.txt", "".join(f"línea {number}\n" for number in range(12)).encode()),
        cut="short",
        hostile=lambda: {"UTF-16": "a\n".encode("utf-16"), "binary": bytes(range(256))},
    ),
]
