"""What the footer of a Parquet file says of its row groups' columns: how many values and nulls, between which bytes.

pyarrow ends the process where this part of a footer is damaged, so it is read here. A footer is a Thrift struct in the compact
protocol: https://github.com/apache/parquet-format and https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

#: Larger footers are not read: in Python that would take seconds.
_FOOTER_BYTES = 4 << 20
_MAGIC = b"PAR1"
#: Structs inside structs; Parquet has no more than six.
_DEPTH = 16

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_VARINTS = (4, 5, 6)

#: The fields that are kept, by number; of a list, those of its members. None: the whole value.
_Wanted = Mapping[int, Any]
_ANY: _Wanted = dict.fromkeys(range(16))
_STATISTICS: _Wanted = {1: None, 2: None, 3: None, 5: None, 6: None}
_COLUMN: _Wanted = {3: {1: None, 3: None, 5: None, 12: _STATISTICS}}
_FOOTER: _Wanted = {4: {1: _COLUMN, 3: None}, 7: _ANY}


@dataclass(frozen=True)
class ColumnChunk:
    """A column of a row group: Parquet's number of its type, its values with nulls, and what is said of them.

    nulls: None where it is not said. low, high: as the column stores a value; None where it is not said. ordered: whether they are bounds in the order
    of the column's type; otherwise old ones, which compare bytes as signed numbers.
    """

    type: int
    values: int
    nulls: int | None = None
    low: bytes | None = None
    high: bytes | None = None
    ordered: bool = False


@dataclass(frozen=True)
class RowGroup:
    """A row group: its rows, and the chunks of the columns that were asked for, by the path of names."""

    rows: int
    columns: Mapping[tuple[str, ...], ColumnChunk]


def read_row_groups(file: pa.NativeFile, names: Collection[str]) -> list[RowGroup] | None:
    """All row groups of a file, with the columns of these names and what lies inside them.

    None for a footer that is too large, or is none as far as can be seen here: what to say of that is for pyarrow, which reads it as well.
    """
    footer = _footer(file)
    try:
        return None if footer is None else _row_groups(_Struct(footer).read(_FOOTER), names)
    except (pa.ArrowInvalid, IndexError, KeyError, TypeError, AttributeError, UnicodeError):
        return None


def _footer(file: pa.NativeFile) -> bytes | None:
    size = file.size()
    if size < 12:
        return None
    file.seek(size - 8)
    end = file.read(8)
    length = int.from_bytes(end[:4], "little")
    if end[4:] != _MAGIC or length > min(size - 12, _FOOTER_BYTES):
        return None
    file.seek(size - 8 - length)
    return bytes(file.read(length))


def _row_groups(footer: Mapping[int, Any], names: Collection[str]) -> list[RowGroup]:
    orders = footer.get(7, [])
    groups = []
    for group in footer[4]:
        columns = {}
        for number, column in enumerate(group[1]):
            path = tuple(name.decode() for name in column[3][3])
            if path[0] in names:
                # An order is a union whose first field means: as the type says.
                columns[path] = _chunk(column[3], ordered=len(orders) == len(group[1]) and 1 in orders[number])
        groups.append(RowGroup(_of(int, group[3]), columns))
    return groups


def _chunk(column: Mapping[int, Any], *, ordered: bool) -> ColumnChunk:
    said = column.get(12, {})
    ordered = ordered and 5 in said and 6 in said
    low, high = (6, 5) if ordered else (2, 1)
    return ColumnChunk(
        _of(int, column[1]),
        _of(int, column[5]),
        _of(int | None, said.get(3)),
        _of(bytes | None, said.get(low)),
        _of(bytes | None, said.get(high)),
        ordered,
    )


def _of(kind: Any, value: Any) -> Any:
    if not isinstance(value, kind):
        raise pa.ArrowInvalid(f"{value!r} in a footer, where {kind} is wanted")
    return value


class _Struct:
    """A struct of the compact protocol, as a dict by the numbers of its fields; IndexError or ArrowInvalid for what is none."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def read(self, wanted: _Wanted | None, depth: int = 0) -> dict[int, Any]:
        """The wanted fields; all others are passed over."""
        if depth > _DEPTH:
            raise pa.ArrowInvalid("a footer of structs inside structs")
        found: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._number()
            kind = head & 15
            if wanted is not None and number in wanted:
                found[number] = kind == _TRUE if kind <= _FALSE else self._value(kind, wanted[number], depth + 1)
            elif kind > _FALSE:
                self._value(kind, None, depth + 1)
        return found

    def _value(self, kind: int, wanted: _Wanted | None, depth: int) -> Any:
        if kind in _VARINTS:
            return self._number()
        if kind == _BINARY:
            return self._bytes(self._varint())
        if kind == _STRUCT:
            return self.read(wanted, depth)
        if kind in (_LIST, _SET):
            return self._list(wanted, depth)
        if kind == _MAP:
            return self._map(depth)
        if kind in (_TRUE, _FALSE, _BYTE):  # a truth value in a list is a byte
            return self._byte()
        if kind == _DOUBLE:
            return self._bytes(8)
        raise pa.ArrowInvalid(f"byte {self._at:,} of the footer: no value is of kind {kind}")

    def _list(self, wanted: _Wanted | None, depth: int) -> list[Any]:
        if depth > _DEPTH:
            raise pa.ArrowInvalid("a footer of lists inside lists")
        head = self._byte()
        count = head >> 4 if head >> 4 < 15 else self._varint()
        self._check(count)
        return [self._value(head & 15, wanted, depth + 1) for _ in range(count)]

    def _map(self, depth: int) -> None:
        if depth > _DEPTH:
            raise pa.ArrowInvalid("a footer of maps inside maps")
        count = self._varint()
        self._check(count)
        kinds = self._byte() if count else 0
        for _ in range(count):
            self._value(kinds >> 4, None, depth + 1)
            self._value(kinds & 15, None, depth + 1)

    def _check(self, count: int) -> None:
        """Every value takes a byte at least."""
        if count > len(self._data) - self._at:
            raise pa.ArrowInvalid(f"byte {self._at:,} of the footer: {count:,} values do not fit into it")

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _bytes(self, length: int) -> bytes:
        self._check(length)
        self._at += length
        return self._data[self._at - length : self._at]

    def _varint(self) -> int:
        value = self._byte()
        if value < 128:
            return value
        value &= 127
        for shift in range(7, 70, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise pa.ArrowInvalid(f"byte {self._at:,} of the footer: a number without an end")

    def _number(self) -> int:
        """A signed number: 0, -1, 1 and -2 are written as 0, 1, 2 and 3."""
        value = self._varint()
        return value >> 1 ^ -(value & 1)
