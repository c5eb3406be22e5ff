"""Parquet against pyarrow's own reader: columns, filters, row groups, what is kept decoded, and what is refused."""

from __future__ import annotations

import gc
import os
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.derived import decoded
from penstock.format.parquet import source as parquet
from support import tables
from support.cases import FULL, MemoryStorage


def write(folder: Path, samples: int = 60, **options: Any) -> Path:
    """Two files of row groups of unequal size, the second with an empty one."""
    whole = tables.table(samples)
    pq.write_table(whole.slice(0, samples // 3), folder / "0.parquet", row_group_size=7, **options)
    with pq.ParquetWriter(folder / "1.parquet", whole.schema, **options) as writer:
        writer.write_table(whole.slice(samples // 3, 11))
        writer.write_table(whole.slice(0, 0))
        writer.write_table(whole.slice(samples // 3 + 11), row_group_size=13)
    return folder


@pytest.mark.parametrize(
    "options",
    [{}, {"compression": "zstd", "data_page_version": "2.0"}, {"use_dictionary": False, "write_page_checksum": True}],
)
def test_every_column(tmp_path: Path, options: dict[str, Any]) -> None:
    dataset = ps.read(write(tmp_path, **options))
    assert len(dataset) == 60
    batch = tables.rows_of(dataset)
    assert batch["id"].tolist() == list(range(60))
    tables.check(batch)
    for shuffled in ps.Loader(dataset.shuffle(seed=1, block_rows=4).batch(16)):
        tables.check(shuffled)


def test_only_what_is_asked_for_is_read(tmp_path: Path) -> None:
    pq.write_table(tables.table(20_000), tmp_path / "0.parquet", compression="none", use_dictionary=False)
    content = (tmp_path / "0.parquet").read_bytes()
    storage = MemoryStorage({"memory://0.parquet": content})
    dataset = ps.read("memory://", storage=storage, columns={"x": "box.left", "y": "id"})
    assert tables.rows_of(dataset)["x"].tolist() == list(range(20_000))
    assert sum(length for _, _, length in storage.reads) < len(content)
    assert dataset.source.manifest.size_bytes == 20_000 * 16


FILTERS: list[Any] = [
    [("id", ">=", 17), ("id", "<", 41)],
    [[("id", "<", 2)], [("id", ">", 57)]],
    [("box.left", "in", {3, 30, 31})],
    [("text", "==", "text 3text 3text 3")],
    (pc.field("third") > 3.1) & ~pc.field("flag"),
    pc.field("box", "left") > 55,
]


@pytest.mark.parametrize("keep", FILTERS, ids=str)
def test_filters_are_exact(tmp_path: Path, keep: Any) -> None:
    write(tmp_path)
    if isinstance(keep, list) and keep[0][0] == "box.left":
        wanted = [3, 30, 31]
    else:
        wanted = pq.read_table(tmp_path, filters=keep)["id"].to_pylist()
    dataset = ps.read(tmp_path, filters=keep)
    batch = tables.rows_of(dataset)
    assert batch["id"].tolist() == wanted
    tables.check(batch)
    assert dataset.source.manifest.digest != ps.read(tmp_path).source.manifest.digest


def test_a_filter_reads_its_own_columns_and_groups_with_kept_rows(tmp_path: Path) -> None:
    pq.write_table(tables.table(30_000), tmp_path / "0.parquet", row_group_size=3_000, compression="none")
    storage = MemoryStorage({"memory://0.parquet": (tmp_path / "0.parquet").read_bytes()})
    dataset = ps.read("memory://", storage=storage, filters=[("id", ">", 29_990)])
    tables.check(tables.rows_of(dataset))
    assert sum(length for _, _, length in storage.reads) < 0.7 * len(storage.files["memory://0.parquet"])


def test_a_filters_rows_identify_the_data(tmp_path: Path) -> None:
    write(tmp_path)
    digests = [ps.read(tmp_path, filters=[("id", ">", n)]).source.manifest.digest for n in (3, 3, 4)]
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize(
    "keep", [[("nope", ">", 3)], "id > 3", [("id", "~", 3)], [("text", ">", 3)], pc.field("id"), 3]
)
def test_filters_that_cannot_be(tmp_path: Path, keep: Any) -> None:
    with pytest.raises(ps.PlanError, match=r"filters=.*(pass e\.g\.|true or false)"):
        ps.read(write(tmp_path), filters=keep)


def test_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(ps.SourceError, match="not a single record"):
        ps.read(write(tmp_path), filters=[("id", ">", 1_000)])


def test_another_schema(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1], "x": [1.0]}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"id": [1], "x": pa.array([1.0], pa.float32())}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"y": [1], "id": [2]}), tmp_path / "2.parquet")
    with pytest.raises(ps.DataError, match=r"1\.parquet: column 'x' is float, and double in .*0\.parquet; read files"):
        ps.read(tmp_path)
    with pytest.raises(ps.DataError, match=r"2\.parquet: no column 'x', which .*0\.parquet has; there are y, id"):
        ps.read([tmp_path / "0.parquet", tmp_path / "2.parquet"])
    assert tables.rows_of(ps.read(tmp_path, columns=["id"]))["id"].tolist() == [1, 1, 2]


def test_times_of_another_unit_are_another_type(tmp_path: Path) -> None:
    for number, unit in enumerate(("ms", "us")):
        pq.write_table(pa.table({"t": pa.array([1], pa.timestamp(unit))}), tmp_path / f"{number}.parquet")
    with pytest.raises(ps.DataError, match=r"timestamp\[us\], and timestamp\[ms\]"):
        ps.read(tmp_path)


def test_nulls_are_named_and_filled(tmp_path: Path) -> None:
    path = tmp_path / "0.parquet"
    pq.write_table(pa.table({"x": [1, 2, None, 4], "y": range(4)}), path, row_group_size=2)
    with pytest.raises(ps.DataError, match=r"0\.parquet, row group 1, row 0: column 'x' is null; give it a value"):
        tables.rows_of(ps.read(path))
    with pytest.raises(ps.DataError, match=r"row group 1, row 0: column 'x' is null"):
        tables.rows_of(ps.read(path, filters=[("y", ">", 0)]))
    filled = ps.read(path, columns={"x": ps.Column(feature="x", default=-1)})
    assert tables.rows_of(filled)["x"].tolist() == [1, 2, -1, 4]


def test_two_columns_of_one_name(tmp_path: Path) -> None:
    pq.write_table(pa.table([pa.array([1]), pa.array([2])], names=["x", "x"]), tmp_path / "0.parquet")
    with pytest.raises(ps.DataError, match="several columns are named 'x'"):
        ps.read(tmp_path)


def test_checksums_of_pages(tmp_path: Path) -> None:
    path = tmp_path / "0.parquet"
    columns = pa.table({"x": np.random.default_rng(0).random(1_000)})
    pq.write_table(columns, path, compression="none", use_dictionary=False, write_page_checksum=True)
    content = bytearray(path.read_bytes())
    content[4_000] ^= 1
    path.write_bytes(content)
    with pytest.raises(ps.DataError, match=r"0\.parquet, row group 0: .*CRC.*write it again"):
        tables.rows_of(ps.read(path))
    assert not np.array_equal(tables.rows_of(ps.read(path, verify=False))["x"], columns["x"].to_numpy())


def test_tables_that_would_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table({"x": np.zeros(1 << 20)}), tmp_path / "0.parquet")
    monkeypatch.setattr("penstock.source.tables.table._UNSUSPICIOUS_BYTES", 1 << 20)
    with pytest.raises(ps.DataError, match=r"row group 0: [\d,]+ bytes would become 8,388,608 in memory"):
        ps.read(tmp_path)
    assert len(ps.read(tmp_path, limits=ps.Limits(ratio=10_000))) == 1 << 20


