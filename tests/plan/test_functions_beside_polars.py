"""What expressions compute, beside Polars where it computes the same, and beside what is documented where it does not."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.plan.expression import Expression
from penstock.plan.expression_values import value_of
from support.tries import tries

pl = pytest.importorskip("polars")

X, Y, S = ps.col("x"), ps.col("y"), ps.col("s")

INTEGERS = [0, 1, -1, 7, -7, 2**53, 2**53 + 1, -(2**53) - 1, 2**62, 2**63 - 1, -(2**63)]
FLOATS = [0.0, -0.0, 1.0, -1.5, 2.5, 0.1, 1e300, -1e300, 5e-324, math.inf, -math.inf, math.nan, 2.0**53]
TEXTS = ["", "a", "Ab c", "  x ", "é", "ß", "日本語", "🎈 b", "a\nb", "İ", "A1,5"]


def ours(expression: Expression, **columns: Any) -> Any:
    """The values as Python has them, None where they are missing."""
    made = value_of(expression, {name: _column(values) for name, values in columns.items()})
    return made.to_pylist() if isinstance(made, pa.Array) else np.asarray(made).tolist()


def _column(values: list[Any]) -> Any:
    kind = next((type(value) for value in values if value is not None), float)
    arrow = pa.array(values, {int: pa.int64(), float: pa.float64(), str: pa.large_string(), bool: pa.bool_()}[kind])
    return arrow if kind is str or arrow.null_count else arrow.to_numpy(zero_copy_only=False)


def theirs(expression: Any, **columns: Any) -> Any:
    return pl.DataFrame(columns, strict=False).select(expression.alias("_")).to_series().to_list()


def assert_close(found: list[Any], wanted: list[Any], tolerance: float) -> None:
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        if isinstance(one, float) and isinstance(other, (int, float)) and not isinstance(other, bool):
            same = one == other or (math.isnan(one) and math.isnan(other))
            assert same or math.isclose(one, other, rel_tol=tolerance), f"{found} and {wanted}"
        else:
            assert one == other, f"{found} and {wanted}"


#: By columns: ours, theirs, and how far both may be apart, relatively.
NUMBERS: list[tuple[str, Callable[[Any, Any], Any], float]] = [
    ("add", lambda x, y: x + y, 0),
    ("subtract", lambda x, y: x - y, 0),
    ("multiply", lambda x, y: x * y, 0),
    ("divide", lambda x, y: x / y, 0),
    ("negate", lambda x, y: -x * 1, 0),
    ("less", lambda x, y: x < y, 0),
    ("equal", lambda x, y: x == y, 0),
    ("both", lambda x, y: (x > 0) & (y > 0), 0),
    ("either", lambda x, y: (x > 0) | ~(y > 0), 0),
    ("abs", lambda x, y: x.abs(), 0),
    ("clip", lambda x, y: x.clip(-2, 5), 0),
    ("is_in", lambda x, y: x.is_in([0, 1, 7]), 0),
    ("is_null", lambda x, y: x.is_null(), 0),
    ("fill_null", lambda x, y: x.fill_null(3), 0),
    ("fill_null by a column", lambda x, y: x.fill_null(y), 0),
]
OF_FLOATS: list[tuple[str, Callable[[Any, Any], Any], float]] = [
    ("sqrt", lambda x, y: x.sqrt(), 1e-15),
    ("exp", lambda x, y: x.exp(), 1e-14),
    ("log", lambda x, y: x.log(), 1e-14),
    ("log10", lambda x, y: x.log(10), 1e-14),
    ("log1p", lambda x, y: x.log1p(), 1e-14),
    ("floor", lambda x, y: x.floor(), 0),
    ("ceil", lambda x, y: x.ceil(), 0),
    ("is_nan", lambda x, y: x.is_nan(), 0),
    ("is_finite", lambda x, y: x.is_finite(), 0),
    ("fill_nan", lambda x, y: x.fill_nan(1.5), 0),
]


def nullable(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.none() | values, min_size=1, max_size=8)


@pytest.mark.parametrize(("name", "make", "tolerance"), NUMBERS, ids=lambda one: one if isinstance(one, str) else "")
def test_whole_numbers(name: str, make: Callable[[Any, Any], Any], tolerance: float) -> None:
    @settings(max_examples=tries(60))
    @given(st.lists(st.tuples(*[st.none() | st.sampled_from(INTEGERS)] * 2), min_size=1, max_size=8))
    def test(rows: list[tuple[Any, Any]]) -> None:
        x, y = (list(one) for one in zip(*rows, strict=True))
        if None not in x + y or (any(value is not None for value in x) and any(value is not None for value in y)):
            wanted = theirs(
                make(pl.col("x"), pl.col("y")), x=pl.Series(x, dtype=pl.Int64), y=pl.Series(y, dtype=pl.Int64)
            )
            assert_close(ours(make(X, Y), x=x, y=y), wanted, tolerance)

    test()


@pytest.mark.parametrize(
    ("name", "make", "tolerance"),
    [one for one in NUMBERS if one[0] not in ("less", "equal", "both", "either", "clip", "is_in")] + OF_FLOATS,
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_floats(name: str, make: Callable[[Any, Any], Any], tolerance: float) -> None:
    """But for comparisons with NaN, which Polars takes for the largest number: here it is as NumPy and SQL's drivers have it, below."""

    @settings(max_examples=tries(60))
    @given(st.lists(st.tuples(*[st.none() | st.sampled_from(FLOATS)] * 2), min_size=1, max_size=8))
    def test(rows: list[tuple[Any, Any]]) -> None:
        x, y = (list(one) for one in zip(*rows, strict=True))
        wanted = theirs(
            make(pl.col("x"), pl.col("y")), x=pl.Series(x, dtype=pl.Float64), y=pl.Series(y, dtype=pl.Float64)
        )
        assert_close(ours(make(X, Y), x=x, y=y), wanted, tolerance)

    test()


