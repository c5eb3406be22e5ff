"""Expressions on values that are missing: as Polars computes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import penstock as ps
from penstock.plan.expression_values import value_of

X = [1, None, 3, -4, None, 0, 7, 3]
Y = [2.5, 1.0, None, 4.0, None, 0.5, 9.0, 3.0]
B = [True, None, False, None, True, False, None, True]
T = ["a", "bc", None, "", "a", None, "z", "bc"]
TABLE = pa.table(
    {"x": pa.array(X), "y": pa.array(Y), "b": pa.array(B), "t": pa.array(T, pa.large_string()), "n": range(8)}
)

EXPRESSIONS: list[Callable[[Any], Any]] = [
    lambda col: col("x") > 1,
    lambda col: ~(col("x") > 1),
    lambda col: (col("x") > 1) & (col("y") > 1),
    lambda col: (col("x") > 1) | (col("y") > 1),
    lambda col: (col("x") > 1) & (col("n") > 3),
    lambda col: (col("n") > 3) | (col("x") > 1),
    lambda col: col("b") & (col("x") == 3),
    lambda col: ~col("b") | (col("x") != 3),
    lambda col: col("x") == col("n"),
    lambda col: col("x") + col("n") * 2 - 1 > 4,
    lambda col: col("y") / 2 > 1,
    lambda col: col("x").is_null(),
    lambda col: ~col("x").is_null() & (col("t") == "a"),
    lambda col: col("t").is_null() | (col("t") == "bc"),
    lambda col: col("x").fill_null(9) > 3,
    lambda col: col("x").fill_null(0.5) < 1,
    lambda col: col("t").fill_null("a") == "a",
    lambda col: col("b").fill_null(True),
    lambda col: col("x").is_in([1, 7]),
    lambda col: ~col("x").is_in([1, 7]),
    lambda col: ~col("t").is_in(["a"]),
    lambda col: ~(col("t") > "a"),
]


@pytest.mark.parametrize("number", range(len(EXPRESSIONS)))
def test_as_polars(number: int) -> None:
    make = EXPRESSIONS[number]
    columns = {name: TABLE[name].combine_chunks() for name in TABLE.column_names}
    ours = value_of(make(ps.col), columns)
    theirs = pl.DataFrame(TABLE.to_pydict()).select(found=make(pl.col))["found"].to_list()
    assert ours.tolist() == theirs
    kept = [row for row, true in enumerate(theirs) if true]
    dataset = ps.from_arrays(TABLE, nulls="nan")
    if not kept:
        return
    found = next(iter(ps.Loader(dataset.filter(make(ps.col)).select("n").batch(8))))
    assert found["n"].tolist() == kept


def test_is_nan_of_null_is_null() -> None:
    numbers = pa.array([float("nan") if number == 9 else number for number in Y])
    dataset = ps.from_arrays(TABLE.set_column(1, "y", numbers), nulls="nan")
    assert len(dataset.filter(ps.col("y").is_nan())) == 1
    assert len(dataset.filter(~ps.col("y").is_nan())) == 5
    assert len(dataset.filter(ps.col("t").len() > 1)) == 2


def test_division_by_a_null_is_null_and_by_zero_an_error() -> None:
    dataset = ps.from_arrays(TABLE, nulls="nan")
    with pytest.raises(ps.PlanError, match="a whole number is divided by 0"):
        dataset.filter(ps.col("n") // ps.col("x") > 0)


def test_verbs() -> None:
    """A verb that needs a value of every row says how to leave out or fill those without."""
    dataset = ps.from_arrays(TABLE, nulls="mask")
    for verb, call in {
        "sort": dataset.sort,
        "balance": dataset.balance,
        "split": lambda by: dataset.split({"a": 0.5, "b": 0.5}, by=by),
    }.items():
        with pytest.raises(
            ps.PlanError, match=rf"{verb}: .*is missing in 2 of 8 rows, first in row 1; .*is_not_null\(\).*fill_null"
        ):
            call("x")
        call(ps.col("x").fill_null(-1))
    found = next(iter(ps.Loader(dataset.sort(ps.col("x").fill_null(2)).batch(8))))
    assert found["n"].tolist() == [3, 5, 0, 1, 4, 2, 7, 6]
    assert len(dataset.filter(ps.col("x_valid"))) == 6


def test_what_is_no_value() -> None:
    dataset = ps.from_arrays(TABLE, nulls="mask")
    for value in ("a", True):
        with pytest.raises(ps.PlanError, match="is no value of such a column"):
            dataset.filter(ps.col("x").fill_null(value) == 1)
    with pytest.raises(ps.PlanError, match="more than 64 bits"):
        ps.col("x").fill_null(1 << 70)
    assert repr(ps.col("x").fill_null(0).is_null()) == "col('x').fill_null(0).is_null()"


def test_fills_that_the_type_does_not_hold() -> None:
    """A column gets a wider type for them; numbers that are there stay what they are."""
    for numbers, kind, fill, expected in (
        ([1, None], pa.int8(), 300, [1, 300]),
        ([1, None], pa.uint8(), -1, [1, -1]),
        ([1, None], pa.uint64(), -1, [1, -1]),
        ([1.0, None], pa.float32(), 1e39, [1.0, 1e39]),
        ([1.0, None], pa.float32(), float("inf"), [1.0, float("inf")]),
    ):
        assert value_of(ps.col("x").fill_null(fill), {"x": pa.array(numbers, kind)}).tolist() == expected
    with pytest.raises(ps.PlanError, match=r"fill_null\(-1\) is no value of a column with 18446744073709551615"):
        value_of(ps.col("x").fill_null(-1), {"x": pa.array([2**64 - 1, None], pa.uint64())})


@pytest.mark.parametrize("nulls", ["nan", "mask", "arrow"])
def test_batches_by_a_number_that_was_null_in_other_rows(nulls: Any) -> None:
    dataset = ps.from_arrays(TABLE, nulls=nulls).filter(ps.col("x") > 0)
    plain = ps.from_arrays({"n": [0, 2, 6, 7], "x": [1, 3, 7, 3]})
    for batched in (
        lambda data: data.batch_bucketed(2, by="x", boundaries=[4]),
        lambda data: data.batch_tokens(10, by="x", lanes=1),
    ):
        found, expected = ([batch["n"].tolist() for batch in ps.Loader(batched(data))] for data in (dataset, plain))
        assert found == expected
    with pytest.raises(ps.PlanError, match=r"batch_bucketed: .*is missing in 2 of 8 rows.*is_not_null\(\)"):
        ps.from_arrays(TABLE, nulls=nulls).batch_bucketed(2, by="x", boundaries=[4])
