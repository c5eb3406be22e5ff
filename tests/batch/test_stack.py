"""What users' functions return becomes columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.core.columns.rows import spans_to_arrow
from penstock.core.columns.spec import Spans


def mapped(made: Any, verb: str = "map") -> dict[str, Any]:
    function = made if callable(made) else (lambda _: made)
    dataset = ps.from_arrays({"id": np.arange(3)})
    with ps.Loader(getattr(dataset, verb)(function).batch(3)) as loader:
        return next(iter(loader))


@pytest.mark.parametrize(
    ("column", "dtype"),
    [
        (np.arange(3, dtype=">i4"), "int32"),
        (np.arange(3) > 1, "bool"),
        ([1, 2, 3], "int64"),
        (np.arange(6)[::-2], "int64"),
        (np.zeros((3, 0), dtype=np.float16), "float16"),
        (pa.array([1, 2, 3], pa.int16()), "int16"),
        (pa.chunked_array([[1.0], [2.0, 3.0]]), "float64"),
    ],
)
def test_numbers(column: Any, dtype: str) -> None:
    found = mapped({"x": column})["x"]
    assert isinstance(found, np.ndarray)
    assert found.dtype == np.dtype(dtype)
    assert found.dtype.isnative
    assert found.tolist() == np.asarray(column).tolist()


@pytest.mark.parametrize(
    "column", [["a", "b", "c"], [b"a", b"b", b"c"], np.array(["a", "b", "c"]), pa.array(["a", "b", "c"])]
)
def test_text(column: Any) -> None:
    found = mapped({"x": column})["x"]
    assert isinstance(found, pa.Array)
    assert found.to_pylist() == (column.to_pylist() if isinstance(column, pa.Array) else list(column))


def test_bfloat16() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    found = mapped({"x": np.array([1, 2, 3], dtype=ml_dtypes.bfloat16)})["x"]
    assert found.dtype == ml_dtypes.bfloat16
    assert found.astype(float).tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (None, "returned NoneType; it must return a dict"),
        ({"x": np.arange(4)}, "column 'x' has 4 rows, the batch 3; return as many rows"),
        ({"x": 5}, "column 'x' is int; return numbers, or text, with one entry a row"),
        ({"x": np.array([{}, {}, {}])}, "column 'x' is an array of dtype object"),
        ({"x": np.zeros(3, dtype=[("a", "i4")])}, "column 'x' is an array of dtype"),
        ({"x": np.zeros(3, dtype="datetime64[s]")}, "column 'x' is an array of dtype datetime64"),
        ({"x": [[1], ["a"], []]}, "column 'x' holds lists that are no column: .*; return lists of numbers or of text"),
        (
            {"x": [1, None, 3]},
            r"dtype object .*; for a number that is missing return float\('nan'\), or 0 and beside it a column of bool",
        ),
        ({"x": [{"a": 1}] * 3}, "instead of a list of dicts, return a dict of lists"),
        ({"x": {"y": [1, 2, 3]}, "x.y": [1, 2, 3]}, "two columns are named 'x.y', which an inner dict gives as well"),
        ({"x": [1, "a", 2]}, "column 'x' is not text: .*; return only text"),
        ({"x": [b"a", 1, b""]}, "column 'x' is not text"),
    ],
)
def test_what_map_may_not_return(made: Any, message: str) -> None:
    with pytest.raises(ps.PlanError, match=message):
        mapped(made)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda _: None, "returned NoneType; it must return a dict"),
        (lambda row: {"x": np.zeros((1, int(row["id"])))}, r"column 'x' has shape \(1, 1\) in row 1 and \(1, 0\) in another; pad the rows to one shape"),
        (lambda row: {str(row["id"]): 1}, "row 1 of the batch has other names than row 0"),
        (lambda _: {"x": object()}, "column 'x' is object of dtype object"),
        (lambda row: {"x": "a" if row["id"] else 1}, "column 'x' is str of dtype <U1 in row 1"),
        (lambda row: {"x": 1 if row["id"] else "a"}, "column 'x' is not text: .*; return only text"),
    ],
)  # fmt: skip
def test_what_map_rows_may_not_return(function: Any, message: str) -> None:
    with pytest.raises(ps.PlanError, match=message):
        mapped(function, "map_rows")


def test_map_rows() -> None:
    found = mapped(
        lambda row: {"i": int(row["id"]), "s": f"{row['id']}", "b": b"x", "a": np.full((2, 1), row["id"], ">f4")},
        "map_rows",
    )
    assert found["i"].tolist() == [0, 1, 2]
    assert found["s"].to_pylist() == ["0", "1", "2"]
    assert found["b"].to_pylist() == [b"x"] * 3
    assert found["a"].shape == (3, 2, 1)
    assert found["a"].dtype == np.float32
    assert found["a"].dtype.isnative


def test_two_random_functions_draw_apart() -> None:
    def draw(name: str):
        return lambda batch, rng: {**batch, name: rng.random(len(batch["id"]))}

    dataset = ps.from_arrays({"id": np.arange(8)}).map(draw("a")).map(draw("b")).batch(8)
    first, second = (ps.Loader(dataset).batch_at(epoch, 0) for epoch in range(2))
    values = [tuple(batch[name]) for batch in (first, second) for name in "ab"]
    assert len(set(values)) == 4


def test_spans() -> None:
    buffers = (np.frombuffer(b"hello", dtype=np.uint8), np.frombuffer(b"world", dtype=np.uint8))
    spans = Spans(buffers, np.array([1, 0, 1]), np.array([3, 0, 5]), np.array([2, 3, 0]))
    assert spans_to_arrow(spans).to_pylist() == [b"ld", b"hel", b""]
    assert [spans[row] for row in range(3)] == [b"ld", b"hel", b""]
    nothing = np.empty(0, dtype=np.int64)
    assert spans_to_arrow(Spans((), nothing, nothing, nothing)).to_pylist() == []
