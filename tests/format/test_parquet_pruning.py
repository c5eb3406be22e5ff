"""What a filter rules out by a Parquet file's footer is not read, and no row is lost by it."""

from __future__ import annotations

import contextlib
import math
import random
import struct
from datetime import UTC, date, datetime, timedelta
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.core.files.byte_ranges import ByteRanges
from penstock.format.parquet import layout as parquet_layout
from penstock.format.parquet import pruning as parquet_pruning
from penstock.format.parquet import source as parquet
from penstock.format.parquet.files import ParquetFiles
from penstock.format.parquet.layout import ColumnChunk, RowGroup, read_footer
from penstock.format.parquet.layout import Path as Names
from penstock.format.parquet.pruning import pruning_of
from support import tables
from support.cases import MemoryStorage

DAY = datetime(2024, 1, 1)  # noqa: DTZ001


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The row groups that were read."""
    groups: set[int] = set()
    table = ParquetFiles.table

    def noted(
        files: ParquetFiles, shard: int, file: pq.ParquetFile, group: int, paths: list[Names], rows: int
    ) -> pa.Table:
        groups.add(group)
        return table(files, shard, file, group, paths, rows)

    monkeypatch.setattr(ParquetFiles, "table", noted)
    return groups


def every_type(rows: int) -> pa.Table:
    """Columns that grow with the row; of each, row 250 has what its type makes of 250."""
    ids = range(rows)
    texts = [f"{number:05}" for number in ids]
    days = [date(2024, 1, 1) + timedelta(number) for number in ids]
    times = [DAY + timedelta(hours=number) for number in ids]
    return pa.table(
        {
            **{f"i{bits}": pa.array([n - 500 for n in ids], f"int{bits}") for bits in (16, 32, 64)},
            **{f"u{bits}": pa.array([n + (n >= 500) * 3_000 for n in ids], f"uint{bits}") for bits in (16, 32, 64)},
            "f32": pa.array([n / 2 for n in ids], pa.float32()),
            "f64": pa.array([n / 2 if n % 7 else None for n in ids], pa.float64()),
            "text": texts,
            "bytes": [text.encode() for text in texts],
            "word": pa.array(texts).dictionary_encode(),
            "day": days,
            "ms": pa.array(times, pa.timestamp("ms")),
            "ns": pa.array(times, pa.timestamp("ns")),
            "utc": pa.array([time.replace(tzinfo=UTC) for time in times], pa.timestamp("us", "UTC")),
            "box": [{"left": number} for number in ids],
        }
    )


BY_TYPE: dict[str, Any] = {
    "i16": -250,
    "i32": -250,
    "i64": -250,
    "u16": 250,
    "u32": 250,
    "u64": 250,
    "f32": 125.0,
    "f64": 125.0,
    "text": "00250",
    "bytes": b"00250",
    "word": "00250",
    "day": date(2024, 1, 1) + timedelta(250),
    "ms": DAY + timedelta(hours=250),
    "ns": DAY + timedelta(hours=250),
    "utc": (DAY + timedelta(hours=250)).replace(tzinfo=UTC),
    "box.left": 250,
}


@pytest.mark.parametrize("version", ["1.0", "2.6"])
@pytest.mark.parametrize("name", BY_TYPE)
def test_other_row_groups_are_not_read(tmp_path: Path, read: set[int], name: str, version: str) -> None:
    pq.write_table(every_type(1_000), tmp_path / "0.parquet", row_group_size=100, version=version)
    value, data = BY_TYPE[name], {"columns": ["i64"]}
    (number,) = tables.rows_of(ps.read(tmp_path, **data, filters=[(name, "==", value), ("i64", "<", 400)]))["i64"]
    assert number == -250
    assert read == {2}
    read.clear()
    assert len(ps.read(tmp_path, **data, filters=[[(name, "<", value)], [(name, "in", [value])]])) in (251, 251 - 36)
    assert read == {0, 1, 2}


def test_expressions_rule_out_row_groups(tmp_path: Path, read: set[int]) -> None:
    pq.write_table(every_type(1_000), tmp_path / "0.parquet", row_group_size=100)
    some = (pc.field("i64") >= 250) & ~(pc.field("text") > "00849")
    assert tables.rows_of(ps.read(tmp_path, columns=["i64"], filters=some))["i64"].tolist() == list(range(250, 350))
    assert read == {7, 8}
    read.clear()
    with pytest.raises(ps.SourceError, match="not a single record"):
        ps.read(tmp_path, columns=["i64"], filters=pc.field("i64").is_null())
    assert read == set()


def test_ranges_of_other_row_groups_are_not_asked_for(tmp_path: Path) -> None:
    columns = {"id": np.arange(400_000), "x": np.random.default_rng(0).random(400_000)}
    path = tmp_path / "0.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=40_000, compression="none", use_dictionary=False)
    storage = MemoryStorage({"memory://0.parquet": path.read_bytes()})
    dataset = ps.read("memory://", storage=storage, filters=[("id", ">=", 80_000), ("id", "<", 80_100)])
    np.testing.assert_array_equal(tables.rows_of(dataset)["x"], columns["x"][80_000:80_100])
    group = pq.ParquetFile(path).metadata.row_group(2)
    first, end = group.column(0).data_page_offset, group.column(1).data_page_offset + 400_000
    size = len(storage.files["memory://0.parquet"])
    asked = [(at, length) for _, at, length in storage.reads if 4 < at < size - (1 << 17)]
    assert asked
    assert all(first <= at and at + length <= end for at, length in asked)


def test_a_small_footer_is_asked_for_once(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": np.arange(100_000)}), tmp_path / "0.parquet", row_group_size=10_000)
    storage = MemoryStorage({"memory://0.parquet": (tmp_path / "0.parquet").read_bytes()})
    shards = storage.list("memory://")
    opened = ParquetFiles(shards, ByteRanges(storage.read), ps.Limits(), verify=True).bytes_of(0)
    assert len(read_groups(opened, ["id"]) or []) == 10
    ParquetFiles(shards, ByteRanges(storage.read), ps.Limits(), verify=True).open(0, opened)
    assert len(storage.reads) == 1


# No row is lost

NAN = math.nan
VALUES: dict[str, list[Any]] = {
    "i": [None, *range(-3, 12)],
    "k": list(range(12)),
    "f": [None, NAN, 0.0, -0.0, *(number / 2 for number in range(-3, 9))],
    "s": [None, "", *"abcdeé"],
    "b": [None, True, False],
    "t": [None, *(DAY + timedelta(milliseconds=number) for number in range(9))],
}
KINDS = {
    "i": pa.int32(),
    "k": pa.uint8(),
    "f": pa.float64(),
    "s": pa.string(),
    "b": pa.bool_(),
    "t": pa.timestamp("ms"),
}
OPERATORS = ["==", "!=", "<", "<=", ">", ">="]


def some_table(rng: random.Random) -> pa.Table:
    """Row groups of 8 rows, of neighbouring values each."""

    def column(name: str) -> list[Any]:
        values, drawn = VALUES[name], []
        for _ in range(12):
            near = rng.sample(values, rng.choice([1, 1, 2, 3]))
            drawn += rng.choices(near, k=8)
        return drawn

    return pa.table({"id": range(96), **{name: pa.array(column(name), KINDS[name]) for name in VALUES}})


def some_condition(rng: random.Random) -> tuple[str, str, Any]:
    name = rng.choice(list(VALUES))
    if rng.random() < 0.25:
        return name, rng.choice(["in", "not in"]), rng.sample(VALUES[name], 2)
    operator = rng.choice(OPERATORS if name != "b" else OPERATORS[:2])
    return name, operator, rng.choice([value for value in VALUES[name] if value is not None])


def some_lists(rng: random.Random) -> list[list[tuple[str, str, Any]]]:
    return [[some_condition(rng) for _ in range(rng.choice([1, 2, 3]))] for _ in range(rng.choice([1, 1, 2]))]


def some_expression(rng: random.Random, depth: int = 0) -> pc.Expression:
    if depth < 3 and rng.random() < 0.6:
        left, right = some_expression(rng, depth + 1), some_expression(rng, depth + 1)
        return rng.choice([left & right, left | right, ~left, pc.coalesce(left, right), left.is_null() | right])
    name, operator, value = some_condition(rng)
    if rng.random() < 0.2:
        column = pc.field(name)
        return rng.choice([column.is_null(), column.is_null(nan_is_null=name == "f"), column.is_valid()])
    return pq.filters_to_expression([(name, operator, value)])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_no_row_is_lost(tmp_path: Path, read: set[int], seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_pruning, "_TOGETHER", [16, 3, 2][seed % 3])
    rng = random.Random(seed)
    table = some_table(rng)
    pq.write_table(table, tmp_path / "0.parquet", row_group_size=8)
    spared = 0
    for number in range(60):
        keep = some_expression(rng) if number % 2 else some_lists(rng)
        wanted = table.filter(keep if number % 2 else pq.filters_to_expression(keep))["id"].to_pylist()
        read.clear()
        found = []
        with contextlib.suppress(ps.SourceError):  # not a single record is left
            parts = ps.read(tmp_path, columns=["id"], filters=keep).source.stored.parts
            found = [8 * n + row for n, kept in zip(parts.group, parts.kept, strict=True) for row in kept.tolist()]
        assert found == wanted, keep
        spared += 12 - len(read)
    assert spared > 100


def test_the_order_is_that_of_a_read_without_pruning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(tables.table(400), tmp_path / "0.parquet", row_group_size=50)
    keep = [("id", ">", 270), ("text", "!=", "")]

    def order() -> Any:
        source = ps.read(tmp_path, filters=keep).source
        batches = [
            batch["id"].tolist() for batch in ps.Loader(ps.read(tmp_path, filters=keep).shuffle(seed=1).batch(8))
        ]
        return source.manifest.digest, source.manifest.held_bytes, batches

    pruned = order()
    monkeypatch.setattr(parquet, "pruning_of", lambda *_: None)
    assert order() == pruned


def test_times_of_another_unit_in_another_file(tmp_path: Path) -> None:
    for number, unit in enumerate(("us", "ms")):
        times = pa.array([DAY + timedelta(hours=number)], pa.timestamp(unit))
        pq.write_table(pa.table({"id": [number], "t": times}), tmp_path / f"{number}.parquet")
    assert tables.rows_of(ps.read(tmp_path, columns=["id"], filters=[("t", ">", DAY)]))["id"].tolist() == [1]


def test_files_that_duckdb_wrote(tmp_path: Path, read: set[int]) -> None:
    duckdb = pytest.importorskip("duckdb")
    query = "SELECT i AS id, i / 2 AS half, 'n' || lpad(i::VARCHAR, 6, '0') AS name FROM range(20480) t(i)"
    duckdb.sql(f"COPY ({query}) TO '{tmp_path}/0.parquet' (FORMAT parquet, ROW_GROUP_SIZE 2048)")
    for keep in ([("half", ">=", 5_000.0), ("half", "<", 5_001.0)], [("name", "in", ["n010000", "n010001"])]):
        read.clear()
        assert tables.rows_of(ps.read(tmp_path, columns=["id"], filters=keep))["id"].tolist() == [10_000, 10_001]
        assert read == {4}


def test_folders_and_bounds_together(tmp_path: Path, read: set[int]) -> None:
    for year in (2023, 2024):
        (tmp_path / f"year={year}").mkdir()
        pq.write_table(pa.table({"id": range(40)}), tmp_path / f"year={year}" / "0.parquet", row_group_size=10)
    keep = (pc.field("year") != 2023) & (pc.field("id") > 30)
    assert len(ps.read(tmp_path, filters=keep)) == 9
    assert read == {3}
    assert len(ps.read(tmp_path, filters=[("year", "not in", [2023]), ("id", ">", 30)])) == 9
    assert read == {3}


# What is not certain rules out nothing


def ruled_out(kind: pa.DataType, chunk: ColumnChunk, keep: Any, rows: int = 4) -> bool:
    schema = pa.schema([("x", kind)])
    pruning = pruning_of(keep, schema, pa.schema([]))
    if pruning is None:
        return False
    (possible,) = pruning.possible(schema, [RowGroup(rows, {("x",): chunk})], pc.scalar(True))
    return not possible


def ints(low: int, high: int, **other: Any) -> ColumnChunk:
    said = {"type": 1, "values": 4, "nulls": 0, "ordered": True} | other
    return ColumnChunk(low=struct.pack("<i", low), high=struct.pack("<i", high), **said)


def doubles(low: float, high: float, **other: Any) -> ColumnChunk:
    said = {"type": 5, "values": 4, "nulls": 0, "ordered": True} | other
    return ColumnChunk(low=struct.pack("<d", low), high=struct.pack("<d", high), **said)


ABOVE = [("x", ">", 5)]
NO_NUMBER: dict[str, Any] = {"type": 6, "values": 4, "nulls": 0}


@pytest.mark.parametrize(
    ("kind", "chunk", "keep", "out"),
    [
        (pa.int32(), ints(0, 5), ABOVE, True),
        (pa.int32(), ints(0, 6), ABOVE, False),
        (pa.int32(), ints(0, 5, ordered=False), ABOVE, True),
        (pa.uint32(), ints(0, 5, ordered=False), ABOVE, False),
        (pa.uint32(), ints(0, -1), ABOVE, False),
        (pa.date32(), ints(0, 5, ordered=False), [("x", ">", date(1970, 1, 9))], False),
        (pa.int32(), ints(0, 5, nulls=2), ABOVE, True),
        (pa.int32(), ints(0, 5, nulls=None), ABOVE, True),
        (pa.int32(), ints(0, 5, nulls=2), pc.field("x") > 5, False),
        (pa.int32(), ints(0, 5, nulls=None), pc.field("x") > 5, False),
        (pa.int32(), ints(0, 5), pc.field("x") > 5, True),
        (pa.int32(), ints(0, 5, nulls=5), ABOVE, False),
        (pa.int32(), ints(0, 5, nulls=-1), ABOVE, False),
        (pa.int32(), ints(0, 5, values=3), ABOVE, False),
        (pa.int32(), ints(5, 0), ABOVE, False),
        (pa.int64(), ints(0, 5), ABOVE, False),
        (pa.int8(), ints(-1_000, 5), ABOVE, False),
        (pa.int32(), ColumnChunk(1, 4, 0, b"\0", b"\5", ordered=True), ABOVE, False),
        (pa.int32(), ColumnChunk(1, 4, 0), ABOVE, False),
        (pa.int32(), ColumnChunk(1, 4, 4), ABOVE, True),
        (pa.int32(), ColumnChunk(1, 4, 4), [("x", "not in", [3])], False),
        (pa.float64(), doubles(0, 5), ABOVE, True),
        (pa.float64(), doubles(0, 5), pc.field("x") > 5, False),
        (pa.float64(), doubles(1, 1), [("x", "!=", 1.0)], False),
        (pa.float64(), doubles(1, 1), [("x", "in", [NAN])], False),
        (pa.float64(), doubles(NAN, 5), ABOVE, False),
        (pa.float64(), doubles(0, NAN), ABOVE, False),
        (pa.float64(), doubles(0.0, 1.0), [("x", "==", -0.0)], False),
        (pa.float64(), doubles(-1.0, -0.0), [("x", ">=", 0.0)], False),
        (pa.string(), ColumnChunk(low=b"a", high=b"b", ordered=True, **NO_NUMBER), [("x", ">", "bz")], True),
        (pa.string(), ColumnChunk(low=b"a", high=b"b", ordered=True, **NO_NUMBER), [("x", "==", "az")], False),
        (pa.string(), ColumnChunk(low=b"a", high=b"b", **NO_NUMBER), [("x", ">", "bz")], False),
        (pa.string(), ColumnChunk(low=b"a", high=b"\xc3", ordered=True, **NO_NUMBER), [("x", "<", "a")], False),
        (pa.decimal128(9, 2), ints(0, 5), [("x", ">", 100)], False),
    ],
)
def test_only_certain_bounds_count(kind: pa.DataType, chunk: ColumnChunk, keep: Any, out: bool) -> None:
    assert ruled_out(kind, chunk, keep) == out


# Footers that are damaged, or too large


def read_groups(file: pa.NativeFile, names: list[str]) -> list[RowGroup] | None:
    footer = read_footer(file, [(name,) for name in names])
    return None if footer is None else footer.row_groups(names)


def file_of(footer: bytes) -> pa.NativeFile:
    return pa.BufferReader(b"PAR1" + footer + struct.pack("<I", len(footer)) + b"PAR1")


def test_a_footer_that_is_too_large_rules_out_nothing(
    tmp_path: Path, read: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_layout, "_FOOTER_BYTES", 100)
    pq.write_table(tables.table(40), tmp_path / "0.parquet", row_group_size=10)
    assert len(ps.read(tmp_path, filters=[("id", "<", 5)])) == 5
    assert read == {0, 1, 2, 3}


@pytest.mark.parametrize(
    "content",
    [
        b"\x3c" * 100_000,  # structs inside structs
        b"\x49" + b"\x19" * 100_000,  # lists inside lists
        b"\x4b" + b"\x01\xbb" * 100_000,  # maps inside maps
        b"\x49\xfc" + b"\xff" * 9 + b"\x01",  # 2^70 row groups
        b"\x48\xff\xff\xff\xff\x0f",  # 4 GiB of text
        b"\x46" + b"\xff" * 100,  # a number without an end
        b"\x49\x18\x00\x00",  # row groups that are text
        b"\x00",
        b"",
    ],
    ids=repr,
)
def test_hostile_footers(content: bytes) -> None:
    assert read_groups(file_of(content), ["id"]) is None


def test_flipped_bits_of_a_footer(tmp_path: Path) -> None:
    path = tmp_path / "0.parquet"
    pq.write_table(tables.table(6).select(["id", "text", "box"]), path, row_group_size=3)
    whole = path.read_bytes()
    size = int.from_bytes(whole[-8:-4], "little")
    footer, rng, told = whole[-8 - size : -8], random.Random(0), 0
    assert reduce(lambda rows, group: rows + group.rows, read_groups(pa.OSFile(str(path)), ["id"]) or [], 0) == 6
    for _ in range(1_000):
        flipped = bytearray(footer)
        flipped[rng.randrange(size)] ^= 1 << rng.randrange(8)
        groups = read_groups(file_of(bytes(flipped)), ["id", "text", "box"])
        told += groups is None
        for group in groups or []:
            assert all(isinstance(chunk.low, bytes | None) for chunk in group.columns.values())
    assert told > 100
