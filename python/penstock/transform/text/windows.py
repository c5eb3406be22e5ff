"""Rows of tokens as windows that overlap: several rows for one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.arguments import check_whole, hold_as_int, is_whole
from penstock.core.columns.spec import Ids
from penstock.core.errors import DataError, PlanError
from penstock.core.messages import quoted


@dataclass(frozen=True)
class Windows:
    """Rows of tokens as windows of so many tokens, a function for `flat_map`: what tokenizers of Hugging Face call overflowing tokens, `truncation=True, max_length=…, stride=…, return_overflowing_tokens=True`.

    Each window begins `length` less `stride` tokens, and less those of `begin` and `end`, behind the one before. The last one ends where the row does. A row that fits is one window, also one without tokens, or that is null. Other columns of a row are those of each of its windows, so that a key says which row a window is of.

    Args:
        length: tokens of a window at most, `begin` and `end` included.
        stride: tokens that two windows of a row share. Default: 0.
        columns: what is cut, one column or several that lie side by side: tokens first, then `offsets` or `type_ids` of `Tokenize`. Default: "tokens".
        begin: the id of a token before each window; then leave it out of `Tokenize(add_special_tokens=False)`. Other columns get 0. Default: None.
        end: the id of a token behind each window. Default: None.

    Returns:
        The function, for `Dataset.flat_map`.

    Raises:
        PlanError: for numbers that make no windows; from a Loader, for a column that is not there, or no rows of numbers.
        DataError: from a Loader, for columns whose rows have other lengths than the first one's.

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

    def __post_init__(self) -> None:
        """Checks what was said; PlanError."""
        check_whole("Windows", length=self.length)
        hold_as_int(self, "length")
        columns = (self.columns,) if isinstance(self.columns, str) else self.columns
        is_names = isinstance(columns, (tuple, list)) and all(isinstance(name, str) for name in columns)
        if not is_names or not columns or len({*columns}) < len(columns):
            raise PlanError(f"Windows: columns={quoted(self.columns)}; give the columns of tokens, each once")
        object.__setattr__(self, "columns", tuple(columns))
        for word, value in (("begin", self.begin), ("end", self.end)):
            if value is not None and (not is_whole(value) or isinstance(value, bool) or value < 0):
                raise PlanError(f"Windows: {word}={quoted(value)}; pass the id of a token")
        if not is_whole(self.stride) or isinstance(self.stride, bool) or not 0 <= self.stride < self._room:
            raise PlanError(
                f"Windows: stride={quoted(self.stride)}; pass a whole number from 0 to {self._room - 1}: a window has {self._room} tokens of its row"
                if self._room > 0
                else f"Windows: length={self.length} leaves no room beside begin= and end=; give more"
            )

    @property
    def _room(self) -> int:
        """Tokens of the row in a window."""
        return self.length - (self.begin is not None) - (self.end is not None)

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """The windows of some rows."""
        found = {name: _lists(name, batch) for name in self.columns}
        lengths = _lengths(found)
        step = self._room - self.stride
        counts = 1 + np.maximum(0, -(-(lengths - self._room) // step))
        row = np.repeat(np.arange(len(lengths)), counts)
        first = step * _within(counts)
        sizes = np.minimum(self._room, lengths[row] - first)
        first += (np.cumsum(lengths) - lengths)[row]
        around = (self.begin, self.end)
        made: dict[str, Any] = {}
        for name, column in found.items():
            made[name] = _cut(column, first, sizes, row, around)
            around = (None if self.begin is None else 0, None if self.end is None else 0)
        return {name: made[name] if name in made else _taken(column, row) for name, column in batch.items()}


def _lengths(columns: Mapping[str, pa.Array]) -> Ids:
    """Of the rows of all of these columns; DataError where one has others."""
    lengths: dict[str, Ids] = {
        name: column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        for name, column in columns.items()
    }
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


def _lists(name: str, batch: Mapping[str, Any]) -> pa.Array:
    """A column as lists; PlanError for what is none."""
    if name not in batch:
        raise PlanError(f"Windows: no column {quoted(name)}; there are {', '.join(batch)}; say columns=")
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


def _cut(column: pa.Array, first: Ids, sizes: Ids, row: Ids, around: tuple[int | None, int | None]) -> pa.Array:
    """Rows of a column's values, `sizes` of them from `first` on, with numbers around. row: of which row each is."""
    values = column.flatten()
    zero = [0] * values.type.list_size if pa.types.is_fixed_size_list(values.type) else 0
    begin, end = around
    added = [zero if one == 0 else one for one in around if one is not None]
    values = pa.concat_arrays([values, pa.array(added, values.type)])
    lengths = sizes + len(added)
    edges = np.concatenate([[0], np.cumsum(lengths)])
    places = np.repeat(first - (begin is not None), lengths) + _within(lengths)
    if begin is not None:
        places[edges[:-1]] = len(values) - len(added)
    if end is not None:
        places[edges[1:] - 1] = len(values) - 1
    missing: npt.NDArray[np.bool_] | None = None
    if column.null_count:
        missing = np.asarray(column.is_null().to_numpy(zero_copy_only=False))[row]
    mask = None if missing is None else pa.array(missing)
    return pa.LargeListArray.from_arrays(pa.array(edges), values.take(pa.array(places)), mask=mask)
