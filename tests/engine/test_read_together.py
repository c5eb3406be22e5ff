"""Datasets that only the order works on are read as one: the same rows, by one reader, and errors that name the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.engine import lower
from penstock.engine.read.records import WindowedRecords
from support import tfrecords
from support.promises import assert_same, keep
from support.seams import lowered_of

pytestmark = pytest.mark.slow

ROWS = 300


def _parquet(path: Path, table: pa.Table) -> None:
    pq.write_table(table, path, row_group_size=70)


def _arrow(path: Path, table: pa.Table) -> None:
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=70)


def _jsonl(path: Path, table: pa.Table) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


def _tfrecord(path: Path, table: pa.Table) -> None:
    tfrecords.write(
        path,
        [
            tfrecords.example(id=tfrecords.integers(row["id"]), name=tfrecords.texts(row["name"].encode()))
            for row in table.to_pylist()
        ],
    )


WRITE: dict[str, Callable[[Path, pa.Table], None]] = {
    "parquet": _parquet,
    "arrow": _arrow,
    "jsonl": _jsonl,
    "tfrecord": _tfrecord,
}


def datasets(folder: Path, kind: str, number: int = 3) -> list[ps.Dataset]:
    """Each has two files, and every row an id of its own."""
    found = []
    for one in range(number):
        files = [folder / f"{one}-{part}.{kind}" for part in range(2)]
        for part, file in enumerate(files):
            ids = np.arange(ROWS) + (2 * one + part) * ROWS
            WRITE[kind](file, pa.table({"id": ids, "name": [f"row {row}" * (row % 3) for row in ids]}))
        found.append(ps.read(files))
    return found


def plans(parts: list[ps.Dataset]) -> dict[str, ps.Dataset]:
    """Orders of several datasets."""
    one, *others = parts
    weights = [3.0] + [1.0] * len(others)
    return {
        "concat": ps.concat(parts),
        "shuffled concat": ps.concat(parts).shuffle(seed=1, block_rows=20),
        "mix": ps.mix(parts, weights=weights).shuffle(seed=1, block_rows=20),
        "until all had their rows": ps.mix(parts, weights=weights, stop="all_exhausted").shuffle(seed=1, block_rows=20),
        "as many rows": ps.mix(parts, weights=weights, rows=320).shuffle(seed=1, block_rows=7),
        "as they lie": ps.mix(parts),
        "nested": ps.mix([ps.mix([one, *others[1:]]), others[0].repeat(2)]).shuffle(seed=2, block_rows=20),
        "chosen": ps.mix([one.filter(ps.col("id") % 3 == 0), *others]).shuffle(seed=2, block_rows=20),
    }


def batches(data: ps.Dataset, rank: int) -> list[dict[str, Any]]:
    with ps.Loader(data.batch(32, lanes=8, drop_last=True), rank=rank, world_size=2, epochs=2) as loader:
        return [keep(batch) for _ in range(2) for batch in loader]


@pytest.mark.parametrize("kind", WRITE)
def test_the_same_batches_as_read_one_by_one(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = datasets(tmp_path, kind)
    together = {name: batches(data, rank=1) for name, data in plans(parts).items()}
    with monkeypatch.context() as alone:
        alone.setattr(lower, "read_together", lambda *_: None)
        for name, data in plans(parts).items():
            assert together[name], name
            for one, other in zip(together[name], batches(data, rank=1), strict=True):
                assert_same(one, other, name)


@pytest.mark.parametrize("kind", WRITE)
def test_one_reader_and_nothing_to_merge(kind: str, tmp_path: Path) -> None:
    one, other, third = datasets(tmp_path, kind)
    data = ps.mix([one, ps.concat([other, third])]).shuffle(seed=1, block_rows=20)
    with ps.Loader(data.batch(32), rank=0, world_size=1) as loader:
        next(iter(loader))
        assert not {"mix", "concat"} & {stage.name for stage in lowered_of(loader).stages}


def test_a_transform_below_the_mix_keeps_its_dataset_apart(tmp_path: Path) -> None:
    one, other, third = datasets(tmp_path, "arrow")
    mapped = one.map(lambda batch: {"id": -batch["id"], "name": batch["name"]})
    data = ps.mix([mapped, ps.concat([other, third])]).shuffle(seed=1)
    with ps.Loader(data.batch(60, lanes=4), rank=0, world_size=1, epochs=1) as loader:
        names = [stage.name for stage in lowered_of(loader).stages]
        ids = np.concatenate([batch["id"] for batch in loader])
    assert "mix" in names
    assert "concat" not in names
    assert {-1, -ROWS} <= set(ids.tolist())
    assert ids.max() > 2 * ROWS


def test_a_bad_record_is_named_in_its_file(tmp_path: Path) -> None:
    parts = datasets(tmp_path, "jsonl")
    file = tmp_path / "2-1.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    lines[41] = lines[41].replace('"id"', '"ix"')
    file.write_text("".join(lines))
    parts[2] = ps.read([tmp_path / "2-0.jsonl", file])
    data = ps.mix(parts).shuffle(seed=1, block_rows=20)
    batched = data.batch(60, lanes=4)
    with (
        ps.Loader(batched, rank=0, world_size=1, epochs=1) as loader,
        pytest.raises(ps.DataError, match=r"2-1\.jsonl, record 41"),
    ):
        list(loader)


def test_every_byte_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of several datasets are opened together, and each once an epoch."""
    parts, opened = datasets(tmp_path, "tfrecord"), []
    make = WindowedRecords._open_together

    def counted(reader: WindowedRecords, edges: list[int], ranges: list[np.ndarray]) -> object:
        opened.append(int(ranges[2][edges[0] : edges[-1]].sum()))
        return make(reader, edges, ranges)

    monkeypatch.setattr(WindowedRecords, "_open_together", counted)
    data = ps.concat(parts).shuffle(seed=1, block_rows=20)
    with ps.Loader(data.batch(60, lanes=4), rank=0, world_size=1, epochs=1) as loader:
        assert sum(len(batch["id"]) for batch in loader) == 6 * ROWS
    assert sum(opened) == sum(file.stat().st_size for file in tmp_path.glob("*.tfrecord"))
