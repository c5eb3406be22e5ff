"""Sources for the contracts: each opens a small dataset whose column "id" (or what `ids_of` says) tells the sample ids."""

from __future__ import annotations

import csv
import gzip
import json
import shutil
import sqlite3
import struct
import threading
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import lmdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zarr

import penstock as ps
from conftest import jpeg
from penstock.core.columns.spec import Bytes, Columns, Field, Ids, Spans, Spec
from penstock.core.errors import RowError
from penstock.core.files.byte_ranges import ByteRanges
from penstock.core.files.shards import Shards
from penstock.core.verbs.options import Options
from penstock.dataset import of_source
from penstock.source.manifest import Manifest
from penstock.source.protocol import Access, Allocate
from penstock.source.tables.table import TableColumn, choose_columns, columns_of
from support import shards, tars, tfrecords
from support import tables as format_tables


class MemoryStorage:
    """Files in memory that counts what is read of them: `reads` holds (path, offset, length)."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.reads: list[tuple[str, int, int]] = []
        self._lock = threading.Lock()

    def list(self, where: str) -> Shards:
        names = sorted(name for name in self.files if name.startswith(where))
        sizes = np.array([len(self.files[name]) for name in names], dtype=np.int64)
        return Shards(pa.array(names, pa.large_string()), sizes, np.zeros(len(names), dtype=np.int64), where)

    def read(self, shards: Shards, shard: Ids, offset: Ids, length: Ids, out: Bytes, at: Ids) -> None:
        for number, first, size, place in zip(*(a.tolist() for a in (shard, offset, length, at)), strict=True):
            path = shards.path(number)
            part = self.files[path][first : first + size]
            assert len(part) == size, "a range past the end of a file was asked for"
            out[place : place + size] = np.frombuffer(part, dtype=np.uint8)
            with self._lock:
                self.reads.append((path, first, size))


@dataclass(frozen=True, eq=False)
class Numbered:
    """A small format of blocks: records of varying length that begin with their id as 8 bytes."""

    manifest: Manifest
    spec: Spec = field(default_factory=lambda: {"id": Field("int64"), "data": Field("bytes")})
    access: Access = Access.RECORDS

    def parse(self, samples: Ids, records: Spans, allocate: Allocate, *, threads: int = 1) -> Columns:
        ids = allocate("id", self.spec["id"], len(samples))
        for row in range(len(records)):
            ids[row] = int.from_bytes(records[row][:8], "little", signed=True)
            if ids[row] != samples[row]:
                raise RowError(row, f"id {ids[row]} where {samples[row]} belongs", "write the file again")
        return {"id": ids, "data": records}


def numbered_record(number: int) -> bytes:
    rng = np.random.default_rng(number)
    return number.to_bytes(8, "little", signed=True) + rng.bytes(int(rng.integers(0, 40)))


def numbered(samples: int, shards: int = 3) -> tuple[ps.Dataset, MemoryStorage]:
    """A dataset of numbered records in files of unequal length, with the storage that counts."""
    edges = np.sort(np.random.default_rng(samples).integers(0, samples + 1, shards - 1)) if shards > 1 else []
    edges = [0, *edges, samples]
    files, lengths, offsets = {}, [], []
    for shard in range(shards):
        records = [numbered_record(number) for number in range(edges[shard], edges[shard + 1])]
        files[f"data/{shard}.rec"] = b"head" + b"".join(records)
        sizes = np.array([len(record) for record in records], dtype=np.int64)
        lengths.append(sizes)
        offsets.append(4 + np.cumsum(sizes) - sizes)
    storage = MemoryStorage(files)
    listed = storage.list("data/")
    manifest = Manifest(
        "numbered", listed, np.array(edges, dtype=np.int64), np.concatenate(offsets), np.concatenate(lengths)
    )
    return of_source(Numbered(manifest), "data/", None, ByteRanges(storage.read), storage), storage


def arrays(samples: int, _: Path | None = None) -> ps.Dataset:
    """Columns of several kinds in memory."""
    ids = np.arange(samples)
    return ps.from_arrays(
        {
            "id": ids,
            "row": np.sqrt(np.arange(samples * 3, dtype=np.float32)).reshape(samples, 3),
            "text": pa.array([f"text {number}" for number in range(samples)]),
            "list": pa.array([list(range(number % 4)) for number in range(samples)], pa.large_list(pa.int32())),
            "none": np.zeros((samples, 0), dtype=np.int16),
        }
    )


@dataclass(frozen=True, eq=False)
class Tables:
    """A source of columns: one Arrow table, loaded by blocks; each is converted once, since the contracts ask for it hundreds of times."""

    manifest: Manifest
    table: pa.Table
    columns: tuple[TableColumn, ...]
    block_rows: int | None = 7
    access: Access = Access.BLOCKS
    loaded: dict[tuple[int, int], Columns] = field(default_factory=dict)

    @property
    def spec(self) -> Spec:
        return {column.name: column.field for column in self.columns}

    def load(self, first: int, rows: int) -> Columns:
        if (first, rows) not in self.loaded:
            self.loaded[first, rows] = columns_of(self.table.slice(first, rows), self.columns)
        return dict(self.loaded[first, rows])


def tables(samples: int, _: Path | None = None) -> ps.Dataset:
    """Columns of every form, out of an Arrow table of several chunks."""
    numbers = range(samples)
    part = pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "flag": [number % 3 == 0 for number in numbers],
            "row": pa.array([[number / 3, 1.0] for number in numbers], pa.list_(pa.float32(), 2)),
            "text": [f"text {number}" * (number % 4) for number in numbers],
            "data": [bytes([number % 251]) * (number % 9) for number in numbers],
            "list": pa.array([list(range(number % 4)) for number in numbers], pa.list_(pa.int16())),
            "deep": pa.array([[[number], []] for number in numbers], pa.list_(pa.list_(pa.int32()))),
            "box": [{"left": number, "name": str(number)} for number in numbers],
        }
    )
    table = pa.concat_tables([part.slice(0, samples // 3), part.slice(samples // 3)])
    none = np.empty(0, dtype=np.int64)
    manifest = Manifest("tables", Shards(pa.array([], pa.large_string()), none, none), np.array([0, samples]))
    source = Tables(manifest, table, choose_columns(table.schema, Options(), "table"))
    return of_source(source, "memory", None)


def blocks(samples: int, _: Path | None = None) -> ps.Dataset:
    return numbered(samples)[0]


def folder(samples: int, root: Path | None) -> ps.Dataset:
    """A folder of small files that look like pictures; their ids stand in their names."""
    assert root is not None
    for number in range(samples):
        path = root / f"class {'ab'[number * 2 // samples]}" / f"{number:04d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\xff\xd8\xff" + str(number).encode() * (number % 5 + 1))
    return ps.read(str(root)).map(id_of_path)


def id_of_path(columns: dict[str, Any]) -> dict[str, Any]:
    return {"id": np.array([int(path[-8:-4]) for path in columns["path"].to_pylist()]), **columns}


def records(samples: int, root: Path | None) -> ps.Dataset:
    """tf.train.Example records in files of unequal length."""
    assert root is not None
    for shard, rows in enumerate(np.array_split(np.arange(samples), [samples // 5, samples // 2])):
        messages = [
            tfrecords.example(
                id=tfrecords.integers(number),
                row=tfrecords.floats(number, number / 2),
                list=tfrecords.integers(*range(number % 4)),
                text=tfrecords.texts(f"text {number}".encode()),
            )
            for number in rows.tolist()
        ]
        tfrecords.write(root / f"{shard}.tfrecord", messages)
    return ps.read(f"{root}/*.tfrecord", columns={"id": "id", "row": "row", "text": "text", "list": RAGGED})


def recordio(samples: int, root: Path | None) -> ps.Dataset:
    """Headed RecordIO records in files of unequal length."""
    assert root is not None
    for shard, rows in enumerate(np.array_split(np.arange(samples), [samples // 3])):
        parts = (struct.pack("<IfQQ", 0, row / 2, row, 0) + shards.MAGIC * (row % 3) for row in rows.tolist())
        (root / f"{shard}.rec").write_bytes(b"".join(map(shards.recordio, parts)))
    return ps.read(f"{root}/*.rec", columns={"id": "id", "label": "label", "data": "data"})


def mds(samples: int, root: Path | None) -> ps.Dataset:
    """Two folders of MDS samples, of unequal length."""
    assert root is not None
    for name, rows in zip("ab", np.array_split(np.arange(samples), [samples // 3]), strict=True):
        (root / name).mkdir(exist_ok=True)
        values = [{"id": str(row).encode(), "text": b"ab" * (row % 5)} for row in rows.tolist()]
        shards.mds(root / name, {"id": "str_int", "text": "str"}, values)
    return ps.read(str(root))


def archives(samples: int, root: Path | None) -> ps.Dataset:
    """Tar archives of unequal length."""
    assert root is not None
    for shard, rows in enumerate(np.array_split(np.arange(samples), [samples // 5, samples // 2])):
        files = [
            (f"{number:05d}.{kind}", content)
            for number in rows.tolist()
            for kind, content in {"id": b"%d" % number, "txt": b"text", "npy": tars.npy(np.arange(number % 4))}.items()
        ]
        tars.write(root / f"{shard}.tar", files)
    return ps.read(f"{root}/*.tar")


def id_of_tokens(columns: dict[str, Any]) -> dict[str, Any]:
    return {"id": columns["tokens"][:, 0] // 2, **columns}


def id_of_key(columns: dict[str, Any]) -> dict[str, Any]:
    return {"id": columns["key"].cast(pa.large_string()).cast(pa.int64()), **columns}


def tokens(samples: int, root: Path | None) -> ps.Dataset:
    """Overlapping windows of two token files, mapped; a window's first token tells its id."""
    assert root is not None
    cut = samples // 3
    for name, first, last in (("a", 0, cut), ("b", cut, samples)):
        np.arange(first * 2, last * 2 + 3, dtype=np.uint16).tofile(root / f"{name}.bin")
    options = {"format": "tokens", "dtype": "uint16", "window": 5, "stride": 2, "to_dtype": "int64"}
    return ps.read(f"{root}/*.bin", **options).map(id_of_tokens)


