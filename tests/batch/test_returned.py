"""Lists, ragged arrays, tensors and inner dicts that users' functions return."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import torch

import penstock as ps

RAGGED = [[1, 2], [], [3]]


def mapped(made: Any, verb: str = "map") -> Any:
    rows = verb == "map_rows"
    function = (lambda row: {"x": made[int(row["id"])]}) if rows else (lambda _: {"x": made})
    dataset = getattr(ps.from_arrays({"id": np.arange(3)}), verb)(function)
    with ps.Loader(dataset.batch(3, **({"steps": 1} if verb == "flat_map" else {}), lanes=1)) as loader:
        return next(iter(loader))["x"]


@pytest.mark.parametrize("verb", ["map", "map_rows"])
@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (RAGGED, pa.int64()),
        ([[1.5], [2], []], pa.float64()),
        ([[True], [], [False, True]], pa.bool_()),
        ([["a", "b"], [], ["c"]], pa.large_string()),
        ([[b"a"], [], [b"b", b""]], pa.large_binary()),
        ([[], [], []], pa.int64()),
        ([[1, 2], [3, 4], [5, 6]], pa.int64()),
        ([[1], [None], []], pa.int64()),
        ([[[1], []], [], [[2, 3]]], pa.large_list(pa.int64())),
        ([np.array(row, np.int32) for row in RAGGED], pa.int32()),
        ([torch.tensor(row, dtype=torch.float32) for row in RAGGED], pa.float32()),
        ([pa.array(row, pa.int16()) for row in RAGGED], pa.int16()),
    ],
)
def test_lists_are_ragged_columns(made: Any, kind: pa.DataType, verb: str) -> None:
    """Lists stay lists, however long they are, so that a column is of one type in every batch."""
    found = mapped(made, verb)
    assert found.type == pa.large_list(kind)
    assert found.to_pylist() == [[*map(_plain, row)] for row in made]


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value.as_py() if isinstance(value, pa.Scalar) else value


def test_object_arrays_are_ragged_even_where_all_are_of_one_length() -> None:
    for lengths in ((1, 2, 0), (2, 2, 2)):
        rows = np.empty(3, dtype=object)
        rows[:] = [np.ones(length, np.float32) for length in lengths]
        assert mapped(rows).to_pylist() == [[1.0] * length for length in lengths]


@pytest.mark.parametrize("verb", ["map", "map_rows"])
@pytest.mark.parametrize(
    "made",
    [[np.ones(2), np.ones(2), np.ones(2)], [torch.ones(2)] * 3, [(1, 2), (3, 4), (5, 6)], [torch.tensor(1.0)] * 3],
)
def test_arrays_of_one_shape_are_one_array(made: Any, verb: str) -> None:
    found = mapped(made, verb)
    assert isinstance(found, np.ndarray)
    assert found.tolist() == [np.asarray(row).tolist() for row in made]


def test_boxes() -> None:
    found = mapped([np.ones((rows, 4), np.float32) for rows in (2, 0, 1)])
    assert found.type == pa.large_list(pa.list_(pa.float32(), 4))


@pytest.mark.parametrize("verb", ["map", "map_rows", "flat_map"])
def test_inner_dicts_have_dotted_names(verb: str) -> None:
    """As those of items and of Arrow's structs."""
    one = 1 if verb == "map_rows" else [1]
    dataset = getattr(ps.from_arrays({"id": np.arange(1)}), verb)(lambda _: {"a": {"b": one, "c": {"d": one}}})
    batch = next(iter(ps.Loader(dataset.batch(1, **({"steps": 1} if verb == "flat_map" else {})))))
    assert {name: column.tolist() for name, column in batch.items()} == {"a.b": [1], "a.c.d": [1]}


def test_arrow_columns_that_come_back_keep_their_type() -> None:
    """Whether a batch has a null decides nothing."""
    data = ps.from_arrays({"x": pa.array([1, 2, None, 4])}, nulls="arrow").map(lambda batch: {**batch, "n": batch["x"]})
    assert [(type(batch["x"]), type(batch["n"])) for batch in ps.Loader(data.batch(2))] == [(pa.Int64Array,) * 2] * 2


def test_text_that_is_missing_in_a_whole_batch() -> None:
    data = ps.from_arrays({"t": ["a", "b", None, None]}, nulls="arrow").map(lambda batch: batch, text="list")
    assert [batch["t"].to_pylist() for batch in ps.Loader(data.batch(2))] == [["a", "b"], [None, None]]


# Whole numbers

HASHES = [2**63 + 1, 3, 2**63 + 5, 2**53 + 1]


