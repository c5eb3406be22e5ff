"""What the first objects of JSON say of their keys, and the columns that are made of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from penstock.core.columns.ragged import lists_of, texts_of
from penstock.core.columns.spec import Field, Spans
from penstock.core.errors import PlanError, RowError
from penstock.core.verbs.options import Column, Options
from penstock.source.dotted_names import Path, dotted, find, path_of
from penstock.source.records.native_columns import default_bytes
from penstock.source.selection import (
    FLOATS,
    INTEGERS,
    LATER,
    WHOLE,
    Selection,
    check_dtype,
    check_shape,
    no_column,
    null_rules,
)

_DTYPES = {"bool": "bool", "integer": "int64", "float": "float64", "text": "string"}
_KNOWN = (*WHOLE, *FLOATS, "string", "bytes")
#: Of each kind, the dtypes that it can become.
_BECOMES = {
    "bool": ("bool",),
    "integer": (*INTEGERS, *FLOATS),
    "float": FLOATS,
    "text": ("string", "bytes"),
    "null": _KNOWN,
}


@dataclass(frozen=True)
class ValueKind:
    """The values of one key.

    leaf: what they are: "bool", "integer", "float", "text", "null", "object" or "mixed". lengths: of lists, at each level, -1
    where it varies. least, most: the smallest and the largest whole number, and 0. missing: whether an object lacks the key, or has null there.
    """

    leaf: str
    lengths: tuple[int, ...] = ()
    least: int = field(default=0, compare=False)
    most: int = field(default=0, compare=False)
    missing: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return "lists of " * len(self.lengths) + self.leaf


def learn(lines: Iterable[bytes]) -> dict[Path, ValueKind]:
    """The kinds of values by path of keys. Bad lines are errors when they are due; RowError where the first one is no JSON object.

    learn([b'{"a": {"b": [1, 2]}}']) == {("a",): ValueKind("object"), ("a", "b"): ValueKind("integer", (2,))}
    """
    kinds: dict[Path, ValueKind] = {}
    there, objects = Counter[Path](), 0
    for number, line in enumerate(lines):
        try:
            value = _object(line)
        except ValueError as error:
            if not number:
                raise RowError(number, str(error), _remedy(error)) from None
            continue
        _learn_object(value, (), kinds, there)
        objects += 1
    return {path: replace(kind, missing=there[path] < objects) for path, kind in kinds.items()}


def _remedy(error: ValueError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "convert the file to UTF-8, for example with: iconv -f latin1 -t utf-8"
    if isinstance(error, _Unreadable):
        return "repair the line"
    return "write one object a line, for example with: jq -c . data.json > data.jsonl"


class _Unreadable(ValueError):
    """An object that nothing can be made of."""


def _object(line: bytes) -> dict[str, Any]:
    text = line.decode()
    try:
        value = json.loads(text)
    except RecursionError:
        raise _Unreadable("lists or objects that are nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError(f"the line is {_kind_of(value)} and no object")  # noqa: TRY004  # as of lines that are no JSON
    if "\\u" in text:
        _check_keys(value)
    return value


def _check_keys(value: Mapping[str, Any]) -> None:
    for key, inner in value.items():
        if any("\ud800" <= character <= "\udfff" for character in key):
            raise _Unreadable(f"the key {key!r} holds half a surrogate pair, which is no character")
        if isinstance(inner, dict):
            _check_keys(inner)


def _learn_object(value: Mapping[str, Any], path: Path, kinds: dict[Path, ValueKind], there: Counter[Path]) -> None:
    for key, inner in value.items():
        place = (*path, key)
        there[place] += inner is not None
        kind = _kind_of(inner)
        kinds[place] = _merge(kinds[place], kind) if place in kinds else kind
        if isinstance(inner, dict):
            _learn_object(inner, place, kinds, there)


def _kind_of(value: Any) -> ValueKind:
    if isinstance(value, list):
        inner = ValueKind("null")
        for number, item in enumerate(value):
            inner = _kind_of(item) if number == 0 else _merge(inner, _kind_of(item))
        return replace(inner, lengths=(len(value), *inner.lengths))
    if value is None:
        return ValueKind("null")
    if type(value) is int:
        return ValueKind("integer", least=min(0, value), most=max(0, value))
    names = {bool: "bool", float: "float", str: "text"}
    return ValueKind(names.get(type(value), "object"))


def _merge(one: ValueKind, other: ValueKind) -> ValueKind:
    if other.leaf == "null" and len(other.lengths) <= len(one.lengths):
        one, other = other, one
    if one.leaf == "null" and len(one.lengths) <= len(other.lengths):
        known = len(one.lengths)
        return replace(other, lengths=(*_lengths(one.lengths, other.lengths[:known]), *other.lengths[known:]))
    if len(one.lengths) != len(other.lengths):
        return ValueKind("mixed")
    leaf = one.leaf if one.leaf == other.leaf else "mixed"
    if {one.leaf, other.leaf} == {"integer", "float"}:
        leaf = "float"
    extent = min(one.least, other.least), max(one.most, other.most)
    return ValueKind(leaf, _lengths(one.lengths, other.lengths), *extent)


def _lengths(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a if a == b else -1 for a, b in zip(one, other, strict=True))


@dataclass(frozen=True)
class JsonColumn:
    """One column of a batch.

    path: the keys that lead to it. default: a row of numbers or a text, as bytes. raw: whether it is the JSON itself. is_sparse: whether the first
    objects lack it.
    """

    name: str
    path: tuple[str, ...]
    field: Field
    default: bytes | None
    raw: bool = False
    is_sparse: bool = False

    @property
    def can_be_null(self) -> bool:
        """Whether a missing value can be told from others; lists of any length are empty there instead."""
        return self.default is None and self.form in ("fixed", "text")

    @property
    def form(self) -> str:
        """How native code makes it; see `kernels.JsonParser`."""
        if self.raw:
            return "raw"
        if self.field.dtype in ("string", "bytes"):
            return "texts" if self.field.shape else "text"
        return "ragged" if None in self.field.shape else "fixed"

    @property
    def description(self) -> tuple[list[str], str, str, list[int], str, bytes | None]:
        """The column for `kernels.JsonParser`."""
        shape = [axis for axis in self.field.shape if axis is not None]
        return list(self.path), self.form, self.field.dtype, shape, str(self.field), self.default


def choose_columns(kinds: Mapping[Path, ValueKind], options: Options, where: str) -> tuple[JsonColumn, ...]:
    """The columns that the user wants; all keys that hold values, unless they are named.

    Raises PlanError for keys that are not there and for those that cannot be held without being told how.
    """
    offered = dotted(kinds.items())
    values = [name for name, (_, kind) in offered.items() if kind.leaf != "object" or kind.lengths]
    wanted = Selection(options.columns).columns(values)
    if not wanted:
        raise PlanError(f"{where}: no values in the first records; name the columns with dtype and shape")
    return tuple(_choose(name, column, offered, where) for name, column in wanted.items())


def _choose(name: str, column: Column, offered: Mapping[str, tuple[Path, ValueKind]], where: str) -> JsonColumn:
    found = find(column.feature, offered)
    if found is None and (column.dtype is None or column.shape is None or not _is_optional(column)):
        raise no_column(where, column.feature, offered, among="the first records", do=LATER)
    path, kind = found or (path_of(column.feature), ValueKind("null", (-1,) * len(column.shape or ())))
    raw = _is_raw(kind) and column.dtype == "string" and not column.shape
    made = Field("string") if raw else _field(name, column, kind, where)
    default = None
    if column.default is not None:
        if None in made.shape:
            raise PlanError(
                f"columns[{name!r}]: a list of any length is empty where the key is missing; leave the default away"
            )
        default = default_bytes(name, made, column.default)
    return JsonColumn(name, path, made, default, raw)


def _is_optional(column: Column) -> bool:
    return column.default is not None or None in (column.shape or ())


def _is_raw(kind: ValueKind) -> bool:
    """Whether the JSON itself can stand for such values as text: whatever is no column, and the digits of numbers."""
    return (
        kind.leaf in ("object", "mixed") or len(kind.lengths) > 1 or kind in (ValueKind("integer"), ValueKind("float"))
    )


def _field(name: str, column: Column, kind: ValueKind, where: str) -> Field:
    dtype = column.dtype or _dtype(column, kind, where)
    shape = _shape(kind) if column.shape is None else tuple(column.shape)
    if dtype is None or shape is None:
        raise PlanError(
            f"{where}: the key {column.feature!r} holds {kind} in the first records, which is no column by itself; leave it out "
            f'with columns=[…], or say what it is: penstock.Column(feature={column.feature!r}, dtype="string") takes its JSON'
            + (" where it holds objects or lists" if kind.leaf == "null" else "")
        )
    check_dtype(name, dtype, _KNOWN)
    possible = _BECOMES.get(kind.leaf, ())
    if dtype not in possible or (kind.leaf != "null" and len(shape) != len(kind.lengths)):
        raise PlanError(
            f"columns[{name!r}]: the key {column.feature!r} holds {kind}, which cannot become {Field(dtype, shape)}; "
            f"it can become {', '.join(possible) or 'its JSON (dtype string)'} with {len(kind.lengths)} axes"
        )
    check_shape(name, Field(dtype, shape))
    return Field(dtype, shape)


def _dtype(column: Column, kind: ValueKind, where: str) -> str | None:
    """The dtype that holds such values exactly; None where they are no column by themselves."""
    if kind.leaf != "integer" or (kind.least >= -(1 << 63) and kind.most < 1 << 63):
        return _DTYPES.get(kind.leaf)
    if kind.least == 0 and kind.most < 1 << 64:
        return "uint64"
    raise PlanError(
        f"{where}: the key {column.feature!r} holds whole numbers from {kind.least} to {kind.most} in the first records, which no "
        f"integer type holds; say what it is: penstock.Column(feature={column.feature!r}, dtype='float64') rounds them"
        + ("" if kind.lengths else ", dtype='string' takes their digits")
    )


def _shape(kind: ValueKind) -> tuple[int | None, ...] | None:
    """() for one value, (None,) for lists; lists of lists only where the inner ones are equally long."""
    if min(kind.lengths[1:], default=1) < 1 or (kind.leaf == "text" and len(kind.lengths) > 1):
        return None
    return (None, *kind.lengths[1:]) if kind.lengths else ()


def may_be_missing(
    columns: tuple[JsonColumn, ...], kinds: Mapping[Path, ValueKind], options: Options
) -> tuple[JsonColumn, ...]:
    """The columns, nullable where values are missing in the first objects, or something is to become of those that later ones lack."""
    rules = null_rules([column.name for column in columns], options.nulls, options.columns)

    def of(column: JsonColumn) -> JsonColumn:
        if not column.can_be_null:
            return column
        kind = kinds.get(column.path)
        is_sparse = kind is None or kind.missing
        if not is_sparse and rules[column.name] == "error":
            return column
        return replace(column, field=replace(column.field, nullable=True), is_sparse=is_sparse)

    return tuple(map(of, columns))


def finish(column: JsonColumn, part: Any, _: Spans) -> pa.Array:
    """What native code gave for the column, as an Arrow array."""
    if column.form == "ragged":
        data, offsets = part
        return lists_of(data.view(column.field.numpy_dtype), offsets, column.field.shape[1:])
    data, ends, offsets = part
    texts = texts_of(data, ends, column.field.dtype)
    return pa.LargeListArray.from_arrays(pa.array(offsets), texts) if column.field.shape else texts
