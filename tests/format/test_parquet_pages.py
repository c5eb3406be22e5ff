"""Single pages of Parquet files: the rows that pyarrow gives, fewer bytes read, damage told."""

from __future__ import annotations

import contextlib
import random
from dataclasses import replace
from datetime import UTC
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.core.files.byte_ranges import ByteRanges
from penstock.core.files.shards import Shards
from penstock.core.kernels import ParquetFooter
from penstock.format.parquet import parts as parquet_parts
from penstock.format.parquet.files import ParquetFiles
from penstock.format.parquet.layout import Pages
from penstock.format.parquet.pages import PagedFile, PagedFiles
from penstock.format.parquet.parts import edges_of
from penstock.format.parquet.small_file import SmallFile
from penstock.source.nulls import stored
from support import damage, tables
from support.cases import MemoryStorage
from support.tries import tries

WHERE = "memory://0.parquet"


def every_type(rows: int) -> pa.Table:
    """Columns of every form, with nulls; all values follow from the row."""
    ids = np.arange(rows)
    boxes = [{"left": n, "name": str(n), "in": {"half": n / 2, "text": "y" * (n % 30)}} for n in range(rows)]
    return pa.table(
        {
            "id": ids,
            "f": pa.array(ids / 3, mask=ids % 10 == 0),
            "flag": ids % 3 == 0,
            "few": [f"t{n % 50}" * (n % 4) if n % 7 else None for n in range(rows)],
            "many": pa.array([f"unique {n}" for n in range(rows)], pa.large_string()),
            "word": pa.array([f"w{n % 20}" for n in range(rows)]).dictionary_encode(),
            "data": [bytes([n % 251]) * (n % 9) for n in range(rows)],
            "fixed": pa.array([n.to_bytes(8, "little") for n in range(rows)], pa.binary(8)),
            "list": pa.array([list(range(n % 5)) if n % 11 else None for n in range(rows)], pa.list_(pa.int16())),
            "words": [[f"x{m}" for m in range(n % 3)] for n in range(rows)],
            "lists": [[[m] * (m % 3) for m in range(n % 4)] for n in range(rows)],
            "pair": pa.array([[n, -n] for n in range(rows)], pa.list_(pa.int32(), 2)),
            "points": [[{"x": m} for m in range(n % 3)] for n in range(rows)],
            "box": [box if n % 13 else None for n, box in enumerate(boxes)],
            "price": pa.array([Decimal(n) / 4 for n in range(rows)], pa.decimal128(12, 2)),
            "utc": pa.array(ids * 1_000, pa.timestamp("us", "UTC")),
            "ns": pa.array(ids * 1_000, pa.timestamp("ns")),
            "day": pa.array(ids.astype(np.int32), pa.date32()),
            "half": pa.array(ids % 100, pa.float16()),
            "byte": pa.array(ids % 200, pa.uint8()),
        }
    )


WHOLE = every_type(1_200)


def opened(content: bytes, schema: pa.Schema, names: list[str]) -> PagedFiles:
    storage = MemoryStorage({WHERE: content})
    files = ParquetFiles(storage.list(WHERE), ByteRanges(storage.read), ps.Limits(), verify=True)
    return PagedFiles(files, schema, [(name,) for name in names])


def some_rows(rng: random.Random, rows: int) -> Any:
    first = rng.randrange(rows)
    if rng.random() < 0.5:
        return np.arange(first, rng.randrange(first, rows) + 1)
    return np.array(sorted(rng.sample(range(rows), rng.randrange(1, 40))))


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("packing", ["none", "snappy", "gzip", "zstd", "lz4", "brotli"])
def test_any_rows_of_any_column(tmp_path: Path, packing: str, version: str) -> None:
    rng, path = random.Random(f"{packing} {version}"), tmp_path / "0.parquet"
    for dictionary, size in ((True, 200), (False, 3_000)):
        options: dict[str, Any] = {"use_dictionary": dictionary, "data_page_size": size, "write_batch_size": 64}
        options |= {"compression": packing, "data_page_version": version, "write_page_checksum": True}
        pq.write_table(WHOLE, path, write_page_index=True, **options)
        for _ in range(3):
            names = rng.sample(WHOLE.column_names, rng.choice([1, 3, len(WHOLE.column_names)]))
            files, rows = opened(path.read_bytes(), pq.read_schema(path), names), some_rows(rng, len(WHOLE))
            found = files.table(0, 0, [(name,) for name in names], rows)
            wanted = WHOLE.take(pa.array(rows))
            assert set(found.column_names) == set(names)
            for name in names:
                assert found[name].type == wanted[name].type
                assert found[name].to_pylist() == wanted[name].to_pylist(), name


