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


def in_runs(column: pa.Array) -> pa.Array:
    """Runs of one row each."""
    return pa.RunEndEncodedArray.from_arrays(pa.array(np.arange(1, ROWS + 1), pa.int32()), column)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("write", "make"),
    [
        (in_parquet, lambda: with_nulls("Ω")),
        (in_parquet, lambda: with_nulls("Ω").dictionary_decode()),
        (in_arrow, lambda: with_nulls("Ω")),
        (in_arrow, lambda: with_nulls(None)),
        (in_arrow, lambda: in_runs(with_nulls(None).dictionary_decode())),
    ],
    ids=["dictionary.parquet", "text.parquet", "dictionary.arrow", "null in the dictionary.arrow", "runs.arrow"],
)
def test_nulls_stay_nulls(
    tmp_path: Path, write: Callable[[Path, pa.Array], Path], make: Callable[[], pa.Array]
) -> None:
    path, column = write(tmp_path / "a", make()), make()
    texts = column.to_pylist()
    wanted = list(enumerate(texts))
    data = ps.read(path, nulls="arrow")
    assert rows(data) == wanted
    assert sorted(rows(data.shuffle(seed=1))) == wanted
    assert sorted(rows(data.filter(ps.col("text").is_null()))) == [one for one in wanted if one[1] is None]
    there = [one for one in wanted if one[1] is not None]
    assert rows(ps.read(path).filter(ps.col("text").is_not_null())) == there
    assert rows(ps.read(path).filter(ps.col("text") == "one")) == [one for one in wanted if one[1] == "one"]
    with pytest.raises(ps.DataError, match=rf"row {texts.index(None):,}: column 'text' is null"):
        rows(ps.read(path))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("order", [[0, 1], [1, 0], [0, 2, 1]])
def test_files_that_hold_a_column_in_other_ways_are_joined(tmp_path: Path, order: list[int]) -> None:
    """As a dictionary with nulls, as text with nulls, as a dictionary without."""
    columns = [with_nulls("Ω"), with_nulls("no"), dictionary()]
    kind = pa.dictionary(pa.int32(), pa.string())
    for number, which in enumerate(order):
        column = columns[which].dictionary_decode().cast(kind) if which else columns[which]
        in_arrow(tmp_path / str(number), column)
    data = ps.read(str(tmp_path / "*.arrow"), nulls="arrow")
    wanted = [text for which in order for text in columns[which].to_pylist()]
    for size in (64, 999, 2_500):  # of these some have rows of two files
        with ps.Loader(data.batch(size)) as loader:
            assert [text for batch in loader for text in batch["text"].to_pylist()] == wanted
    with ps.Loader(data.shuffle(seed=0).batch(500)) as loader:
        found = [text for batch in loader for text in batch["text"].to_pylist()]
    assert sorted(map(str, found)) == sorted(map(str, wanted))


def test_joined_columns_know_their_nulls() -> None:
    parts = [
        repeated.repeated(np.array([0, -1, 1]), pa.array(["a", "b"], pa.large_string())),
        pa.array(["c", None], pa.large_string()),
        repeated.repeated(np.array([1, 0]), pa.array(["d", "e"], pa.large_string())),
    ]
    wanted = ["a", None, "b", "c", None, "e", "d"]
    for order in ([0, 1, 2], [2, 1, 0], [1, 0, 2]):
        joined = repeated.joined([parts[number] for number in order])
        expected = [text for number in order for text in parts[number].to_pylist()]
        assert joined.to_pylist() == expected
        assert joined.null_count == 2
        again = repeated.joined([joined.slice(1, 4), joined.slice(0, 0)])
        assert again.to_pylist() == expected[1:5]
        which, row = np.zeros(7, np.int64), np.arange(7)[::-1].copy()
        (values,), number = repeated.rows_of([joined], which, row)
        assert values.take(pa.array(number)).to_pylist() == expected[::-1]
    assert sorted(map(str, wanted)) == sorted(map(str, expected))


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
with ps.Loader(ps.read(sys.argv[1], nulls="arrow").shuffle(seed=0).batch(64)) as loader:
    batch = next(iter(loader))
assert {len(text) for text in batch["text"].to_pylist() if text is not None} == {2000}
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used) >> 10)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "null"), [("plain.parquet", 5), ("dictionary.parquet", -1), ("dictionary.arrow", 5)])
def test_a_small_file_that_stands_for_gigabytes(tmp_path: Path, kind: str, null: int) -> None:
    """A million rows of one text of 2,000 letters."""
    numbers = pa.array(np.zeros(1_000_000, np.int8), mask=np.arange(1_000_000) == null)
    column = pa.DictionaryArray.from_arrays(numbers, pa.array(["x" * 2_000]))
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