# What is kept decoded


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Data that counts as larger than memory, and an empty cache."""
    monkeypatch.setattr(decoded, "MEMORY_BYTES", 1_000)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    return write(tmp_path / "data")


def kept(folder: Path) -> dict[str, int]:
    files = (folder.parent / "cache" / "penstock" / "decoded").glob("*.rows")
    return {path.name: path.stat().st_ino for path in files}


def test_decoded_groups_are_kept_and_used_again(large: Path) -> None:
    def once() -> dict[str, int]:
        dataset = ps.read(large)
        for batch in ps.Loader(dataset.shuffle(seed=1, block_rows=4).batch(16)):
            tables.check(batch)
        return kept(large)

    first = once()
    assert len(first) == 3 + 1 + 3
    assert once() == first
    cache = large.parent / "cache" / "penstock" / "decoded"
    assert {path.stat().st_mode & 0o777 for path in cache.glob("*.rows")} == {0o600}
    ps.Loader(ps.read(large, columns=["id", "pair", "third"]).batch(60)).batch_at(0, 0)
    assert len(kept(large)) == 14, "another choice of columns is kept apart"


def test_a_damaged_cache_is_as_good_as_none(large: Path) -> None:
    tables.check(tables.rows_of(ps.read(large)))
    for number, path in enumerate(sorted((large.parent / "cache" / "penstock" / "decoded").glob("*.rows"))):
        content = path.read_bytes()
        path.write_bytes([b"", content[: len(content) // 2], b"x" * len(content)][number % 3])
    tables.check(tables.rows_of(ps.read(large)))


def test_the_cache_has_bounds(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables.check(tables.rows_of(ps.read(large)))
    sizes = [path.stat().st_size for path in (large.parent / "cache" / "penstock" / "decoded").glob("*.rows")]
    monkeypatch.setenv("PENSTOCK_CACHE_BYTES", f"{sum(sizes)}")
    gc.collect()  # a dataset may be part of a circle, and holds its parts as long
    dataset = ps.read(large, columns=["id", "text"])
    for batch in ps.Loader(dataset.shuffle(seed=1).batch(16)):
        assert batch["text"].to_pylist() == [f"text {number}" * (number % 4) for number in batch["id"]]
    left = [path.stat().st_size for path in (large.parent / "cache" / "penstock" / "decoded").glob("*.rows")]
    assert len(left) < 2 * len(sizes), "parts that nobody reads any more made room"
    assert sum(left) <= sum(sizes)


def test_more_than_the_cache_may_hold_is_decoded_again(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_CACHE_BYTES", "2000")
    for mode in ("block", "global"):
        loader = ps.Loader(ps.read(large).shuffle(seed=1, mode=mode).batch(16))
        with pytest.warns(UserWarning, match="the cache's limit is 2,000 bytes; PENSTOCK_CACHE_BYTES sets it"):
            batches = list(loader)
        assert sorted(number for batch in batches for number in batch["id"]) == list(range(60))
        for batch in batches:
            tables.check(batch)


def test_single_rows_come_out_of_what_is_kept(large: Path) -> None:
    loader = ps.Loader(ps.read(large).shuffle(seed=1, mode="global").batch(16))
    for _ in range(2):
        for step, batch in enumerate(loader):
            assert batch["id"].tolist() == loader.sample_ids(loader.epoch, step).tolist()
            tables.check(batch)
    assert len(kept(large)) == 3 + 1 + 3


def test_without_room_everything_is_decoded_again(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: FULL)
    loader = ps.Loader(ps.read(large).shuffle(seed=1, block_rows=4).batch(16))
    with pytest.warns(UserWarning, match="decoded columns are not cached .*they are decoded again whenever"):
        batches = list(loader)
    for batch in batches:
        tables.check(batch)
    assert kept(large) == {}


def test_a_changed_file_is_decoded_anew(large: Path) -> None:
    tables.check(tables.rows_of(ps.read(large)))
    pq.write_table(tables.table(90).slice(60), large / "0.parquet")
    os.utime(large / "0.parquet", ns=(7, 7))
    assert tables.rows_of(ps.read(large))["id"].tolist() == [*range(60, 90), *range(20, 60)]


def test_blocks_of_data_beyond_the_cache_are_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = ps.read(write(tmp_path))
    assert dataset.source.block_rows is None
    monkeypatch.setattr(parquet, "CACHE_BYTES", 100)
    assert dataset.source.block_rows == 7


@pytest.mark.parametrize("paged", [False, True])
def test_extension_types_and_nested_times(tmp_path: Path, paged: bool) -> None:
    rows = range(40)
    kind = pa.fixed_shape_tensor(pa.float32(), [2, 3])
    numbers = pa.array([[row * 6 + n for n in range(6)] for row in rows], pa.list_(pa.float32(), 6))
    table = pa.table(
        {
            "id": list(rows),
            "uuid": pa.array([bytes([row] * 16) for row in rows], pa.uuid()),
            "tensor": pa.ExtensionArray.from_storage(kind, numbers),
            "times": pa.array([[row, row + 1][: row % 3] for row in rows], pa.list_(pa.timestamp("us"))),
            "map": pa.array([[("k", row)] * (row % 2) for row in rows], pa.map_(pa.string(), pa.duration("ms"))),
        }
    )
    path = tmp_path / "x.parquet"
    pq.write_table(table, path, row_group_size=20, write_page_index=paged, max_rows_per_page=4)
    for options in ({}, {"filters": [("id", ">", 9), ("id", "!=", 30)]}):
        (batch,) = ps.Loader(ps.read(path, **options).batch(len(ps.read(path, **options))))
        kept = batch["id"].tolist()
        assert kept == ([row for row in rows if row > 9 and row != 30] if options else list(rows))
        assert batch["uuid"].to_pylist() == [str(uuid.UUID(bytes=bytes([row] * 16))) for row in kept]
        np.testing.assert_array_equal(batch["tensor"], np.arange(240, dtype=np.float32).reshape(40, 2, 3)[kept])
        assert batch["times"].to_pylist() == [[row, row + 1][: row % 3] for row in kept]
        assert batch["map.key"].to_pylist() == [["k"] * (row % 2) for row in kept]
        assert batch["map.value"].to_pylist() == [[row] * (row % 2) for row in kept]