def test_structs_of_several_lists_are_read_by_row_groups(tmp_path: Path) -> None:
    table = pa.table({"id": range(40), "points": [[{"x": n, "y": -n}] for n in range(40)]})
    pq.write_table(table, tmp_path / "0.parquet", write_page_index=True, data_page_size=10, write_batch_size=4)
    files = opened((tmp_path / "0.parquet").read_bytes(), table.schema, ["id", "points"])
    assert files.pages(0, 0, [("id",)]) is None
    keep = (pc.field("id") == 7) & pc.field("points").is_valid()
    assert tables.rows_of(ps.read(tmp_path, columns=["id"], filters=keep))["id"].tolist() == [7]


# Filters


@pytest.fixture
def by_pages(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows of the small files that were decoded."""
    rows: list[int] = []
    decode = SmallFile.decode

    def noted(file: SmallFile, *given: Any, **options: Any) -> pa.Table:
        rows.append(file.rows)
        return decode(file, *given, **options)

    monkeypatch.setattr(SmallFile, "decode", noted)
    return rows


def test_only_pages_that_may_match_are_asked_for(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    columns = {"id": np.arange(200_000), "x": rng.random(200_000), "y": rng.random(200_000, dtype=np.float32)}
    texts = pa.array([f"{number:09}" for number in range(200_000)])
    path = tmp_path / "0.parquet"
    options: dict[str, Any] = {"compression": "none", "use_dictionary": False, "data_page_size": 8_000}
    pq.write_table(pa.table({**columns, "text": texts}), path, write_page_index=True, write_batch_size=500, **options)
    storage = MemoryStorage({WHERE: path.read_bytes()})
    dataset = ps.read("memory://", storage=storage, filters=[("id", ">=", 100_000), ("id", "<", 100_100)])
    batch = tables.rows_of(dataset)
    for name in columns:
        np.testing.assert_array_equal(batch[name], columns[name][100_000:100_100])
    assert batch["text"].to_pylist() == texts[100_000:100_100].to_pylist()
    group, end = pq.ParquetFile(path).metadata.row_group(0), 0
    for number in range(group.num_columns):
        column = group.column(number)
        end = column.data_page_offset + column.total_compressed_size
        read = [(at, size) for _, at, size in storage.reads if column.data_page_offset <= at <= end - size]
        assert 0 < sum(size for _, size in read) < 3 * 9_000 + 1
        middle = column.data_page_offset + column.total_compressed_size // 2
        assert all(at <= middle + 9_000 and at + size >= middle - 9_000 for at, size in read)


def some_table(rng: random.Random) -> pa.Table:
    """Values that grow with the row, and values that seldom change."""
    near = [n // 7 if rng.random() > 0.1 else None for n in range(600)]
    return pa.table(
        {
            "id": range(600),
            "near": pa.array(near, pa.int32()),
            "x": pa.array([None if n is None else n / 2 for n in near]),
            "name": [None if n is None else f"n{n:03}" for n in near],
            "box": [{"left": n, "right": rng.randrange(9)} for n in near],
            "list": [[n] * (n % 3) for n in range(600)],
        }
    )


def some_filter(rng: random.Random) -> Any:
    value, operator = rng.randrange(90), rng.choice(["==", "!=", "<", "<=", ">", ">="])
    condition = rng.choice(
        [
            ("near", operator, value),
            ("x", operator, value / 2),
            ("name", operator, f"n{value:03}"),
            ("box.left", operator, value),
            ("near", "in", [value, 3]),
            ("id", "not in", [value, 5]),
        ]
    )
    other = ("id", rng.choice(["<", ">"]), rng.randrange(600))
    return rng.choice([[condition, other], [[condition], [other, ("near", "==", value)]]])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_no_row_is_lost(tmp_path: Path, by_pages: list[int], seed: int) -> None:
    rng, path = random.Random(seed), tmp_path / "0.parquet"
    table = some_table(rng)
    options: dict[str, Any] = {"data_page_size": 100, "write_batch_size": 16, "row_group_size": 400}
    pq.write_table(table, path, write_page_index=True, **options)
    for _ in range(25):
        keep = some_filter(rng)
        lists = keep if isinstance(keep[0], list) else [keep]
        plain = [[(tuple(name.split(".")), *rest) for name, *rest in conditions] for conditions in lists]
        wanted = table.filter(pq.filters_to_expression(plain))
        found: dict[str, Any] = {"id": np.empty(0, dtype=np.int64), "list": pa.array([], pa.list_(pa.int64()))}
        with contextlib.suppress(ps.SourceError):  # not a single record is left
            found = tables.rows_of(ps.read(path, columns=["id", "list"], filters=keep))
        assert found["id"].tolist() == wanted["id"].to_pylist(), keep
        assert found["list"].to_pylist() == wanted["list"].to_pylist(), keep
    assert by_pages
    assert max(by_pages) <= 400


def test_rows_that_are_kept_identify_the_data_by_pages_or_not(tmp_path: Path) -> None:
    digests = []
    for number, index in enumerate((False, True)):
        path = tmp_path / f"{number}" / "0.parquet"
        path.parent.mkdir()
        pq.write_table(tables.table(300), path, write_page_index=index, data_page_size=100, write_batch_size=16)
        source = ps.read(path, filters=[("id", ">", 100), ("id", "<", 120)]).source
        digests.append(source.manifest.choice)
    assert digests[0] == digests[1]


def test_nulls_are_named_by_their_row(tmp_path: Path) -> None:
    table = pa.table({"id": range(300), "x": [None if n == 211 else n for n in range(300)]})
    path = tmp_path / "0.parquet"
    pq.write_table(table, path, write_page_index=True, data_page_size=100, write_batch_size=16)
    with pytest.raises(ps.DataError, match=r"0\.parquet, row group 0, row 211: column 'x' is null"):
        tables.rows_of(ps.read(path, filters=[("id", ">", 200)]))


# Parts of large row groups


@pytest.fixture
def parts_of_a_kilobyte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_parts, "_PART_BYTES", 1_000)
    monkeypatch.setattr(parquet_parts, "_COLUMN_BYTES", 1)
    monkeypatch.setattr(parquet_parts, "_WHOLE_BYTES", 4_000)


@pytest.mark.usefixtures("parts_of_a_kilobyte")
@pytest.mark.parametrize("dictionary", [["flag", "list.list.element"], False])
def test_a_large_row_group_is_read_in_parts(tmp_path: Path, by_pages: list[int], dictionary: Any) -> None:
    path = tmp_path / "0.parquet"
    options: dict[str, Any] = {"max_rows_per_page": 40, "write_batch_size": 8, "use_dictionary": dictionary}
    pq.write_table(tables.table(600), path, write_page_index=True, **options)
    dataset = ps.read(path)
    dataset.source.load(300, 1)
    assert 0 < max(by_pages) < 100
    parts = stored(dataset.source).stored.parts
    assert len(parts) > 5
    assert parts.by_pages.all()
    assert parts.rows.sum() == 600
    tables.check(tables.rows_of(dataset))
    for mode in ("block", "global"):
        batches = list(ps.Loader(dataset.shuffle(seed=1, mode=mode).batch(64)))
        assert sorted(number for batch in batches for number in batch["id"].tolist()) == list(range(600))
        for batch in batches:
            tables.check(batch)
    some = tables.rows_of(ps.read(path, filters=[("flag", "==", True), ("id", ">", 90)]))
    assert some["id"].tolist() == list(range(93, 600, 3))
    tables.check(some)


@pytest.mark.usefixtures("parts_of_a_kilobyte")
def test_files_without_a_page_index_keep_their_row_groups(tmp_path: Path) -> None:
    pq.write_table(tables.table(600), tmp_path / "0.parquet", data_page_size=100)
    parts = stored(ps.read(tmp_path).source).stored.parts
    assert (len(parts), parts.by_pages.tolist()) == (1, [False])


def pages(first_row: list[int], page_bytes: int, dictionary: int = 0) -> Pages:
    count = len(first_row) - 1
    length = np.full(count, page_bytes)
    return Pages(np.cumsum(length), length, np.array(first_row), (0, dictionary), count)


def test_cuts_are_where_pages_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_parts, "_WHOLE_BYTES", 0)
    monkeypatch.setattr(parquet_parts, "_PART_BYTES", 250)
    monkeypatch.setattr(parquet_parts, "_COLUMN_BYTES", 0)
    tens = list(range(0, 101, 10))
    assert edges_of(100, 1_000, [pages(tens, 100)]).tolist() == [0, 30, 60, 100]
    assert edges_of(100, 1_000, [pages(tens, 100), pages([0, 40, 100], 10)]).tolist() == [0, 30, 60, 100]
    assert edges_of(100, 1_000, [pages(tens, 100), pages([0, 55, 100], 900)]).tolist() == [0, 55, 100]
    assert edges_of(100, 1_000, [pages(tens, 100, dictionary=5_000)]).tolist() == [0, 100]
    assert edges_of(100, 1_000, [pages([0, 100], 100)]).tolist() == [0, 100]


# What other writers do


@pytest.mark.parametrize("writer", ["polars", "arrow-rs"])
@pytest.mark.parametrize(
    ("keep", "kept"),
    [
        ([("id", ">=", 310), ("id", "<", 330)], lambda row: 310 <= row["id"] < 330),
        ([("name", "==", "name 030")], lambda row: row["name"] == "name 030"),
        ([("box.left", "in", [7, 390])], lambda row: row["box"]["left"] in (7, 390)),
    ],
    ids=["ids", "names", "boxes"],
)
def test_files_of_other_writers(by_pages: list[int], writer: str, keep: Any, kept: Any) -> None:
    path = damage.GOLDEN / "parquet" / f"{writer}.parquet"
    wanted = [row for row in pq.read_table(path).to_pylist() if kept(row)]
    half = ps.Column(feature="half", default=-1.0)
    columns = {"id": "id", "name": "name", "half": half, "list": "list", "text": "box.text", "time": "time"}
    batch = tables.rows_of(ps.read(path, columns=columns, filters=keep))
    assert 0 < min(by_pages) <= max(by_pages) < 400
    assert batch["id"].tolist() == [row["id"] for row in wanted]
    assert batch["half"].tolist() == [-1.0 if row["half"] is None else row["half"] for row in wanted]
    for name in ("name", "list"):
        assert batch[name].to_pylist() == [row[name] for row in wanted]
    assert batch["text"].to_pylist() == [row["box"]["text"] for row in wanted]
    assert batch["time"].tolist() == [int(row["time"].replace(tzinfo=UTC).timestamp() * 1e6) for row in wanted]


def test_a_dictionary_that_the_footer_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "0.parquet"
    pq.write_table(WHOLE, path, write_page_index=True, data_page_size=200, write_batch_size=64)
    read = PagedFiles._read_pages

    def uncounted(self: PagedFiles, file: PagedFile, shard: int, group: int, leaves: list[int]) -> list[Pages] | None:
        return [replace(found, dictionary_pages=0) for found in read(self, file, shard, group, leaves) or ()]

    monkeypatch.setattr(PagedFiles, "_read_pages", uncounted)
    found = tables.rows_of(ps.read(path, columns=["few", "id"], filters=[("id", ">", 1_190), ("few", "!=", "")]))
    assert found["few"].to_pylist() == [text for text in WHOLE["few"].to_pylist()[1_191:] if text]


# Damage


def indexed(tmp_path: Path) -> tuple[bytes, int, int]:
    """A file, and where its page index begins and ends."""
    path = tmp_path / "0.parquet"
    table = pa.table(
        {"id": range(60), "text": [f"text {n}" for n in range(60)], "list": [[n] * (n % 3) for n in range(60)]}
    )
    pq.write_table(table, path, write_page_index=True, data_page_size=40, write_batch_size=8, use_dictionary=["text"])
    content = path.read_bytes()
    group = pq.ParquetFile(path).metadata.row_group(0)
    data = [group.column(n) for n in range(3)]
    ends = [(c.dictionary_page_offset or c.data_page_offset) + c.total_compressed_size for c in data]
    return content, max(ends), len(content) - 8 - int.from_bytes(content[-8:-4], "little")


@pytest.mark.slow
def test_a_damaged_page_index_gives_no_wrong_rows(tmp_path: Path, by_pages: list[int]) -> None:
    content, begin, end = indexed(tmp_path)
    assert end - begin > 100
    rng, path = random.Random(0), tmp_path / "0.parquet"
    told = lost = 0
    count = tries(1_000, at_least=100)
    for _ in range(count):
        flipped = bytearray(content)
        flipped[rng.randrange(begin, end)] ^= 1 << rng.randrange(8)
        path.write_bytes(flipped)
        try:
            batch = damage.load_all(ps.read(path, filters=[("id", ">=", 20), ("id", "<", 40)]))
        except ps.PenstockError:
            told += 1
            continue
        ids = batch["id"].tolist()
        assert set(ids) <= set(range(20, 40)), "rows that do not meet the filter"
        assert batch["text"].to_pylist() == [f"text {n}" for n in ids]
        assert batch["list"].to_pylist() == [[n] * (n % 3) for n in ids]
        lost += len(ids) < 20  # a bound that is damaged is believed
    assert lost < count / 10
    assert told
    assert by_pages


def test_pages_of_others_are_told(tmp_path: Path) -> None:
    content, *_ = indexed(tmp_path)
    files = opened(content, pq.read_schema(tmp_path / "0.parquet"), ["id", "list"])
    (ids,) = files.pages(0, 0, [("id",)]) or [None]
    assert ids is not None
    first = ids.first_row.copy()
    first[1] += 1
    files._pages.put((0, 0, 0), replace(ids, first_row=first))
    with pytest.raises(pa.ArrowInvalid, match=r"pages of column \['id'\] are others than the page index says"):
        files.table(0, 0, [("id",)], np.arange(2))
    moved = replace(ids, offset=ids.offset + 1)
    files._pages.put((0, 0, 0), moved)
    with pytest.raises(pa.ArrowInvalid, match=r"a page of column \['id'\]: byte"):
        files.table(0, 0, [("id",)], np.arange(2))


def test_pages_whose_dictionary_is_lost_are_told(tmp_path: Path) -> None:
    content, *_ = indexed(tmp_path)
    files = opened(content, pq.read_schema(tmp_path / "0.parquet"), ["text"])
    (texts,) = files.pages(0, 0, [("text",)]) or [None]
    assert texts is not None
    files._pages.put((0, 0, 0), replace(texts, dictionary=(0, 0)))
    with pytest.raises(pa.ArrowInvalid, match="are others than the page index says"):
        files.table(0, 0, [("text",)], np.arange(2))


def test_an_index_that_points_outside_the_file_is_not_followed() -> None:
    nothing = np.empty(0, dtype=np.int64)
    shards = Shards(pa.array([WHERE], pa.large_string()), np.array([100]), np.array([0]))

    def no_read(*_: Any) -> None:
        raise AssertionError("nothing is to be read")

    files = PagedFiles(ParquetFiles(shards, no_read, ps.Limits(), verify=True), pa.schema([]), [])
    for offset, length in ((90, 11), (-1, 5), (5, 0), (1 << 62, 1 << 62), (5, 1 << 40)):
        assert files.index_bytes(0, np.append(nothing, offset), np.append(nothing, length)) is None


def test_footers_of_parts_that_are_not_there(tmp_path: Path) -> None:
    indexed(tmp_path)
    content = (tmp_path / "0.parquet").read_bytes()
    footer = ParquetFooter(content[-8 - int.from_bytes(content[-8:-4], "little") : -8], [["id"]])
    for group, leaf in ((1, 0), (0, 1), (0, -1)):
        with pytest.raises(ValueError, match=r"parts that are not of this file|no such column"):
            footer.part(group, 1, [[leaf, 1, -1, 4, 1, 1]], b"")
    assert opened(content, pq.read_schema(tmp_path / "0.parquet"), ["nope"]).pages(0, 0, [("nope",)]) is None


def test_one_file_calls_the_native_reader() -> None:
    files = Path(parquet_parts.__file__).parent.glob("*.py")
    assert [path.name for path in files if "kernels" in path.read_text()] == ["layout.py"]
