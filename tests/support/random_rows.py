"""Rows for random plans: leaves in memory and in files, and functions of rows, by the names that a plan's line of code has."""

from __future__ import annotations

import atexit
import functools
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import penstock as ps
from support import tfrecords

Rows = Mapping[str, Any]

# Data: all of a row follows from its id, and no two leaves share one


def number_of(row: int) -> int:
    return row * 7 % 31


def text_of(row: int) -> str:
    return "word " * (row % 4) + str(row)


def tokens_of(row: int) -> list[int]:
    return list(range(row, row + row * 5 % 9))


def table(rows: int, first: int) -> pa.Table:
    ids = range(first, first + rows)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "x": pa.array(map(number_of, ids), pa.int64()),
            "text": pa.array(map(text_of, ids), pa.large_string()),
            "tokens": pa.array(map(tokens_of, ids), pa.large_list(pa.int64())),
        }
    )


@functools.cache
def memory(rows: int, first: int) -> ps.Dataset:
    columns = {name: column.combine_chunks() for name, column in zip(COLUMNS, table(rows, first).columns, strict=True)}
    return ps.from_arrays({**columns, "id": columns["id"].to_numpy(), "x": columns["x"].to_numpy()})


@functools.cache
def _folder() -> Path:
    path = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, path)
    return path


@functools.cache
def lines(rows: int, first: int) -> ps.Dataset:
    folder = _folder() / f"lines {rows} {first}"
    folder.mkdir()
    texts = [json.dumps(row) + "\n" for row in table(rows, first).to_pylist()]
    (folder / "0.jsonl").write_text("".join(texts[: rows // 3]))
    (folder / "1.jsonl").write_text("".join(texts[rows // 3 :]))
    return ps.read(folder)


@functools.cache
def parquet(rows: int, first: int) -> ps.Dataset:
    path = _folder() / f"{rows} {first}.parquet"
    pq.write_table(table(rows, first), path, row_group_size=7)
    return ps.read(path)


@functools.cache
def records(rows: int, first: int) -> ps.Dataset:
    path = _folder() / f"{rows} {first}.tfrecord"
    examples = [
        tfrecords.example(
            id=tfrecords.integers(row["id"]),
            x=tfrecords.integers(row["x"]),
            text=tfrecords.texts(row["text"].encode()),
            tokens=tfrecords.integers(*row["tokens"]),
        )
        for row in table(rows, first).to_pylist()
    ]
    tfrecords.write(path, examples)
    columns = {name: ps.Column(feature=name) for name in COLUMNS}
    columns["text"] = ps.Column(feature="text", dtype="string")
    columns["tokens"] = ps.Column(feature="tokens", shape=(None,))
    return ps.read(path, columns=columns)


@functools.cache
def drawn(rows: int, first: int) -> ps.Dataset:
    """A stream, which is never stored."""
    make = functools.partial(_drawn, rows, first)
    return ps.from_iterable(make, samples=rows, spool=False, columns=COLUMN_TYPES, name=f"{rows} {first}")


def _drawn(rows: int, first: int) -> Iterator[Rows]:
    return (
        {"id": row, "x": number_of(row), "text": text_of(row), "tokens": np.array(tokens_of(row), np.int64)}
        for row in range(first, first + rows)
    )


def mates(*ids: int) -> ps.Dataset:
    """What a zip puts beside rows: their ids again, so that each batch says whether pairs are right."""
    return ps.from_arrays({"mate": np.array(ids)})


@functools.cache
def mates_in_file(rows: int, first: int) -> ps.Dataset:
    path = _folder() / f"mates {rows} {first}.parquet"
    pq.write_table(pa.table({"mate": np.arange(first, first + rows)}), path, row_group_size=5)
    return ps.read(path)


COLUMNS = ("id", "x", "text", "tokens")
COLUMN_TYPES = {name: ps.Column(feature=name) for name in ("id", "x", "text")} | {
    "tokens": ps.Column(feature="tokens", dtype="int64", shape=(None,))
}
#: Few files, so that each is written once.
FILES = ((lines, 40, 1000), (lines, 9, 1100), (parquet, 33, 1200), (parquet, 60, 1300), (records, 29, 1400))


# Functions: what they do with a row depends on the row alone, but for those of groups


def doubled(batch: Rows) -> Rows:
    return {**batch, "x": batch["x"] * 2 + 1}


def lessened(row: Rows) -> Rows:
    return {**row, "x": row["x"] - 3}


def noisy(row: Rows, rng: np.random.Generator) -> Rows:
    return {**row, "x": row["x"] + rng.integers(1000)}


def plain(batch: Rows) -> Rows:
    return {name: batch[name] for name in COLUMNS}


def half(batch: Rows) -> Any:
    return batch["id"] * 2_654_435_761 % 64 < 32


def most(batch: Rows) -> Any:
    return batch["id"] % 7 != 0


def opening(batch: Rows) -> Any:
    return batch["tokens"][:, 0] % 5 != 1


def negative(batch: Rows) -> Rows:
    return {**batch, "tokens": -batch["tokens"]}


def _taken(batch: Rows, rows: Any) -> Rows:
    return {
        name: column.take(pa.array(rows)) if isinstance(column, pa.Array) else column[rows]
        for name, column in batch.items()
    }


def some_twice(batch: Rows) -> Rows:
    """None, one or two of each."""
    return _taken(batch, np.repeat(np.arange(len(batch["id"])), batch["id"] % 3))


def in_groups(batch: Rows) -> Rows:
    """Backwards, and without some that depend on the first: what comes out depends on which rows are together."""
    return _taken(batch, np.arange(len(batch["id"]))[int(batch["id"][0]) % 3 :][::-1])


NAMES: dict[str, Any] = {
    made.__name__: made
    for made in (memory, lines, parquet, records, drawn, mates, mates_in_file, doubled, lessened, noisy, plain, half, most, opening, negative, some_twice, in_groups)
} | {"ps": ps, "np": np}  # fmt: skip


def build(code: str, it: ps.Dataset | None = None) -> ps.Dataset:
    """The dataset that a line of code makes, of `it` where that is named."""
    return eval(code, {**NAMES, "it": it})