def array_files(samples: int, root: Path | None) -> ps.Dataset:
    """Records with fields in two .npy files, one of them empty, mapped."""
    assert root is not None
    rows = np.zeros(samples, dtype=[("id", ">i8"), ("row", "f4", (3,)), ("text", "U6")])
    rows["id"], rows["text"] = np.arange(samples), [f"t{number}" for number in range(samples)]
    np.save(root / "a.npy", rows)
    np.save(root / "b.npy", rows[:0])
    return ps.read(root)


def chunked(samples: int, root: Path | None) -> ps.Dataset:
    """Chunked datasets of two HDF5 files."""
    assert root is not None
    for name, ids in (("a", np.arange(samples // 3)), ("b", np.arange(samples // 3, samples))):
        with h5py.File(root / f"{name}.h5", "w") as file:
            file.create_dataset("id", data=ids, chunks=(1,) if len(ids) < 8 else (8,), compression="gzip")
            file["text"] = [f"text {number}" for number in ids]
    return ps.read(root)


def store(samples: int, root: Path | None) -> ps.Dataset:
    """A Zarr store."""
    assert root is not None
    group = zarr.open_group(str(root / "x.zarr"), mode="w")
    group.create_array("id", data=np.arange(samples), chunks=(9,))
    group.create_array("row", data=np.sqrt(np.arange(samples * 2)).reshape(samples, 2), chunks=(4, 1))
    return ps.read(root / "x.zarr")


def database(samples: int, root: Path | None) -> ps.Dataset:
    """An LMDB database, whose keys tell the ids."""
    assert root is not None
    with lmdb.open(str(root / "x.lmdb"), map_size=1 << 24, sync=False) as env, env.begin(write=True) as transaction:
        for number in range(samples):
            transaction.put(b"%06d" % number, b"x" * (number % 50) * (number % 50))
    made = ps.read(root / "x.lmdb")
    return made.map(id_of_key)


def row_groups(samples: int, root: Path | None) -> ps.Dataset:
    """Parquet files of row groups of unequal size, less one row that a filter leaves out."""
    assert root is not None
    whole = format_tables.table(samples + 1)
    pq.write_table(whole.slice(0, samples // 3), root / "0.parquet", row_group_size=7)
    pq.write_table(
        whole.slice(samples // 3), root / "1.parquet", row_group_size=13, write_page_index=True, max_rows_per_page=4
    )
    return ps.read(f"{root}/*.parquet", filters=[("id", "<", samples)])


def batches(samples: int, root: Path | None) -> ps.Dataset:
    """Arrow files, one of them packed."""
    assert root is not None
    whole = format_tables.table(samples)
    format_tables.write_arrow(root / "0.arrow", whole.slice(0, samples // 3), rows=5)
    format_tables.write_arrow(root / "1.arrow", whole.slice(samples // 3), rows=9, stream=True, packing="lz4")
    return ps.read(f"{root}/*.arrow")


RAGGED = ps.Column(feature="list", dtype="int64", shape=(None,))


def objects(samples: int, _: Path | None) -> ps.Dataset:
    """A map-style object that gives item by item."""
    return ps.from_dataset([{"id": number, "text": f"text {number}"} for number in range(samples)])


def iterable(samples: int, _: Path | None) -> ps.Dataset:
    """A generator function whose items are kept."""
    items = ({"id": number, "text": f"text {number}" * (number % 3)} for number in range(samples))
    return ps.from_iterable(items)


def sql(samples: int, root: Path | None) -> ps.Dataset:
    """A query on a SQLite file, by ranges of its key."""
    assert root is not None
    with closing(sqlite3.connect(root / "data.sqlite")) as connection, connection:
        connection.execute("CREATE TABLE samples (id INTEGER PRIMARY KEY, text TEXT)")
        rows = [(number, f"text {number}") for number in range(samples)]
        connection.executemany("INSERT INTO samples VALUES (?, ?)", rows)
    return ps.read_sql(f"sqlite:///{root}/data.sqlite", "SELECT * FROM samples", partition="id", connections=2)


def json_lines(samples: int, root: Path | None) -> ps.Dataset:
    """JSON lines in packed files of unequal length."""
    assert root is not None
    for shard, rows in enumerate(np.array_split(np.arange(samples), [samples // 5, samples // 2])):
        lines = [
            {"id": number, "row": [number, number / 2], "list": list(range(number % 4)), "text": f"text {number}"}
            for number in rows.tolist()
        ]
        with gzip.open(root / f"{shard}.jsonl.gz", "wt") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
    row = ps.Column(feature="row", dtype="float32", shape=(2,))
    return ps.read(str(root), columns={"id": "id", "row": row, "list": "list", "text": "text"})


def csv_records(samples: int, root: Path | None) -> ps.Dataset:
    """CSV files of unequal length, with newlines in quotes."""
    assert root is not None
    for shard, rows in enumerate(np.array_split(np.arange(samples), [samples // 5, samples // 2])):
        with (root / f"{shard}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("id", "x", "text"), *((n, n / 4, "a\n" * (n % 3)) for n in rows.tolist())])
    return ps.read(str(root))


SOURCES = {
    "archives": archives,
    "array_files": array_files,
    "arrays": arrays,
    "arrow": batches,
    "blocks": blocks,
    "chunked": chunked,
    "csv": csv_records,
    "database": database,
    "folder": folder,
    "iterable": iterable,
    "jsonl": json_lines,
    "mds": mds,
    "objects": objects,
    "parquet": row_groups,
    "recordio": recordio,
    "records": records,
    "sql": sql,
    "store": store,
    "tables": tables,
    "tokens": tokens,
}

#: Sources that are run through every transform; the others meet one plan each, which keeps the suite quick.
BROAD = ("arrays", "blocks", "folder", "tables")


def photographs(samples: int, root: Path) -> ps.Dataset:
    """A folder of real pictures through a chain of random operations, with their ids from their names."""
    for number in range(samples):
        path = root / f"{number:04d}.jpg"
        path.write_bytes(jpeg(number, 40 + number % 7, 30 + number % 11))
    chain = [
        ps.image.Decode(),
        ps.image.RandomResizedCrop(16),
        ps.image.RandomHorizontalFlip(),
        ps.image.Normalize(ps.image.IMAGENET),
    ]
    return ps.read(str(root)).shuffle(seed=5).transform(image=chain).map(id_of_path)


#: What `shutil.disk_usage` says of a disk without room.
FULL = shutil._ntuple_diskusage(total=1 << 40, used=1 << 40, free=0)  # type: ignore[attr-defined]

# Transforms that every source is run through


def doubled(columns: dict[str, Any]) -> dict[str, Any]:
    return {"twice": columns["id"] * 2, **columns}


def noisy_row(row: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    return {"id": row["id"], "noise": rng.random(3), "name": f"row {row['id']}"}


TRANSFORMS = {
    "plain": lambda dataset: dataset,
    "map": lambda dataset: dataset.map(doubled),
    "map_rows": lambda dataset: dataset.map_rows(noisy_row),
}

ORDERS = {
    "natural": lambda dataset: dataset,
    "block": lambda dataset: dataset.shuffle(seed=3, block_rows=5),
    "global": lambda dataset: dataset.shuffle(seed=3, mode="global"),
}

LAST: dict[str, dict[str, bool]] = {
    "short": {},
    "drop": {"drop_last": True},
    "pad": {"pad": True},
    "wrap": {"wrap": True},
}
