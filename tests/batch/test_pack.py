"""Packing: against a few lines of Python that say what best fit and concatenation are, over lengths, dtypes, columns, groups and cuts."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.batch.pack import Packed, pack_window
from penstock.core import kernels
from penstock.core.columns.ragged import edges_of, lists_of
from penstock.core.columns.spec import Field
from penstock.core.errors import PlanError, RowError
from penstock.core.verbs.packing import Packing
from support.tries import TRIES, tries

#: Of every piece: its row, how many of the row's tokens come before it, how many it has.
Piece = tuple[int, int, int]

LENGTH = 8
lengths_of_rows = st.lists(st.integers(0, 20), max_size=40)
over_longs = st.sampled_from(["split", "truncate"])


def packing(**more: Any) -> Packing:
    return Packing(**{"columns": ("tokens",), "length": LENGTH, **more})


def rows_of(lengths: list[int], dtype: str = "int32", inner: tuple[int, ...] = ()) -> pa.Array:
    """Rows of numbers that are all different, so that a token says where it comes from."""
    size = int(np.prod(inner))
    return lists_of((np.arange(sum(lengths) * size) + 1).astype(dtype), edges_of(lengths), inner)


def pieces_of(rows: range, lengths: list[int], over_long: str) -> list[Piece]:
    kept = {row: min(lengths[row], LENGTH) if over_long == "truncate" else lengths[row] for row in rows}
    return [
        (row, start, min(LENGTH, count - start)) for row, count in kept.items() for start in range(0, count, LENGTH)
    ]


def best_fit(pieces: list[Piece]) -> list[list[Piece]]:
    """The longest first, each to where the least room is left: of several such sequences, to the one that came to its room last."""
    sequences: list[dict[str, Any]] = []
    for turn, piece in enumerate(sorted(pieces, key=lambda piece: (-piece[2], piece[:2]))):
        fitting = [sequence for sequence in sequences if sequence["room"] >= piece[2]]
        if not fitting:
            sequences.append({"room": LENGTH, "turn": turn, "pieces": []})
            fitting = sequences[-1:]
        chosen = min(fitting, key=lambda sequence: (sequence["room"], -sequence["turn"]))
        chosen.update(room=chosen["room"] - piece[2], turn=turn, pieces=sorted([*chosen["pieces"], piece]))
    return sorted(sequence["pieces"] for sequence in sequences)


def concatenated(pieces: list[Piece]) -> list[list[Piece]]:
    """Token by token: a new sequence every LENGTH."""
    tokens = [(row, start + token) for row, start, count in pieces for token in range(count)]
    sequences = []
    for first in range(0, len(tokens), LENGTH):
        part = tokens[first : first + LENGTH]
        rows = dict.fromkeys(row for row, _ in part)
        begins = {row: min(token for other, token in part if other == row) for row in rows}
        sequences.append([(row, begins[row], sum(other == row for other, _ in part)) for row in rows])
    return sequences


def shown(sequences: list[list[Piece]], values: list[list[Any]], padding: Any = 0) -> dict[str, list[list[Any]]]:
    """The columns of sequences, one value at a time."""
    found: dict[str, list[list[Any]]] = {"tokens": [], "segment_ids": [], "position_ids": [], "loss_mask": []}
    for pieces in sequences:
        tokens = [values[row][start + token] for row, start, count in pieces for token in range(count)]
        left = LENGTH - len(tokens)
        found["tokens"].append([*tokens, *[padding] * left])
        numbers = [number for number, piece in enumerate(pieces, 1) for _ in range(piece[2])]
        found["segment_ids"].append([*numbers, *[0] * left])
        found["position_ids"].append([*(token for piece in pieces for token in range(piece[2])), *[0] * left])
        found["loss_mask"].append([True] * len(tokens) + [False] * left)
    return found


def lists(packed: Packed) -> dict[str, list[Any]]:
    return {name: column.tolist() for name, column in packed.columns.items()}


@given(lengths=lengths_of_rows, cuts=st.lists(st.integers(0, 40), max_size=3), over_long=over_longs)
@settings(max_examples=tries(2_000, at_least=20), deadline=None)
def test_best_fit_is_what_it_says(lengths: list[int], cuts: list[int], over_long: Any) -> None:
    edges = [0, *sorted(min(cut, len(lengths)) for cut in cuts), len(lengths)]
    groups = [range(first, end) for first, end in itertools.pairwise(edges)]
    column = rows_of(lengths)
    packed = pack_window({"tokens": column}, packing(over_long=over_long), [len(group) for group in groups], threads=2)
    wanted = [best_fit(pieces_of(group, lengths, over_long)) for group in groups]
    assert packed.sequences.tolist() == [len(sequences) for sequences in wanted]
    sequences = [sequence for of_group in wanted for sequence in of_group]
    assert lists(packed) == shown(sequences, column.to_pylist())
    assert packed.rows.tolist() == [row for sequence in sequences for row, _, _ in sequence]
    assert packed.edges.tolist() == np.cumsum([0, *map(len, sequences)]).tolist()
    assert (packed.used.tolist(), packed.skip.tolist()) == ([len(group) for group in groups], [0] * len(groups))


@pytest.mark.slow
@given(lengths=lengths_of_rows, data=st.data(), over_long=over_longs)
@settings(max_examples=tries(2_000 if TRIES >= 1_000 else 1_000, at_least=20), deadline=None)
def test_concat_over_any_cuts_gives_the_same_sequences(lengths: list[int], data: st.DataObject, over_long: Any) -> None:
    """Rows come in any pieces, of two groups side by side; what an engine must remember is (row, skip)."""
    column, asked = rows_of(lengths), packing(strategy="concat", over_long=over_long, padding_value=-1)
    middle = data.draw(st.integers(0, len(lengths)))
    ends, at, skip = (middle, len(lengths)), [0, middle], [0, 0]
    met: list[dict[str, list[Any]]] = [{}, {}]
    while at[0] < ends[0] or at[1] < ends[1]:
        counts = [data.draw(st.integers(0, end - row)) for row, end in zip(at, ends, strict=True)]
        is_last = [row + count == end for row, count, end in zip(at, counts, ends, strict=True)]
        given_rows = pa.concat_arrays([column.slice(row, count) for row, count in zip(at, counts, strict=True)])
        skips = [tokens if count else 0 for tokens, count in zip(skip, counts, strict=True)]
        packed = pack_window({"tokens": given_rows}, asked, counts, skip=skips, is_last=is_last)
        first = 0
        for group in range(2):
            if counts[group]:
                at[group], skip[group] = at[group] + int(packed.used[group]), int(packed.skip[group])
            end = first + int(packed.sequences[group])
            for name, values in packed.columns.items():
                met[group].setdefault(name, []).extend(values[first:end].tolist())
            first = end
    for group, rows in enumerate((range(middle), range(middle, len(lengths)))):
        wanted = shown(concatenated(pieces_of(rows, lengths, over_long)), column.to_pylist(), padding=-1)
        assert {name: met[group].get(name, []) for name in wanted} == wanted


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "int64", "float16", "float32", "float64"])
@pytest.mark.parametrize("strategy", ["best_fit", "concat"])
def test_columns_of_every_dtype_side_by_side(dtype: str, strategy: Any) -> None:
    lengths = [3, 0, 13, 2, 5, 7]
    tokens, labels, boxes = rows_of(lengths), rows_of(lengths, dtype), rows_of(lengths, dtype, (2, 3))
    asked = packing(columns=("tokens", "labels", "boxes"), strategy=strategy, padding_value=(("labels", 1),))
    columns = {"tokens": tokens, "labels": labels, "boxes": boxes, "text": pa.array(["left out"] * 6)}
    packed = pack_window(columns, asked, [6])
    assert [*packed.columns] == ["tokens", "labels", "boxes", "segment_ids", "position_ids", "loss_mask"]
    assert packed.spec == asked.spec_of(
        {name: Field(dtype, (None,)) for name in ("labels",)}
        | {"tokens": Field("int32", (None,)), "boxes": Field(dtype, (None, 2, 3))}
    )
    for name, column in packed.columns.items():
        assert (column.dtype, column.shape[1:]) == (packed.spec[name].numpy_dtype, packed.spec[name].shape)
    mask, where = packed.columns["loss_mask"], packed.columns["tokens"]
    flat = np.arange(30 * 6).reshape(30, 2, 3)
    assert mask.sum() == 30
    assert np.array_equal(packed.columns["labels"][mask], where[mask].astype(dtype))
    assert np.array_equal(packed.columns["boxes"][mask], (flat + 1)[where[mask] - 1].astype(dtype))
    assert (packed.columns["labels"][~mask] == 1).all()
    assert not packed.columns["boxes"][~mask].any()


def test_dense_rows_and_slices_pack_alike() -> None:
    """A token source gives arrays, and rows of a column may be a part of a longer one."""
    dense = np.arange(1, 16, dtype=np.uint16).reshape(5, 3)
    ragged = rows_of([7, 3, 3, 3, 3, 3, 2], "uint16").slice(1, 5)
    shifted = pa.LargeListArray.from_arrays(ragged.offsets, pc_subtract(ragged.values, 7))
    small = shifted.cast(pa.list_(pa.uint16()))
    fixed = pa.array(dense.tolist(), pa.list_(pa.uint16(), 3))
    views = pa.array([[99], *dense.tolist()], pa.list_view(pa.uint16())).slice(1)
    found = [lists(pack_window({"tokens": column}, packing(), [5])) for column in (dense, shifted, small, fixed, views)]
    assert found[0]["tokens"] == [[1, 2, 3, 4, 5, 6, 0, 0], [7, 8, 9, 10, 11, 12, 0, 0], [13, 14, 15, 0, 0, 0, 0, 0]]
    assert all(one == found[0] for one in found)


def pc_subtract(values: pa.Array, number: int) -> pa.Array:
    return pa.array((values.to_numpy().astype(np.int64) - number).astype(np.uint16))


def test_nothing_packs_to_nothing() -> None:
    empty = pa.array([], pa.large_list(pa.int32()))
    for column, groups in ((empty, []), (empty, [0, 0]), (rows_of([0, 0]), [2])):
        packed = pack_window({"tokens": column}, packing(), groups)
        assert packed.columns["tokens"].shape == (0, LENGTH)
        assert packed.sequences.tolist() == [0] * len(groups)


@pytest.mark.parametrize(("mean", "spread", "least"), [(400, 0.8, 0.98), (1_200, 0.8, 0.98)])
@pytest.mark.parametrize("length", [2_048])
def test_sequences_are_full(mean: int, spread: float, least: float, length: int) -> None:
    """Lognormal lengths from 16 to 2,048, as of articles, and with many long ones."""
    drawn = np.random.default_rng(0).lognormal(np.log(mean) - spread**2 / 2, spread, 20_000)
    lengths = np.clip(drawn, 16, length).astype(np.int64)
    column = lists_of(np.zeros(lengths.sum(), np.uint16), edges_of(lengths))
    packed = pack_window({"tokens": column}, packing(length=length), [1_000] * 20)
    assert packed.columns["loss_mask"].mean() > least


def test_rows_that_are_too_long_are_refused_by_name() -> None:
    with pytest.raises(
        RowError, match=r"row 1: column 'tokens' has 1,009 tokens, and a sequence 8; pass a larger"
    ) as error:
        pack_window({"tokens": rows_of([8, 1_009, 9])}, packing(over_long="refuse"), [3])
    assert error.value.row == 1


def test_columns_that_differ_are_refused_by_row() -> None:
    columns = {"tokens": rows_of([2, 3, 4]), "labels": rows_of([2, 3, 5])}
    with pytest.raises(RowError, match=r"row 2: column 'tokens' has 4 tokens and column 'labels' 5"):
        pack_window(columns, packing(columns=("tokens", "labels")), [3])
    columns["labels"] = columns["labels"].slice(0, 2)
    with pytest.raises(PlanError, match="3 rows of 'tokens' and 2 of 'labels'"):
        pack_window(columns, packing(columns=("tokens", "labels")), [3])


@pytest.mark.parametrize("nulls", [[[1], None], [[1], [2, None]]])
def test_nulls_are_refused_by_row(nulls: list[Any]) -> None:
    for kind in (pa.list_, pa.large_list):
        with pytest.raises(RowError, match=r"row 1: column 'tokens' holds a null"):
            pack_window({"tokens": pa.array(nulls, kind(pa.int64()))}, packing(), [2])
    pairs = pa.array([[[1, 2]], [[3, None]]], pa.large_list(pa.list_(pa.int64(), 2)))
    with pytest.raises(RowError, match=r"row 1: column 'tokens' holds a null"):
        pack_window({"tokens": pairs}, packing(), [2])


def test_nulls_outside_a_slice_are_nobodys() -> None:
    column = pa.array([None, [None, 1], [2, 3], None], pa.large_list(pa.int32())).slice(2, 1)
    assert pack_window({"tokens": column}, packing(), [1]).columns["tokens"].tolist() == [[2, 3, *[0] * 6]]


def test_a_state_of_other_data_is_refused() -> None:
    asked = packing(strategy="concat")
    with pytest.raises(RowError, match=r"row 1: 4 of its tokens are used already, and there are 3 tokens"):
        pack_window({"tokens": rows_of([2, 3])}, asked, [1, 1], skip=[0, 4])
    with pytest.raises(RowError, match="there are no row"):
        pack_window({"tokens": rows_of([2])}, asked, [1, 0], skip=[0, 4])


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"columns": ()}, r"columns=\(\); pass the names"),
        ({"columns": ("tokens", "tokens")}, "names one twice"),
        ({"columns": ("loss_mask",)}, "it makes a column 'loss_mask' itself"),
        ({"length": 0}, "length=0; it is a whole number from 1 to"),
        ({"length": 2.5}, "length=2.5"),
        ({"length": True}, "length=True"),
        ({"length": 1 << 30}, "length=1073741824"),
        ({"window": 0}, "window=0"),
        ({"strategy": "first_fit"}, "strategy='first_fit'; choose one of 'best_fit', 'concat'"),
        ({"over_long": "drop"}, "over_long='drop'; choose one of 'split', 'truncate', 'refuse'"),
        ({"padding_value": "0"}, "padding_value='0'; pass a number"),
        ({"padding_value": (("labels", 0),)}, "padding_value names 'labels', and the columns are tokens"),
    ],
)
def test_packings_that_cannot_be(more: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=f"pack: .*{message}|pack: {message}"):
        packing(**more)


@pytest.mark.parametrize(
    ("column", "more", "message"),
    [
        (pa.array(["text"]), {}, "column 'tokens' is string; a column of tokens holds a list of numbers"),
        (np.zeros(1), {}, "column 'tokens' is float64; a column of tokens"),
        (pa.array([[[1]]], pa.large_list(pa.large_list(pa.int32()))), {}, "column 'tokens' is int32"),
        (rows_of([1], "uint16"), {"padding_value": -100}, "padding_value=-100 is no uint16, which column 'tokens' is"),
        (rows_of([1], "int64"), {"padding_value": 0.5}, "padding_value=0.5 is no int64"),
        (rows_of([1], "int64"), {"columns": ("ids",)}, "no column 'ids'; there are tokens"),
    ],
)
def test_columns_that_cannot_be_packed(column: Any, more: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        pack_window({"tokens": column}, packing(**more), [1])


def test_arguments_that_do_not_fit_are_refused_natively() -> None:
    """What the caller would have to get wrong; nothing is read or written out of bounds."""
    ids = np.array([0, 1]), np.array([0, 0]), np.array([2, 2]), np.array([0, 2])
    for groups, length in (([3], 4), ([2, 1 << 62], 4), ([2], 0)):
        with pytest.raises(ValueError, match=r"groups|at least one token"):
            kernels.pack_best_fit(np.array([1, 1]), groups, length, False)
    with pytest.raises(ValueError, match="at least one token"):
        kernels.pack_concat(np.array([1, -1]), [(2, 0, True)], 4, False)
    with pytest.raises(ValueError, match="do not fill an output of 3"):
        kernels.fill_sequences(*ids, 4, [], 1, mask=np.zeros(3, np.uint8))
    values, edges, out = np.zeros(4, np.uint8), np.array([0, 2, 3]), np.zeros(4, np.uint8)
    with pytest.raises(ValueError, match="segment 1 does not lie in its row"):
        kernels.fill_sequences(*ids, 4, [(values, edges, 1, np.zeros(1, np.uint8), out)], 1)
    with pytest.raises(ValueError, match="sequence 0 has no room"):
        kernels.fill_sequences(*ids, 3, [], 1)
