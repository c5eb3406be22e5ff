"""Text that repeats: 30 KB of it can stand for gigabytes, which are never written out."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.core.columns import repeated_values as repeated
from penstock.format.parquet.source import _bytes_of_plain

ROWS, TEXTS = 3_000, ["one", "", "three words here", "Ω"]
NUMBERS = np.random.default_rng(0).integers(0, len(TEXTS), ROWS)
WANTED = [TEXTS[number] for number in NUMBERS]


def plain() -> pa.Array:
    return pa.array(WANTED)


def dictionary() -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(NUMBERS, pa.int16()), pa.array(TEXTS))


def runs() -> pa.Array:
    return pa.RunEndEncodedArray.from_arrays(pa.array(np.arange(1, ROWS + 1), pa.int32()), plain())


def with_nulls(last: str | None) -> pa.Array:
    numbers = pa.array(NUMBERS, pa.int32(), mask=NUMBERS == 1)
    return pa.DictionaryArray.from_arrays(numbers, pa.array(["one", "never", "three words here", last]))


def in_parquet(path: Path, column: pa.Array) -> Path:
    pq.write_table(pa.table({"text": column, "row": range(ROWS)}), path.with_suffix(".parquet"), row_group_size=1_000)
    return path.with_suffix(".parquet")


def in_arrow(path: Path, column: pa.Array) -> Path:
    table = pa.table({"text": column, "row": range(ROWS)})
    with pa.ipc.new_file(str(path.with_suffix(".arrow")), table.schema) as writer:
        writer.write_table(table, 1_000)
    return path.with_suffix(".arrow")


def rows(dataset: ps.Dataset) -> list[tuple[int, str]]:
    with ps.Loader(dataset.batch(64)) as loader:
        return [pair for batch in loader for pair in zip(batch["row"].tolist(), batch["text"].to_pylist(), strict=True)]


@pytest.fixture(params=["apart", "written out"])
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every column were large."""
    if request.param == "apart":
        monkeypatch.setattr(repeated, "SMALL_BYTES", 0)
        monkeypatch.setattr(repeated, "_WORTH", 0)
        monkeypatch.setattr(import_module("penstock.format.parquet.files"), "SMALL_BYTES", 0)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("write", [in_parquet, in_arrow])
@pytest.mark.parametrize("make", [plain, dictionary, runs])
def test_the_same_rows_either_way(
    tmp_path: Path, write: Callable[[Path, pa.Array], Path], make: Callable[[], pa.Array]
) -> None:
    if write is in_parquet and make is runs:
        pytest.skip("pyarrow writes no runs to Parquet")
    path = write(tmp_path / "a", make())
    assert rows(ps.read(path)) == list(enumerate(WANTED))
    shuffled = rows(ps.read(path).shuffle(seed=1))
    assert sorted(shuffled) == list(enumerate(WANTED))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("write", "last"), [(in_parquet, "Ω"), (in_arrow, "Ω"), (in_arrow, None)])
def test_nulls_take_the_default_or_are_named(
    tmp_path: Path, write: Callable[[Path, pa.Array], Path], last: str | None
) -> None:
    path = write(tmp_path / "a", with_nulls(last))
    gone = (NUMBERS == 1) | ((NUMBERS == 3) & (last is None))
    first = int(np.argmax(gone))
    with pytest.raises(ps.DataError, match=rf"row {first:,}: column 'text' is null"):
        rows(ps.read(path))
    columns = {"text": ps.Column(feature="text", default="none"), "row": "row"}
    wanted = ["none" if is_gone else TEXTS[number] for number, is_gone in zip(NUMBERS, gone, strict=True)]
    assert rows(ps.read(path, columns=columns)) == list(enumerate(wanted))


@pytest.mark.parametrize("rows", [1_000, 100_001])
@pytest.mark.parametrize("with_null", [False, True])
def test_the_size_of_blocks_is_that_of_plain_text(rows: int, with_null: bool) -> None:
    texts: list[Any] = ["x" * (row % 7) for row in range(rows)]
    texts[3] = None if with_null else "y"
    file = io.BytesIO()
    pq.write_table(pa.table({"t": texts}), file)
    read = pq.ParquetFile(file, read_dictionary=["t"]).read_row_group(0)
    assert _bytes_of_plain(read.column(0)) == pq.ParquetFile(file).read_row_group(0).column(0).nbytes


CHILD = """
import resource, sys
import penstock as ps
used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with ps.Loader(ps.read(sys.argv[1]).shuffle(seed=0).batch(64)) as loader:
    batch = next(iter(loader))
assert {len(text) for text in batch["text"].to_pylist()} == {2000}
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used) >> 10)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain.parquet", "dictionary.parquet", "dictionary.arrow"])
def test_a_small_file_that_stands_for_gigabytes(tmp_path: Path, kind: str) -> None:
    """A million rows of one text of 2,000 letters."""
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1_000_000, np.int8)), pa.array(["x" * 2_000]))
    table, path = pa.table({"text": column}), tmp_path / kind
    if kind.endswith("arrow"):
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table)
    else:
        pq.write_table(table, path, store_schema=kind.startswith("dictionary"), row_group_size=1_000_000)
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(path)], capture_output=True, text=True, timeout=280, check=False
    )
    assert child.returncode == 0, child.stderr
    assert int(child.stdout) < 400
