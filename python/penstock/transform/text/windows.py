"""Rows of tokens as windows that overlap: several rows for one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.arguments import check_texts, check_whole, hold_as_int, is_whole
from penstock.core.columns.spec import Ids
from penstock.core.errors import DataError, PlanError
from penstock.core.messages import quoted


@dataclass(frozen=True)
class Windows:
    """Rows of tokens as windows of so many tokens, a function for `flat_map`: what tokenizers of Hugging Face call overflowing tokens, `truncation=True, max_length=…, stride=…, return_overflowing_tokens=True`.

    With `before` each window stands behind the tokens of a second column, which are not cut, as a question before each part of an article: `truncation="only_second"`.

    Each window begins `length` less `stride` tokens, and less those that stand around it, behind the one before. The last one ends where the row does. A row that fits is one window, also one without tokens, or that is null. Other columns of a row are those of each of its windows, so that a key says which row a window is of.

    Args:
        length: tokens of a window at most, all that stands around it included.
        stride: tokens that two windows of a row share. Default: 0.
        columns: what is cut, one column or several that lie side by side: tokens first, then `offsets` or `type_ids` of `Tokenize`. Default: "tokens".
        begin: the id of a token before each window; then leave it out of `Tokenize(add_special_tokens=False)`. Other columns get 0. Default: None.
        end: the id of a token behind each window. Default: None.
        before: the column of tokens that stand before each window of their row, behind `begin`. Default: None.
        between: the id of a token between those and the window, or several, `[2, 2]` of RoBERTa for example. Default: (), none.
        type_ids: a new column for which of both a token is of: uint8, 0 up to `between`, 1 from the window on. Default: None.

    Returns:
        The function, for `Dataset.flat_map`.

    Raises:
        PlanError: for numbers that make no windows; from a Loader, for a column that is not there, or no rows of numbers.
        DataError: from a Loader, for columns whose rows have other lengths than the first one's, and where `before` leaves no room for windows, or is null.

    Example:
        import penstock as ps
        import pyarrow as pa

        rows = ps.from_arrays({"tokens": pa.array([[1, 2, 3, 4, 5], [6]]), "row": [0, 1]})
        windows = rows.flat_map(ps.text.Windows(3, stride=1)).batch(3, steps=1, lanes=1).head()
        windows["tokens"].to_pylist()  # [[1, 2, 3], [3, 4, 5], [6]]
        windows["row"].tolist()  # [0, 0, 1]
    """

    length: int
    _: KW_ONLY
    stride: int = 0
    columns: str | Sequence[str] = "tokens"
    begin: int | None = None
    end: int | None = None
    before: str | None = None
    between: int | Sequence[int] = ()
    type_ids: str | None = None

    def __post_init__(self) -> None:
        """Checks what was said; PlanError."""
        check_whole("Windows", length=self.length)
        hold_as_int(self, "length")
        columns = (self.columns,) if isinstance(self.columns, str) else self.columns
        is_names = isinstance(columns, (tuple, list)) and all(isinstance(name, str) for name in columns)
        if not is_names or not columns or len({*columns}) < len(columns):
            raise PlanError(f"Windows: columns={quoted(self.columns)}; give the columns of tokens, each once")
        object.__setattr__(self, "columns", tuple(columns))
        self._check_ids()
        self._check_second()
        if not is_whole(self.stride) or isinstance(self.stride, bool) or not 0 <= self.stride < self._room:
            raise PlanError(
                f"Windows: stride={quoted(self.stride)}; pass a whole number from 0 to {self._room - 1}: a window has {self._room} tokens of its row"
                if self._room > 0
                else f"Windows: length={self.length} leaves no room beside begin=, between= and end=; give more"
            )

    def _check_ids(self) -> None:
        """PlanError for what is no id of a token; `between` becomes a tuple."""
        between = self.between if isinstance(self.between, (tuple, list)) else (self.between,)
        ends = {"begin": self.begin, "end": self.end}
        for word, value in [
            *((word, one) for word, one in ends.items() if one is not None),
            *(("between", one) for one in between),
        ]:
            if not is_whole(value) or isinstance(value, bool) or value < 0:
                raise PlanError(f"Windows: {word}={quoted(getattr(self, word))}; pass the id of a token")
        object.__setattr__(self, "between", tuple(map(int, between)))

    @property
    def _between(self) -> tuple[int, ...]:
        return (self.between,) if isinstance(self.between, int) else tuple(self.between)

    def _check_second(self) -> None:
        """PlanError for columns of pairs that do not fit together."""
        names = {word: name for word in ("before", "type_ids") if (name := getattr(self, word)) is not None}
        check_texts("Windows", **names)
        if self.before is None and (self.type_ids is not None or self._between):
            raise PlanError(
                "Windows: between= and type_ids= are of pairs; give before=, the column of tokens of the first texts"
            )
        said = [*self.columns, *names.values()]
        if len({*said}) < len(said):
            raise PlanError(f"Windows: one name for two columns, among {', '.join(said)}; give each its own")

    @property
    def _room(self) -> int:
        """Tokens of the row in a window, of pairs those of both texts."""
        return self.length - (self.begin is not None) - len(self._between) - (self.end is not None)

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """The windows of some rows."""
        found = {name: _lists(name, batch, "columns") for name in self.columns}
        if self.type_ids in batch:
            raise PlanError(
                f"Windows: type_ids={quoted(self.type_ids)}, a column that there is already; give another name"
            )
        tokens = found[self.columns[0]]
        lengths = _lengths(found)
        is_null = np.asarray(tokens.is_null().to_numpy(zero_copy_only=False))
        fronts = None if self.before is None else _lists(self.before, batch, "before")
        taken = np.zeros_like(lengths) if fronts is None else np.where(is_null, 0, _sizes(fronts))
        if fronts is not None:
            self._check_rows(is_null, fronts, lengths, taken)
        room = self._room - taken
        step = np.maximum(1, room - self.stride)
        counts = 1 + np.maximum(0, -(-(lengths - room) // step))
        row = np.repeat(np.arange(len(lengths)), counts)
        first = step[row] * _within(counts)
        window = (first + _starts(lengths)[row], np.minimum(room[row], lengths[row] - first))

        ahead = [_fixed([] if self.begin is None else [self.begin], len(row))]
        if fronts is not None:
            ahead += [(fronts.flatten(), _starts(_sizes(fronts))[row], taken[row]), _fixed(self._between, len(row))]
        behind = [_fixed([] if self.end is None else [self.end], len(row))]
        made: dict[str, Any] = {}
        for name, column in found.items():
            parts = [*ahead, (column.flatten(), *window), *behind]
            made[name] = _joined(parts, column.type.value_type, is_null[row])
            ahead, behind = [*map(_blank, ahead)], [*map(_blank, behind)]  # beside the tokens
        if self.type_ids is not None:
            zeros = sum((one[2] for one in ahead), np.zeros(len(row), np.int64))
            ones = sum((one[2] for one in behind), window[1])
            made[self.type_ids] = _kinds(zeros, ones, is_null[row])
        return {name: made[name] if name in made else _taken(batch[name], row) for name in {**batch, **made}}

    def _check_rows(self, is_null: npt.NDArray[np.bool_], fronts: pa.Array, lengths: Ids, taken: Ids) -> None:
        """DataError for the first row that lacks what stands before its windows, or has no room for them."""
        is_missing = ~is_null & np.asarray(fronts.is_null().to_numpy(zero_copy_only=False))
        if is_missing.any():
            raise DataError(
                f"Windows: row {int(is_missing.argmax())} of {len(lengths)} has no {quoted(self.before)}; fill it or leave the row out"
            )
        room = self._room - taken
        is_full = (lengths > room) & (room <= self.stride)
        if is_full.any():
            row = int(is_full.argmax())
            raise DataError(
                f"Windows: column {quoted(self.before)} of row {row} of {len(lengths)} has {taken[row]:,} tokens, so that {max(0, room[row]):,} of length={self.length:,} are left for a window, not more than stride={self.stride}; cut it by Tokenize(max_length=…), or give a greater length"
            )


def _lengths(columns: Mapping[str, pa.Array]) -> Ids:
    """Of the rows of all of these columns; DataError where one has others."""
    lengths: dict[str, Ids] = {name: _sizes(column) for name, column in columns.items()}
    first = next(iter(lengths))
    for name, own in lengths.items():
        if len(others := np.flatnonzero(own != lengths[first])):
            raise DataError(
                f"Windows: columns {quoted(first)} and {quoted(name)} have rows of other lengths, {lengths[first][others[0]]:,} and {own[others[0]]:,}; name columns whose values lie side by side"
            )
    return lengths[first]


def _taken(column: Any, row: Ids) -> Any:
    """Rows of a column."""
    is_arrow = isinstance(column, (pa.Array, pa.ChunkedArray))
    return column.take(pa.array(row)) if is_arrow else np.asarray(column)[row]


def _within(counts: Ids) -> Ids:
    """0, 1, … for each of counts."""
    return np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)


def _lists(name: str, batch: Mapping[str, Any], word: str) -> pa.Array:
    """A column as lists; PlanError for what is none."""
    if name not in batch:
        raise PlanError(f"Windows: no column {quoted(name)}; there are {', '.join(batch)}; say {word}=")
    column = batch[name]
    if isinstance(column, np.ndarray) and column.ndim > 1:
        edges = pa.array(np.arange(len(column) + 1) * column.shape[1])
        inner = pa.array(np.ascontiguousarray(column).reshape(-1))
        if column.ndim == 3:  # pairs of numbers
            inner = pa.FixedSizeListArray.from_arrays(inner, column.shape[2])
        return pa.LargeListArray.from_arrays(edges, inner)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if not isinstance(column, pa.Array) or not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
        kind = getattr(column, "type", None) or getattr(column, "dtype", type(column).__name__)
        raise PlanError(f"Windows: column {quoted(name)} is {kind}; give it rows of tokens, as Tokenize makes them")
    return column


def _sizes(column: pa.Array) -> Ids:
    """How many values each row has; 0 where it is null."""
    sizes: Ids = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return sizes


def _starts(sizes: Ids) -> Ids:
    """Where rows begin that lie one behind the other."""
    return np.cumsum(sizes) - sizes


#: A stretch of each row to be made: from which values, from where on, and how many.
_Part: TypeAlias = tuple[Any, Ids, Ids]


def _fixed(ids: Sequence[int], rows: int) -> _Part:
    """The same in every row."""
    return ids, np.zeros(rows, np.int64), np.full(rows, len(ids))


def _blank(part: _Part) -> _Part:
    """As many zeros."""
    return [0] * int(part[2].max(initial=0)), np.zeros_like(part[1]), part[2]


def _joined(parts: Sequence[_Part], dtype: pa.DataType, nulls: npt.NDArray[np.bool_]) -> pa.Array:
    """Rows of these stretches, one behind the other in each."""
    is_pairs = pa.types.is_fixed_size_list(dtype)
    pools = list[pa.Array]()
    for values, _, _ in parts:
        if isinstance(values, pa.Array):
            pools.append(values.cast(dtype))
        else:
            pools.append(pa.array([[one] * dtype.list_size for one in values] if is_pairs else values, dtype))
    at = _starts(np.array([len(pool) for pool in pools]))
    sizes = np.stack([one[2] for one in parts], axis=1)
    starts = np.stack([one[1] for one in parts], axis=1) + at
    places = np.repeat(starts.ravel(), sizes.ravel()) + _within(sizes.ravel())
    edges = np.concatenate([[0], np.cumsum(sizes.sum(axis=1))])
    values = pa.concat_arrays(pools).take(pa.array(places))
    return _rows(values, edges, nulls)


def _kinds(ahead: Ids, behind: Ids, nulls: npt.NDArray[np.bool_]) -> pa.Array:
    """Rows of so many zeros, and so many ones behind them."""
    kinds = np.repeat(np.tile(np.array([0, 1], np.uint8), len(ahead)), np.stack([ahead, behind], axis=1).ravel())
    return _rows(pa.array(kinds), np.concatenate([[0], np.cumsum(ahead + behind)]), nulls)


def _rows(values: pa.Array, edges: Ids, nulls: npt.NDArray[np.bool_]) -> pa.Array:
    mask = pa.array(nulls) if nulls.any() else None
    return pa.LargeListArray.from_arrays(pa.array(edges), values, mask=mask)