def test_nan_is_neither_less_nor_equal() -> None:
    assert ours(X < 1, x=[math.nan, 0.0]) == [False, True]
    assert ours(X == X, x=[math.nan]) == [False]
    assert ours(X > 1, x=[math.nan]) == [False]
    assert np.isnan(ours(X.clip(0, 1), x=[math.nan])[0])


def test_overflow_wraps_around_as_in_polars() -> None:
    assert ours(X + 1, x=[2**63 - 1]) == theirs(pl.col("x") + 1, x=[2**63 - 1]) == [-(2**63)]
    assert ours(X.abs(), x=[-(2**63)]) == [-(2**63)]


@pytest.mark.parametrize("decimals", [0, 1, 2])
def test_round_takes_the_even_neighbour(decimals: int) -> None:
    x = [0.5, 1.5, 2.5, -0.5, 0.15, 2.675, 1e300, math.inf, -math.inf]
    assert ours(X.round(decimals), x=x) == np.round(x, decimals).tolist()
    assert ours(X.round(decimals), x=[1.7e308, -(2.0**60)]) == [1.7e308, -(2.0**60)]
    assert ours(X.round(decimals), x=[1, 2]) == [1, 2]


TEXT: list[tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = [
    ("len", lambda s: s.str.len(), lambda s: s.str.len_chars()),
    ("len_bytes", lambda s: s.str.len_bytes(), lambda s: s.str.len_bytes()),
    ("contains", lambda s: s.str.contains("[ab]"), lambda s: s.str.contains("[ab]")),
    ("contains plainly", lambda s: s.str.contains("a b", literal=True), lambda s: s.str.contains("a b", literal=True)),
    ("starts_with", lambda s: s.str.starts_with("A"), lambda s: s.str.starts_with("A")),
    ("ends_with", lambda s: s.str.ends_with("c"), lambda s: s.str.ends_with("c")),
    ("slice", lambda s: s.str.slice(1, 2), lambda s: s.str.slice(1, 2)),
    ("slice from the end", lambda s: s.str.slice(-2), lambda s: s.str.slice(-2)),
    ("slice of the end", lambda s: s.str.slice(-3, 2), lambda s: s.str.slice(-3, 2)),
    ("slice of nothing", lambda s: s.str.slice(1, 0), lambda s: s.str.slice(1, 0)),
    ("strip", lambda s: s.str.strip(), lambda s: s.str.strip_chars()),
    ("strip some", lambda s: s.str.strip("a "), lambda s: s.str.strip_chars("a ")),
    ("replace", lambda s: s.str.replace("[aA]", "_"), lambda s: s.str.replace_all("[aA]", "_")),
    (
        "replace plainly",
        lambda s: s.str.replace(",", ".", literal=True),
        lambda s: s.str.replace_all(",", ".", literal=True),
    ),
    ("join", lambda s: s + "!" + s, lambda s: s + "!" + s),
    ("compare", lambda s: s >= "b", lambda s: s >= "b"),
    ("upper", lambda s: s.str.upper(), lambda s: s.str.to_uppercase()),
    ("lower", lambda s: s.str.lower(), lambda s: s.str.to_lowercase()),
    ("fill_null", lambda s: s.fill_null("?"), lambda s: s.fill_null("?")),
]


@pytest.mark.parametrize(("name", "make", "other"), TEXT, ids=lambda one: one if isinstance(one, str) else "")
def test_text(name: str, make: Callable[[Any], Any], other: Callable[[Any], Any]) -> None:
    """Arrow maps letters of the same number only: "ß" stays, and "İ" has no dot above."""
    texts = [one for one in TEXTS if name not in ("upper", "lower") or one not in ("ß", "İ")]

    @settings(max_examples=tries(60))
    @given(
        st.lists(st.none() | st.sampled_from(texts), min_size=1, max_size=8).filter(
            lambda one: any(v is not None for v in one)
        )
    )
    def test(s: list[Any]) -> None:
        assert ours(make(S), s=s) == theirs(other(pl.col("s")), s=pl.Series(s, dtype=pl.String))

    test()


PARTS = {
    "year": "year",
    "quarter": "quarter",
    "month": "month",
    "day": "day",
    "dayofyear": "ordinal_day",
    "hour": "hour",
    "minute": "minute",
    "second": "second",
}
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_dates(unit: str) -> None:
    begin = datetime(1970, 1, 1, tzinfo=UTC)
    last = 2**33 if unit == "ns" else 10**11

    @settings(max_examples=tries(60))
    @given(st.lists(st.integers(-(2**33) if unit == "ns" else -(10**10), last), min_size=1, max_size=6))
    def test(seconds: list[int]) -> None:
        x = [value * PER_SECOND[unit] for value in seconds]
        dates = ps.col("x").from_epoch(unit).dt
        for name, other in PARTS.items():
            wanted = theirs(getattr(pl.from_epoch(pl.col("x"), time_unit=unit).dt, other)(), x=x)
            assert ours(getattr(dates, name)(), x=x) == wanted, name
        assert ours(dates.weekday(), x=x) == [(begin + timedelta(seconds=one)).weekday() for one in seconds]

    test()


def test_days_and_dates_in_text() -> None:
    assert ours(X.from_epoch("D").dt.dayofyear(), x=[0, 364, 365]) == [1, 365, 1]
    found = ours(S.str.to_datetime("%Y-%m-%d %H:%M").dt.minute(), s=["2024-02-29 10:59", None])
    assert found == [59, None]
    assert ours(S.str.to_datetime("%Y-%m-%d").dt.day(), s=["2024-2-1", "2024-02-29", "2024-3-02"]) == [1, 29, 2]


@pytest.mark.parametrize("text", ["2024-02-30", "2023-02-29", "2024-04-31", "2024-13-01", "2024-01-01x", "", "1 May"])
def test_what_is_no_date(text: str) -> None:
    with pytest.raises(ps.PlanError, match=f"'{text}' is no date such as %Y-%m-%d"):
        ours(S.str.to_datetime("%Y-%m-%d"), s=["2024-01-01", text, "2024-01-01"])
    with pytest.raises(ps.PlanError, match="'0000-01-01' lies outside of the years 1 to 9999"):
        ours(S.str.to_datetime("%Y-%m-%d"), s=["2024-01-01", "0000-01-01"])
    with pytest.raises(ps.PlanError, match="'2024-01-01 10:00:61' is no date"):
        ours(S.str.to_datetime("%Y-%m-%d %H:%M:%S"), s=["2024-01-01 10:00:61"])


@pytest.mark.parametrize(
    ("value", "unit"),
    [(2**63 - 1, "s"), (-(2**63), "us"), (253_402_300_800, "s"), (-62_135_596_801, "s"), (10**9, "D")],
)
def test_dates_out_of_range(value: int, unit: str) -> None:
    with pytest.raises(ps.PlanError, match=rf"{value} {unit} since 1970 lies outside of the years 1 to 9999"):
        ours(X.from_epoch(unit).dt.year(), x=[value])


def test_codes_are_those_of_pandas() -> None:
    pd = pytest.importorskip("pandas")
    kinds = pd.Categorical(["b", "a", None, "c", "b"], categories=["c", "b", "a"])
    assert ours(S.codes(kinds.categories), s=["b", "a", None, "c", "b"]) == [
        None if n < 0 else n for n in kinds.codes.tolist()
    ]
    assert ours(X.codes([7, 3]), x=[3, 7, 3]) == [1, 0, 1]
    assert ours(X.codes([0.0, 1.0]), x=[-0.0, 1.0, 0.0]) == [0, 1, 0]
    with pytest.raises(ps.PlanError, match="'d' is none of 2 categories"):
        ours(S.codes(["a", "b"]), s=["a", "d"])
    with pytest.raises(ps.PlanError, match="each once"):
        S.codes(["a", "a"])
    with pytest.raises(ps.PlanError, match="cannot be computed"):
        ours(S.codes([1]), s=["a"])


def test_conditions() -> None:
    chosen = ps.when(X > 2).then("large").when(X > 1).then(S).otherwise("small")
    other = (
        pl.when(pl.col("x") > 2)
        .then(pl.lit("large"))
        .when(pl.col("x") > 1)
        .then(pl.col("s"))
        .otherwise(pl.lit("small"))
    )
    columns = {"x": [3, 2, 1, None], "s": ["a", "b", "c", "d"]}
    assert ours(chosen, **columns) == theirs(other, **columns) == ["large", "b", "small", "small"]
    assert ours(ps.when(X > 2).then(X), x=[1, 3]) == [None, 3]
    assert ours(ps.when(X > 1).then(1.5).otherwise(X), x=[1, 3]) == [1.0, 1.5]
    assert ours(ps.when(X > 1).then(X > 2).otherwise(False), x=[1, 2, 3]) == [False, False, True]


def test_what_is_not_chosen_need_not_be_possible() -> None:
    assert ours(ps.when(Y != 0).then(X // Y).otherwise(-1), x=[7, 8], y=[0, 3]) == [-1, 2]
    parsed = ps.when(S.str.contains("^[0-9]+$")).then(S.cast("int64"))
    assert ours(parsed, s=["12", "n/a", None, "7"]) == [12, None, None, 7]
    with pytest.raises(ps.PlanError, match="a whole number is divided by 0"):
        ours(ps.when(X > 0).then(X // Y).otherwise(-1), x=[7, 8], y=[3, 0])


CASTS = [
    ([1, -1, None], "float32", [1.0, -1.0, None]), ([1.9, -1.9], "int8", [1, -1]), ([0.0, 2.5], "bool", [False, True]), ([True, False], "int64", [1, 0]),
    (["1", "-2", None], "int16", [1, -2, None]), (["1.5", "nan", "1e3"], "float64", [1.5, math.nan, 1000.0]), (["true", "false"], "bool", [True, False]),
    ([1, None], "string", ["1", None]), ([True], str, ["true"]), ([1e300], np.float32, [math.inf]), ([2**53 + 1], float, [2.0**53]), ([255], "uint8", [255]),
]  # fmt: skip


@pytest.mark.parametrize(("values", "dtype", "wanted"), CASTS)
def test_casts(values: list[Any], dtype: Any, wanted: list[Any]) -> None:
    assert_close(ours(X.cast(dtype), x=values), wanted, 0)


BAD_CASTS = [
    ([1, 300], "uint8", "300 is no uint8"), ([1, -1], "uint64", "-1 is no uint64"), ([math.nan], "int64", "nan is no int64"), ([math.inf], "int32", "inf is no int32"),
    ([2.0**63], "int64", "9.22.*e[+]18 is no int64"), (["1", "x"], "int64", "'x' is no int64"), ([" 1"], "int64", "' 1' is no int64"), (["1,5"], "float64", "'1,5' is no float64"),
    (["300"], "uint8", "'300' is no uint8"), (["", "1"], "int64", "'' is no int64"),
]  # fmt: skip


@pytest.mark.parametrize(("values", "dtype", "message"), BAD_CASTS)
def test_what_a_type_does_not_hold(values: list[Any], dtype: str, message: str) -> None:
    with pytest.raises(ps.PlanError, match=message):
        ours(X.cast(dtype), x=values)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: X.cast("int7"), r"cast: no type 'int7'; there are bool, int8.*did you mean 'int"),
        (lambda: X.cast(None).cast("complex64"), "no type"),
        (lambda: X.round(-1), "round"),
        (lambda: X.log(0), "log"),
        (X.clip, "clip"),
        (lambda: X.from_epoch("h"), "one of D, s, ms, us, ns"),
        (lambda: S.str.slice("a"), "whole numbers"),
        (lambda: S.str.contains(1), "pass text"),
        (lambda: ps.when(True), "when"),
        (lambda: ps.lit([1]), "no value of a column"),
    ],
)
def test_arguments_are_checked(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ps.PlanError, match=message):
        make()


@pytest.mark.parametrize(
    "expression",
    [X + S, S.abs(), X.str.lower(), X.dt.year(), S.from_epoch("s"), S.str.contains("["), ps.when(X).then(1).otherwise(0), ps.when(X > 1).then("a").otherwise(1),
     ps.when(X > 1).then(X > 1).otherwise(1), S.log(), X.fill_nan("a"), X.clip("a"), X.fill_null("a"), S + 1, X.str.to_datetime("%Y")],
    ids=repr,
)  # fmt: skip
def test_types_that_do_not_fit(expression: Expression) -> None:
    with pytest.raises(ps.PlanError, match="cannot be computed"):
        ours(expression, x=[1, 2], s=["a", "b"])


def test_texts_of_expressions_are_what_one_writes() -> None:
    written = [
        "col('x').clip(None, 3)", "col('s').str.slice(1, 2)", "col('x').from_epoch('s').dt.year()", "col('x').cast('float32')", "col('x').fill_null(col('y'))",
    ]  # fmt: skip
    for text in written:
        assert repr(eval(text, {"col": ps.col})) == text  # our own text
    assert repr(ps.when(X > 1).then("a").otherwise(Y)) == "when((col('x') > 1)).then(lit('a')).otherwise(col('y'))"
