"""Expressions on columns: as Python computes them row by row, and as text."""

from __future__ import annotations

import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock import col
from penstock.core.columns.spec import Field
from penstock.plan.expression import Expression, columns_of, expression_of
from penstock.plan.expression_values import no_rows, value_of

COMPARE = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
COMPUTE = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod]
NUMBERS = st.lists(st.integers(-100, 100), min_size=1, max_size=20)
#: Types that small numbers of any sign fit in.
KINDS = st.sampled_from(["int8", "int16", "int32", "int64", "float32", "float64"])


@given(NUMBERS, st.integers(-100, 100), st.sampled_from(COMPARE + COMPUTE), KINDS, st.booleans())
def test_numbers(
    values: list[int], other: int, operation: Callable[[Any, Any], Any], kind: str, is_turned: bool
) -> None:
    """Without overflow, whatever the column's type; and with the value on either side."""
    column = np.array(values, dtype=kind)
    pairs = [(other, value) if is_turned else (value, other) for value in column.tolist()]
    expression = operation(other, col("x")) if is_turned else operation(col("x"), other)
    is_divided = operation in COMPUTE[3:]
    if is_divided and any(second == 0 for _, second in pairs):
        return
    assert value_of(expression, {"x": column}).tolist() == pytest.approx([operation(*pair) for pair in pairs])


@given(st.lists(st.text(max_size=4), min_size=1, max_size=10), st.text(max_size=4), st.sampled_from(COMPARE))
def test_texts(values: list[str], other: str, operation: Callable[[Any, Any], Any]) -> None:
    columns = {
        "t": pa.array(values, pa.large_string()),
        "b": pa.array([value.encode() for value in values], pa.large_binary()),
    }
    wanted = [operation(value.encode(), other.encode()) for value in values]  # the order of code points
    assert value_of(operation(col("t"), other), columns).tolist() == wanted
    assert value_of(operation(col("b"), other.encode()), columns).tolist() == wanted
    assert value_of(col("t").is_in([other, "a"]), columns).tolist() == [value in (other, "a") for value in values]
    assert value_of(col("t").len(), columns).tolist() == [*map(len, values)]
    assert value_of(col("b").len(), columns).tolist() == [len(value.encode()) for value in values]
    assert value_of(col("t") == col("t"), columns).all()


def test_what_is_true_is_joined() -> None:
    columns = {"x": np.arange(6), "y": np.arange(6) % 2 == 0}
    assert value_of((col("x") > 1) & col("y"), columns).tolist() == [False, False, True, False, True, False]
    assert value_of((col("x") > 4) | ~col("y"), columns).tolist() == [False, True, False, True, False, True]
    assert value_of(col("x").between(2, 3), columns).tolist() == [False, False, True, True, False, False]
    assert value_of(-col("x") < -3, columns).tolist() == [False] * 4 + [True] * 2
    assert value_of(True & col("y"), columns).tolist() == columns["y"].tolist()
    assert value_of(col("x").is_in(range(100)), columns).all()
    assert not value_of(col("x").is_in([]), columns).any()
    assert value_of(col("x").is_in([2.5, 3.0]), columns).tolist() == [False] * 3 + [True] + [False] * 2
    assert value_of(col("z").is_nan(), {"z": np.array([1.0, np.nan])}).tolist() == [False, True]


def test_large_numbers_are_exact() -> None:
    large = np.array([2**63, 2**64 - 1], dtype=np.uint64)
    assert value_of(col("x") == 2**64 - 1, {"x": large}).tolist() == [False, True]
    assert value_of(col("x") + 100, {"x": np.array([200], dtype=np.uint8)}).tolist() == [300]
    assert value_of(col("x") * col("x"), {"x": np.array([10**5], dtype=np.int32)}).tolist() == [10**10]
    assert value_of(col("x") < 300, {"x": np.array([200], dtype=np.uint8)}).tolist() == [True]


def test_lengths_of_lists() -> None:
    ragged = pa.array([[1, 2], [], [3]], pa.large_list(pa.int64()))
    assert value_of(col("x").len(), {"x": ragged}).tolist() == [2, 0, 1]
    assert value_of(col("x").len() == 3, {"x": np.zeros((2, 3))}).tolist() == [True, True]


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (col("width") >= 64, "(col('width') >= 64)"),
        ((col("a") > 1) & ~(col("b") == "x"), "((col('a') > 1) & ~(col('b') == 'x'))"),
        (1 - col("a") // 2, "(1 - (col('a') // 2))"),
        (col("a").is_in([1, np.int64(2)]), "col('a').is_in([1, 2])"),
        (col("a").len().between(1, 2), "((col('a').len() >= 1) & (col('a').len() <= 2))"),
        (col("a").is_in(range(9)), "col('a').is_in([0, 1, 2, 3, 4, 5, 6, 7, … 9 values #3a73ab28ff8cae48])"),
    ],
)
def test_its_text_says_all(expression: Expression, text: str) -> None:
    """It stands in states, so it is the same for ever."""
    assert repr(expression) == text
    sent = pickle.loads(pickle.dumps(expression))
    assert (repr(sent), hash(sent)) == (text, hash(expression))
    assert columns_of(sent) == columns_of(expression)


def test_long_lists_of_values_differ_by_their_digests() -> None:
    one, other = (col("a").is_in([*range(20), last]) for last in (20, 21))
    assert repr(one) != repr(other)
    assert repr(col("a").is_in([1])) != repr(col("a").is_in(["1"]))


def test_columns_by_name_or_expression() -> None:
    assert repr(expression_of("sort", "x")) == "col('x')"
    assert columns_of(col("a") + col("b") * col("a")) == {"a", "b"}


@pytest.mark.parametrize(
    ("field", "kind"),
    [
        (Field("int8"), "int8"),
        (Field("bfloat16", (2,)), "float32"),
        (Field("string"), "large_string"),
        (Field("bytes"), "large_binary"),
        (Field("int32", (None,)), "large_list<item: int32>"),
    ],
)
def test_types_are_known_without_rows(field: Field, kind: str) -> None:
    empty = no_rows(field)
    assert str(getattr(empty, "dtype", None) or empty.type) == kind
    assert len(empty) == 0


@pytest.mark.parametrize("value", [None, [1], {}, np.zeros(2), 1j])
def test_no_value_of_a_column(value: Any) -> None:
    with pytest.raises(ps.PlanError, match=r"in an expression: a .* is no value of a column"):
        _ = col("x") == value
