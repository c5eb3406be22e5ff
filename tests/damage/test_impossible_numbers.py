"""Files and caches that are whole and say what cannot be: an error in our words, or made anew."""

from __future__ import annotations

import json
import os
import random
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.core.errors import DataError, PenstockError
from support.tries import tries

ROWS = 600


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "penstock"


def drawn() -> Iterator[dict[str, Any]]:
    yield from ({"x": np.full(3, row, np.int32), "t": f"row {row}"} for row in range(ROWS))


def rows_of_spool() -> list[Any]:
    loader = ps.Loader(ps.from_iterable(drawn, name="drawn").shuffle(seed=1).batch(100))
    return [{name: list(map(str, column)) for name, column in batch.items()} for batch in loader]


SAID: dict[str, dict[str, Any]] = {
    **{f"blocks of {rows} rows": {"block_rows": rows} for rows in (0, -1, 3, "a", 2**70, None, 600.5)},
    "no columns": {"columns": {}},
    "a list of columns": {"columns": []},
    "another column": {"columns": {"y": ["int32", [3]]}},
    "wider": {"columns": {"x": ["float64", [3]], "t": ["string", []]}},
    "as wide": {"columns": {"x": ["int16", [6]], "t": ["string", []]}},
    "objects": {"columns": {"x": ["object", [3]], "t": ["string", []]}},
    "terabytes": {"columns": {"x": ["int32", [2**40]], "t": ["string", []]}},
    "below 0": {"columns": {"x": ["int32", [-3]], "t": ["string", []]}},
    "text": {"columns": {"x": ["string", []], "t": ["string", []]}},
    "no shape": {"columns": {"x": ["int32", "abc"], "t": ["string", []]}},
    "fewer rows": {"rows": 3},
}  # fmt: skip


def test_spools_that_say_what_cannot_be_are_drawn_anew(cache: Path) -> None:
    wanted = rows_of_spool()
    facts = next((cache / "spool").glob("*.json"))
    told = json.loads(facts.read_text())
    plain = {name: value for name, value in told.items() if name not in ("check", "rows")}
    for name, said in SAID.items():
        for before in (told, plain):  # as it is written now, and as it once was
            if before is told or name not in ("as wide", f"blocks of {2**70} rows"):  # which older spools cannot know
                facts.write_text(json.dumps({**before, **said}))
                assert rows_of_spool() == wanted, name
    for content in ("[" * 200_000, "null", "[]", '{"version": 1}', "\xff"):
        facts.write_text(content, encoding="latin-1")
        assert rows_of_spool() == wanted
    assert set(json.loads(facts.read_text())) == set(told)


def rewritten(path: Path, change: Callable[[pa.RecordBatch], pa.RecordBatch]) -> None:
    with pa.ipc.open_file(path.read_bytes()) as file:
        batches = [change(file.get_batch(number)) for number in range(file.num_record_batches)]
    with pa.ipc.new_file(str(path), batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def outside(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same with a text that begins far behind the end of all texts."""
    columns = []
    for column in batch.columns:
        if pa.types.is_large_string(column.type):
            _, edges, data = column.buffers()
            moved = np.frombuffer(edges, np.int64).copy()
            moved[3] = 10**12
            columns.append(pa.Array.from_buffers(column.type, len(column), [None, pa.py_buffer(moved), data]))
        else:
            columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def narrower(batch: pa.RecordBatch) -> pa.RecordBatch:
    column = batch.column(0)
    half = pa.Array.from_buffers(pa.binary(column.type.byte_width // 2), len(column), [None, column.buffers()[1]])
    made = pa.RecordBatch.from_arrays([half, *batch.columns[1:]], names=batch.schema.names)
    return made.replace_schema_metadata(batch.schema.metadata)


CHANGES: dict[str, Callable[[pa.RecordBatch], pa.RecordBatch]] = {
    "fewer": lambda batch: batch.slice(0, len(batch) - 1),
    "none": lambda batch: batch.slice(0, 0),
    "renamed": lambda batch: batch.rename_columns([f"c{number}" for number in range(batch.num_columns)]),
    "narrower": narrower,
    "outside": outside,
}


def test_spools_whose_blocks_cannot_be_are_drawn_anew(cache: Path) -> None:
    wanted = rows_of_spool()
    facts, blocks = (next((cache / "spool").glob(f"*.{suffix}")) for suffix in ("json", "arrow"))
    whole, told = blocks.read_bytes(), facts.read_text()
    for name, change in CHANGES.items():
        blocks.write_bytes(whole)
        facts.write_text(told)
        rewritten(blocks, change)
        plain = {key: value for key, value in json.loads(told).items() if key != "check"}
        facts.write_text(json.dumps({**plain, "size": blocks.stat().st_size}))
        if name == "outside":  # noticed when the block is first needed
            with pytest.raises(DataError, match="open the dataset again, which draws them anew"):
                rows_of_spool()
        assert rows_of_spool() == wanted, name


def test_decoded_parts_that_cannot_be_are_decoded_anew(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.derived.decoded.MEMORY_BYTES", 0)
    table = pa.table({"x": np.arange(ROWS), "t": [f"row {row}" for row in range(ROWS)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=ROWS // 2)

    def found() -> list[Any]:
        batches = ps.Loader(ps.read(tmp_path / "a.parquet").shuffle(seed=1).batch(100))
        return [{name: list(map(str, column)) for name, column in batch.items()} for batch in batches]

    wanted = found()
    parts = list((cache / "decoded").glob("*.arrow"))
    assert parts
    for change in CHANGES.values():
        for part in parts:
            rewritten(part, change)
        assert found() == wanted


@pytest.mark.parametrize("packing", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_damaged_members_of_archives(tmp_path: Path, packing: int) -> None:
    np.save(tmp_path / "x.npy", np.arange(3_000))
    with zipfile.ZipFile(tmp_path / "a.npz", "w", packing) as archive:
        archive.write(tmp_path / "x.npy", "x.npy")
    whole, rng = (tmp_path / "a.npz").read_bytes(), random.Random(1)
    told = 0
    for number in range(tries(400)):
        damaged = bytearray(whole)
        damaged[rng.randrange(60 if number % 2 else len(whole))] ^= 1 << rng.randrange(8)
        (tmp_path / "a.npz").write_bytes(damaged)
        os.utime(tmp_path / "a.npz", ns=(number, number))
        try:
            found = [batch["x"] for batch in ps.Loader(ps.read(tmp_path / "a.npz").batch(3_000))]
        except PenstockError:
            told += 1
        else:
            assert np.array_equal(found[0], np.arange(3_000))
    assert told


def test_chunks_of_no_rows(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    for version, name in ((2, ".zarray"), (3, "zarr.json")):
        store = tmp_path / f"{version}.zarr"
        zarr.open_group(str(store), mode="w", zarr_format=version).create_array("x", data=np.arange(10), chunks=(4,))
        text = (store / "x" / name).read_text()
        (store / "x" / name).write_text("".join(text.split()).replace("[4]", "[0]"))
        with pytest.raises(DataError, match="chunks have the shape"):
            ps.read(store)