@pytest.mark.parametrize(
    "row",
    [
        lambda number: HASHES[number],
        lambda number: np.uint64(HASHES[number]) if number % 2 == 0 else HASHES[number],
        lambda number: np.array(HASHES[number], np.uint64 if number % 2 == 0 else np.int64),
        lambda number: (HASHES[number],),
        lambda number: np.full(number, HASHES[number], np.uint64 if number % 2 == 0 else np.int64),
    ],
)
def test_whole_numbers_of_rows_stay_whole(row: Any) -> None:
    """Two ids do not become one float."""
    with ps.Loader(ps.from_arrays({"id": np.arange(4)}).map_rows(lambda one: {"x": row(one["id"])}).batch(4)) as loader:
        found = next(iter(loader))["x"]
    rows = [np.atleast_1d(row(number)).tolist() for number in range(4)]
    kind = found.type.value_type if isinstance(found, pa.Array) else found.dtype
    assert str(kind) == "uint64"
    assert [np.atleast_1d(one).tolist() for one in found.tolist()] == rows


@pytest.mark.parametrize("many", [False, True])
def test_whole_numbers_that_no_type_holds(many: bool) -> None:
    rows: list[Any] = [2**63, -1, 0]
    rows = (
        [np.full(number, row, np.uint64 if row > 0 else np.int64) for number, row in enumerate(rows, 1)]
        if many
        else rows
    )
    with pytest.raises(
        ps.PlanError, match=r"^map_rows\(.*\): column 'x' is a mix of numbers below 0 and from 2\*\*63 on"
    ):
        mapped(rows, "map_rows")


@pytest.mark.parametrize("verb", ["map", "map_rows"])
@pytest.mark.parametrize(
    ("made", "message"),
    [
        (["a", "\ud800", None], r"column 'x' has text that is no Unicode: surrogates not allowed in .*; encode it first"),
        ([[2**63 + 1, 1], [1], []], r"column 'x' holds lists with whole numbers from 2\*\*63 on.*pyarrow.array\(row, pyarrow.uint64\(\)\)"),
    ],
)  # fmt: skip
def test_what_arrow_refuses_is_said_with_function_and_column(made: Any, message: str, verb: str) -> None:
    with pytest.raises(ps.PlanError, match=rf"^{verb}\(.*\): {message}"):
        mapped(made, verb)


def test_a_surrogate_in_an_array_of_text() -> None:
    with pytest.raises(ps.PlanError, match="column 'x' has text that is no Unicode"):
        mapped(np.array(["a", "\udfff", "b"]))


# Nulls

IDS = 2**60 + np.arange(24)


def with_a_null(batch: dict[str, Any]) -> dict[str, Any]:
    return {"x": pa.array([None if number == IDS[9] else number for number in batch["id"].tolist()], pa.int64())}


def ids() -> ps.Dataset:
    return ps.from_arrays({"id": IDS})


NULLS: dict[str, Any] = {
    "map": lambda: ids().map(with_a_null).batch(8),
    "batch": lambda: ids().batch(8).map(with_a_null),
    "processes": lambda: ids().batch(8).map(with_a_null, workers="process"),
    "flat_map": lambda: ids().flat_map(with_a_null, rows=4).batch(8, steps=3, lanes=2),
    "flat_map of one lane": lambda: ids().shuffle(seed=0).flat_map(with_a_null, rows=4).batch(8, steps=3, lanes=8),
    "cache": lambda: ids().map(with_a_null).cache().batch(8),
    "concat": lambda: ps.concat([ids().map(with_a_null)] * 2).shuffle(seed=0).batch(8),
    "mix": lambda: ps.mix([ids().map(with_a_null)] * 2, weights=[1, 1]).shuffle(seed=0).batch(8),
}


@pytest.mark.parametrize(
    "case", [pytest.param(name, marks=pytest.mark.long) if name == "processes" else name for name in NULLS]
)
def test_a_null_among_numbers_decides_no_form(case: str) -> None:
    """Arrow numbers become arrays; a null is an error with function and column, before rows of several calls meet."""
    verb, loader, seen = "flat_map" if "flat" in case else "map", ps.Loader(NULLS[case](), epochs=1), list[type]()
    with pytest.raises(ps.PlanError, match=rf"^{verb}\(with_a_null\): column 'x' has 1 of . numbers null.*fill_null"):
        seen.extend(type(batch["x"]) for batch in loader)
    loader.close()
    assert {*seen} <= {np.ndarray}


def test_filled_as_the_error_says() -> None:
    def filled(batch: dict[str, Any]) -> dict[str, Any]:
        return {"x": pc.fill_null(with_a_null(batch)["x"], 0)}

    for dataset in (ids().map(filled).batch(8), ids().flat_map(filled, rows=4).batch(8, steps=3, lanes=1)):
        with ps.Loader(dataset, epochs=1) as loader:
            found = np.concatenate([batch["x"] for batch in loader])
        assert found.tolist() == [0 if number == IDS[9] else number for number in IDS.tolist()]


