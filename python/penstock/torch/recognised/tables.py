"""Rows of Arrow tables by their numbers, as PyTorch's default_collate gives the items that Hugging Face makes of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import torch

from penstock.core import kernels
from penstock.core.columns.spec import Bytes, Ids
from penstock.core.messages import quoted
from penstock.core.verbs.options import Column
from penstock.torch.recognised.hugging_face import ItemTable, Shown, is_list
from penstock.torch.recognised.transforms import NotKnown


@dataclass(frozen=True)
class PieceRows:
    """Rows of tables that lie in pieces: row i of all is row `rows[i]` of piece `pieces[which[i]]`."""

    pieces: list[int]
    which: Ids
    rows: Ids

    @cached_property
    def ones(self) -> Ids:
        """A one for each row."""
        return np.ones(len(self.rows), dtype=np.int64)


class TableRows:
    """Rows of tables that follow one another. NotKnown for missing values, which Hugging Face gives in other dtypes."""

    def __init__(self, tables: Sequence[ItemTable]) -> None:
        self.columns = tables[0].columns
        names = [one.name for one in self.columns]
        parts = [part for one in tables for part in one.table.select(names).to_batches()]
        self._ends = np.cumsum([len(part) for part in parts])
        self._begins = self._ends - [len(part) for part in parts]
        self._readers = {one.name: _reader(one, [part.column(one.name) for part in parts]) for one in self.columns}

    def __len__(self) -> int:
        return int(self._ends[-1])

    def where(self, rows: Ids) -> PieceRows:
        """Where rows lie."""
        parts = np.searchsorted(self._ends, rows, side="right")
        pieces, which = np.unique(parts, return_inverse=True)
        return PieceRows(pieces.tolist(), which, rows - self._begins[parts])

    def batch(self, rows: Ids) -> dict[str, Any] | None:
        """Rows as default_collate gives them; None for lists that differ in length, of which it makes an error."""
        made = dict[str, Any]()
        for shown, values in self._values(rows):
            if isinstance(values, _Lists) and not values.are_alike:
                return None
            made[shown.name] = values.collated(shown.form) if isinstance(values, _Lists) else values
        return made

    def _values(self, rows: Ids) -> Iterator[tuple[Shown, torch.Tensor | list[Any] | _Lists]]:
        """Each column of some rows: numbers in the dtype of its items, text, lists."""
        where = self.where(rows)
        for shown in self.columns:
            values = self._readers[shown.name].take(where)
            if isinstance(values, tuple):
                flat, lengths = values
                yield shown, _Lists(torch.from_numpy(flat).to(shown.dtype), lengths)
            else:
                yield shown, values if isinstance(values, list) else torch.from_numpy(values).to(shown.dtype)

    # For `from_dataset`

    def __getitem__(self, row: int) -> dict[str, Any]:
        return self.__getitems__([row])

    def __getitems__(self, rows: Sequence[int]) -> dict[str, Any]:
        """Columns of some rows: arrays, lists of text, and lists of arrays."""
        made = dict[str, Any]()
        for shown, values in self._values(np.asarray(rows, dtype=np.int64)):
            if isinstance(values, _Lists):
                made[shown.name] = np.split(values.flat.numpy(), np.cumsum(values.lengths)[:-1])
            else:
                made[shown.name] = values.numpy() if isinstance(values, torch.Tensor) else values
        return made

    @property
    def asked(self) -> dict[str, Column]:
        """The columns for `from_dataset`: those whose lists differ in length are ragged."""
        readers = self._readers.items()
        ragged = {name for name, one in readers if isinstance(one, _ListReader) and one.is_ragged}
        return {name: Column(feature=name, shape=(None,) if name in ragged else None) for name, _ in readers}


@dataclass(frozen=True)
class _Lists:
    """Lists of numbers, one after the other."""

    flat: torch.Tensor
    lengths: Ids

    @property
    def are_alike(self) -> bool:
        """Whether they are of one length."""
        return bool((self.lengths == self.lengths[0]).all())

    def collated(self, form: str) -> torch.Tensor | list[torch.Tensor]:
        """One tensor with a list a row; of Python's lists, a tensor for each place in them."""
        tensor = self.flat.reshape(len(self.lengths), int(self.lengths[0]))
        return list(tensor.T.contiguous().unbind()) if form == "python" else tensor


# One column


