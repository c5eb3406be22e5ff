"""Whether a predicate could be true within bounds: never False where it is true of a row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.core.columns.spec import Field
from penstock.plan.expression import Expression
from penstock.plan.expression_values import value_of
from penstock.plan.possibly_true import may_be_true
from support import cases
from support.promises import keep
from support.tries import tries

Draw = Callable[[st.SearchStrategy[Any]], Any]
FLOATS = st.floats(width=32) | st.sampled_from([0.0, -0.0, 0.1, 0.7, 2.0**24 + 1, 1e39, float("inf")])
VALUES = {
    "int64": st.integers(-5, 5) | st.sampled_from([2**63 - 1, -(2**63), 2**53 + 1]),
    "uint8": st.integers(0, 9),
    "float32": FLOATS,
    "float64": FLOATS | st.floats(),
    "string": st.text("abé\U0001f600", max_size=2),
    "bytes": st.binary(max_size=2),
}
LITERALS = {
    "int64": st.integers(-300, 300) | FLOATS,
    "uint8": st.integers(-300, 300),
    "float32": FLOATS | st.integers(-5, 5),
}
TEXTS = ("string", "bytes")


@st.composite
def predicates(draw: Draw, dtype: str, deep: int = 2) -> Expression:
    if deep and draw(st.booleans()):
        first, second = (draw(predicates(dtype, deep - 1)) for _ in range(2))
        return draw(st.sampled_from([first & second, first | second, ~first]))
    value = draw(LITERALS.get(dtype, VALUES[dtype]))
    compare = draw(st.sampled_from(["__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__", "is_in"]))
    if compare == "is_in":
        return ps.col("x").is_in(draw(st.lists(VALUES[dtype], max_size=3)))
    column = ps.col("x") if dtype in TEXTS or draw(st.integers(0, 5)) else ps.col("x") + 1
    return getattr(column, compare)(value)


@settings(max_examples=tries(3_000), deadline=None)
@given(data=st.data())
def test_never_false_of_a_row_for_which_it_is_true(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(sorted(VALUES)))
    predicate = data.draw(predicates(dtype))
    with np.errstate(all="ignore"):
        rows = data.draw(st.lists(VALUES[dtype], min_size=1, max_size=6))
        texts = {"string": pa.large_string(), "bytes": pa.large_binary()}
        column = pa.array(rows, texts[dtype]) if dtype in texts else np.array(rows).astype(dtype)
    known = [value for value in (column.to_pylist() if dtype in texts else column.tolist()) if value == value]
    if not known:
        return
    bounds = {"x": (min(known), max(known))}
    try:
        true = value_of(predicate, {"x": column})
    except ps.PlanError:
        return
    met = np.broadcast_to(true, len(rows)) & np.array(
        [value == value for value in column.tolist()] if dtype not in texts else True
    )
    if met.any():  # of a NaN nothing is said
        assert may_be_true(predicate, bounds, {"x": Field(dtype)})


def test_what_it_rules_out() -> None:
    spec, x = {"x": Field("int64")}, ps.col("x")
    bounds = {"x": (10, 20)}
    out = [
        x < 10,
        x <= 9,
        x > 20,
        x >= 21,
        x == 9,
        x < 9,
        x >= 21,
        x.is_in([1, 21]),
        x.between(21, 30),
        (x < 5) | (x > 25),
        (x > 12) & (x > 20),
    ]
    may = [
        x < 11,
        x <= 10,
        x > 19,
        x >= 20,
        x == 20,
        x != 15,
        ~(x < 30),
        x + 1 < 5,
        x.is_in([]),
        (x < 5) | (ps.col("y") > 3),
        x > 20.5,
    ]
    assert not any(may_be_true(one, bounds, spec) for one in out)
    assert all(may_be_true(one, bounds, spec) for one in may)


# Parquet


def parquet(columns: dict[str, Any], **options: Any) -> tuple[ps.Dataset, cases.MemoryStorage]:
    out = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), out, **{"row_group_size": 100, **options})
    storage = cases.MemoryStorage({"0.parquet": out.getvalue().to_pybytes()})
    return ps.read("0.parquet", storage=storage), storage


def test_row_groups_that_cannot_hold_a_row_are_not_read() -> None:
    noise = np.random.default_rng(0).random((4000, 100))
    columns = {
        "day": np.arange(4000) // 4,
        "noise": [row.tobytes() for row in noise],
        "key": np.random.default_rng(1).permutation(4000),
    }
    data, storage = parquet(columns, use_dictionary=False)
    storage.reads.clear()
    chosen = data.filter((ps.col("day") >= 900) & (ps.col("noise").len() > 10))
    some = sum(size for _, _, size in storage.reads)
    assert len(chosen) == 400
    storage.reads.clear()
    assert len(data.filter((ps.col("day") + 0 >= 900) & (ps.col("noise").len() > 10))) == 400
    assert some < sum(size for _, _, size in storage.reads) / 4
    with ps.Loader(chosen.batch(400)) as loader:
        (batch,) = map(keep, loader)
        assert loader.sample_ids(0, 0).tolist() == list(range(3600, 4000)), "ids are those of all rows"
    assert batch["key"].tolist() == columns["key"][3600:].tolist()


@settings(max_examples=tries(300), deadline=None)
@given(data=st.data())
def test_the_same_rows_as_of_memory(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(["int64", "uint8", "float32", "float64", "string"]))
    rows = data.draw(st.lists(VALUES[dtype], min_size=1, max_size=40))
    rows = sorted(rows) if data.draw(st.booleans()) else rows
    with np.errstate(all="ignore"):
        column = pa.array(rows) if dtype == "string" else np.array(rows).astype(dtype)
    options = {"row_group_size": data.draw(st.integers(1, 9)), "write_page_index": data.draw(st.booleans())}
    predicate = data.draw(predicates(dtype))
    lengths = []
    for made in (
        parquet({"x": column, "id": range(len(rows))}, **options)[0],
        ps.from_arrays({"x": column, "id": np.arange(len(rows))}),
    ):
        try:
            chosen = made.filter(predicate)
        except ps.PlanError as error:
            lengths.append(type(error))
            continue
        with ps.Loader(chosen.batch(64)) as loader:
            lengths.append([batch["id"].tolist() for batch in loader])
    assert lengths[0] == lengths[1]


@pytest.mark.parametrize("how", ["concat", "sorted", "typed", "default", "folders"])
def test_where_rows_are_not_as_files_say(how: str, tmp_path: Path) -> None:
    x = np.repeat(np.arange(8), 5) * 1.6
    pq.write_table(pa.table({"x": x, "id": range(40)}), tmp_path / "0.parquet", row_group_size=5)
    data = ps.read(tmp_path)
    wanted = [row for row in range(40) if x[row] > 8]
    if how == "concat":
        data, wanted = ps.concat([data, data.take(33)]), wanted + [row for row in wanted if row < 33]
    if how == "sorted":
        data = data.sort("id", descending=True)
        wanted = wanted[::-1]
    if how == "typed":
        data = ps.read(tmp_path, columns={"x": ps.Column(feature="x", dtype="float32"), "id": "id"})
    if how == "default":
        pq.write_table(
            pa.table({"x": [None, 1.0, 2.0, None], "id": range(4)}), tmp_path / "0.parquet", row_group_size=2
        )
        data = ps.read(tmp_path, columns={"x": ps.Column(feature="x", default=9.0), "id": "id"})
        wanted = [0, 3]
    if how == "folders":
        for year in (7, 9):
            (tmp_path / f"year={year}").mkdir()
            pq.write_table(
                pa.table({"x": x, "id": range(40)}), tmp_path / f"year={year}" / "0.parquet", row_group_size=5
            )
        (tmp_path / "0.parquet").unlink()
        data = ps.read(tmp_path).filter(ps.col("year") > 8)
    chosen = data.filter(ps.col("x") > 8)
    with ps.Loader(chosen.batch(len(chosen))) as loader:
        (batch,) = map(keep, loader)
    assert batch["id"].tolist() == wanted
