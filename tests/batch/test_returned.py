"""Lists, ragged arrays, tensors and inner dicts that users' functions return."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
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