TABLE = pa.table(
    {
        "n": pa.array([None if row % 2 else 2**60 + row for row in range(8)], pa.int64()),
        "f": pa.array([None if row % 2 else row / 3 for row in range(8)], pa.float32()),
        "t": [None if row % 2 else f"text {row}" for row in range(8)],
        "l": pa.array([None if row % 2 else [row, None] for row in range(8)], pa.list_(pa.int16())),
        "d": pa.array([None if row % 2 else row for row in range(8)], pa.date32()),
    }
)


@pytest.mark.parametrize("rows", [1, 2, 8])
def test_unchanged_columns_keep_their_type_row_by_row(rows: int) -> None:
    """Whatever is null in a batch: all, some or nothing."""
    opened = ps.from_arrays(TABLE, nulls="arrow")

    def all_of(dataset: ps.Dataset) -> list[dict[str, Any]]:
        with ps.Loader(dataset, epochs=1) as loader:
            return [dict(batch) for batch in loader]

    def shown(batch: dict[str, Any]) -> dict[str, Any]:
        return {name: (str(column.type), column.to_pylist()) for name, column in batch.items()}

    plain = [shown(batch) for batch in all_of(opened.batch(rows))]
    for then in (dict, lambda row: {**row}):
        assert [shown(batch) for batch in all_of(opened.batch(rows).map_rows(then))] == plain
    for dataset in (
        ps.concat([opened.map_rows(dict)] * 2).batch(rows),
        opened.map_rows(dict).cache().batch(rows),
    ):
        assert [shown(batch) for batch in all_of(dataset)][: len(plain)] == plain


def test_kept_rows_of_arrow_numbers_are_as_they_were_made() -> None:
    """A filter, and rows that never came from the cache, behind and beside it."""
    opened = ps.from_arrays(TABLE.select(["n"]), nulls="arrow").map(dict)
    kept = ps.concat([opened.cache(), opened]).filter(lambda batch: np.ones(len(batch["n"]), bool))
    with ps.Loader(kept.batch(4, steps=4, lanes=1), epochs=2) as loader:
        for _ in range(2):
            assert [number for batch in loader for number in batch["n"].to_pylist()] == TABLE["n"].to_pylist() * 2


def test_computed_numbers_beside_nulls() -> None:
    """NumPy's numbers are an array whatever came in, and numbers of another kind cannot be null."""
    opened = ps.from_arrays(TABLE.select(["n"]), nulls="arrow").batch(2)

    def first(then: Any) -> Any:
        with ps.Loader(opened.map_rows(lambda row: {"n": then(row["n"])})) as loader:
            return next(iter(loader))["n"]

    assert first(lambda number: np.int64(number or 0)).tolist() == [2**60, 0]
    assert first(lambda number: number or 0).type == pa.int64()
    assert first(lambda number: number / 2 if number else 0.5).tolist() == [2**59, 0.5]
    with pytest.raises(ps.PlanError, match=r"column 'n' is NoneType of dtype object in row 1; .*float"):
        first(lambda number: number and number / 2)
    with pytest.raises(ps.PlanError, match="column 'n' came as Arrow's int64, and does not fit it now"):
        first(lambda number: number and number + 2**63)


def test_a_kept_column_and_a_computed_one_do_not_meet_silently() -> None:
    opened = ps.from_arrays(TABLE.select(["n"]), nulls="arrow")
    filled = opened.map(lambda batch: {"n": pc.fill_null(batch["n"], 0)})
    with pytest.raises(ps.PlanError, match=r"concat: column 'n' is int64 or null in dataset . and int64 in dataset|is int64 in dataset . and int64 or null"):  # fmt: skip
        next(iter(ps.Loader(ps.concat([opened.map(dict), filled]).shuffle(seed=0).batch(16))))


@pytest.mark.parametrize("made", [[None] * 3, pa.nulls(3)])
def test_columns_of_nothing_but_none_get_the_inputs_type_or_an_error(made: Any) -> None:
    with pytest.raises(ps.PlanError, match=r"map\(.*\): column 'x' .*pyarrow.nulls\(rows, pyarrow.large_string\(\)\)"):
        mapped(made)
    for name, kind in (("t", pa.large_string()), ("l", pa.large_list(pa.int16()))):
        opened = ps.from_arrays(TABLE.slice(0, 3), nulls="arrow").map(lambda _, name=name: {name: made})
        with ps.Loader(opened.batch(3)) as loader:
            assert next(iter(loader))[name].type == kind