class _Buffers:
    """The second buffer of Arrow arrays: their values, or where their lists begin."""

    def __init__(self, arrays: Sequence[pa.Array]) -> None:
        self._arrays = arrays
        self._views: list[Bytes | None] = [None] * len(arrays)
        self._first = np.array([len(one) and one.offset for one in arrays], dtype=np.int64)

    def first(self, where: PieceRows) -> Ids:
        """Where the arrays begin in their buffers, for each row."""
        return self._first[where.pieces][where.which]

    def join(self, where: PieceRows, begin: Ids, count: Ids, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """`count[i]` values from value `begin[i]` on, of the piece in which row i lies."""
        out = np.empty(int(count.sum()), dtype)
        if out.size:
            views, width = [self._view(piece) for piece in where.pieces], out.itemsize
            kernels.join_spans(views, where.which, begin * width, count * width, out.view(np.uint8))
        return out

    def _view(self, piece: int) -> Bytes:
        view = self._views[piece]
        if view is None:
            view = self._views[piece] = np.frombuffer(self._arrays[piece].buffers()[1] or b"", dtype=np.uint8)
        return view


class _NumberReader:
    def __init__(self, arrays: Sequence[pa.Array]) -> None:
        self._buffers = _Buffers(arrays)
        self._dtype = np.dtype(arrays[0].type.to_pandas_dtype())

    def take(self, where: PieceRows) -> npt.NDArray[Any]:
        begin = self._buffers.first(where) + where.rows
        if self._dtype != np.bool_:
            return self._buffers.join(where, begin, where.ones, self._dtype)
        bits = self._buffers.join(where, begin >> 3, where.ones, np.uint8)
        values: npt.NDArray[Any] = (bits >> (begin & 7) & 1).astype(np.bool_)
        return values


class _TextReader:
    """Text and bytes. NumPy, by which Hugging Face makes items of other formats than Python's, drops zeros at their end."""

    def __init__(self, arrays: Sequence[pa.Array], form: str) -> None:
        self._arrays, self._form = arrays, form

    def take(self, where: PieceRows) -> list[Any]:
        pieces = [self._arrays[piece] for piece in where.pieces]
        found = [
            pieces[which][row].as_py() for which, row in zip(where.which.tolist(), where.rows.tolist(), strict=True)
        ]
        if self._form == "python":
            return found
        is_bytes = isinstance(found[0], bytes)
        found = [one.rstrip(b"\0" if is_bytes else "\0") for one in found]
        return found if self._form == "torch" else [*map(np.bytes_ if is_bytes else np.str_, found)]


class _ListReader:
    def __init__(self, arrays: Sequence[pa.Array]) -> None:
        self._kind, self._arrays = arrays[0].type, arrays
        values = [one.values for one in arrays]
        if any(one.null_count for one in values):
            raise NotKnown("missing values in lists")
        self._rows, self._values = _Buffers(arrays), _Buffers(values)
        self._dtype = np.dtype(self._kind.value_type.to_pandas_dtype())

    @property
    def is_ragged(self) -> bool:
        """Whether lists differ in length."""
        ends = [pc.min_max(pc.list_value_length(one)).as_py() for one in self._arrays if len(one)]
        return len({length for one in ends for length in one.values()}) > 1

    def take(self, where: PieceRows) -> tuple[npt.NDArray[Any], Ids]:
        row = self._rows.first(where) + where.rows
        if pa.types.is_fixed_size_list(self._kind):
            begin, lengths = row * self._kind.list_size, where.ones * self._kind.list_size
        else:
            width = np.int64 if pa.types.is_large_list(self._kind) else np.int32
            edges = self._rows.join(where, row, where.ones * 2, width).astype(np.int64).reshape(-1, 2)
            begin, lengths = edges[:, 0], edges[:, 1] - edges[:, 0]
        return self._values.join(where, begin + self._values.first(where), lengths, self._dtype), lengths


_Reader: TypeAlias = _NumberReader | _TextReader | _ListReader


def _reader(shown: Shown, arrays: Sequence[pa.Array]) -> _Reader:
    if any(one.null_count for one in arrays):
        raise NotKnown(f"column {quoted(shown.name)} has missing values")
    if shown.dtype is None:
        return _TextReader(arrays, shown.form)
    if not is_list(shown.kind):
        return _NumberReader(arrays)
    try:
        return _ListReader(arrays)
    except NotKnown as error:
        raise NotKnown(f"column {quoted(shown.name)} has {error}") from None
