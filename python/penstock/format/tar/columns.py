"""The columns of WebDataset samples: which members there are, what was asked for, and what each becomes.

A member's extension says what it holds, as in webdataset's own decoder: .cls, .index, .id, … a whole number, .txt and .json
text, .npy an array of numbers; everything else is bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.core import kernels
from penstock.core.columns.spec import Field
from penstock.core.errors import DataError, PlanError
from penstock.core.verbs.options import Column, Options
from penstock.source.records.native_columns import default_bytes, form_of
from penstock.source.selection import WHOLE, Selection, no_column

#: The sample's name, offered as a column.
KEY = "__key__"

_NUMBERS = ("cls", "cls2", "class", "count", "index", "inx", "id")
_TEXTS = ("txt", "text", "transcript", "json", "jsn")

#: The members of one of the first samples, by extension in lower case.
Members = Mapping[str, bytes]


@dataclass(frozen=True)
class MemberColumn:
    """One column of a batch: its name, the extensions that its member can have, its kind, its field, a default as bytes.

    kind: "key", "bytes", "text", "number" or "array".
    """

    name: str
    extensions: tuple[str, ...]
    kind: str
    field: Field
    default: bytes | None = None

    def description(self) -> tuple[list[str], str, str, list[int], str, bytes | None]:
        """The column for `kernels.TarParser`."""
        form = {"bytes": form_of(self.field), "text": "texts"}.get(self.kind, self.kind)
        shape = [-1 if axis is None else axis for axis in self.field.shape]
        return list(self.extensions), form, self.field.dtype, shape, str(self.field), self.default


def choose_columns(samples: Sequence[Members], options: Options, where: str) -> tuple[MemberColumn, ...]:
    """The columns that the user wants of what the first samples have.

    Raises PlanError for members that do not exist, or not in every sample, and for dtypes and shapes that they cannot have.
    """
    offered = list(dict.fromkeys(extension for sample in samples for extension in sample))
    chosen = _Chooser(samples, offered, where)
    wanted = Selection(options.columns).columns([KEY, *offered])
    return tuple(chosen.column(name, column) for name, column in wanted.items())


@dataclass(frozen=True)
class _Chooser:
    """What is known of the first samples."""

    samples: Sequence[Members]
    offered: Sequence[str]
    where: str

    def column(self, name: str, wish: Column) -> MemberColumn:
        if wish.feature == KEY:
            return MemberColumn(name, (), "key", Field("string"))
        extensions = tuple(part.strip().lower().lstrip(".") for part in wish.feature.split(";"))
        found = [self._first(sample, extensions) for sample in self.samples]
        present = [content for content in found if content is not None]
        if len(present) < len(found) and wish.default is None:
            raise self._missing(name, wish.feature, len(found) - len(present))
        kind, field = self._field(name, wish, extensions, present)
        if wish.default is not None and None in field.shape:
            raise PlanError(f"columns[{name!r}]: a ragged column has no default; leave it away")
        default = None if wish.default is None else default_bytes(name, field, wish.default)
        return MemberColumn(name, extensions, kind, field, default)

    @staticmethod
    def _first(sample: Members, extensions: Sequence[str]) -> bytes | None:
        return next((sample[extension] for extension in extensions if extension in sample), None)

    def _missing(self, name: str, feature: str, lacking: int) -> PlanError:
        if lacking < len(self.samples):
            return PlanError(
                f"columns[{name!r}]: {lacking} of the first {len(self.samples)} samples of {self.where} have no member "
                f"{feature!r}; give the column a default, or leave it out. Members of one sample must lie together in the "
                f"archive (tar --sort=name writes them so)"
            )
        return no_column(self.where, feature, [KEY, *self.offered], among="the first samples")

    def _field(self, name: str, wish: Column, extensions: Sequence[str], present: Sequence[bytes]) -> tuple[str, Field]:
        ending = extensions[0].rpartition(".")[2]
        if ending == "npy" and wish.dtype not in ("bytes", "string"):
            return "array", self._array(name, wish, present)
        dtype = wish.dtype
        if dtype is None and ending in _NUMBERS:
            dtype = "int64" if all(map(_is_number, present)) else "string"
        elif dtype is None:
            dtype = "string" if ending in _TEXTS else "bytes"
        if wish.shape not in (None, ()):
            raise PlanError(
                f"columns[{name!r}]: member {wish.feature!r} is one value; its shape is (), not {wish.shape}"
            )
        if dtype in ("bytes", "string"):
            return "bytes" if dtype == "bytes" else "text", Field(dtype)
        if dtype not in WHOLE:
            raise PlanError(
                f"columns[{name!r}]: member {wish.feature!r} cannot become {dtype}; it can become bytes, string, or, "
                f"where a whole number is written in it, {', '.join(WHOLE)}"
            )
        return "number", Field(dtype)

    def _array(self, name: str, wish: Column, present: Sequence[bytes]) -> Field:
        try:
            headers = [kernels.npy_header(content) for content in present]
        except ValueError as error:
            raise DataError(
                f"{self.where}: columns[{name!r}]: a member {wish.feature!r} holds {error}; write it again as numbers, or take "
                f"its bytes with Column(feature={wish.feature!r}, dtype='bytes')"
            ) from None
        dtypes = sorted({dtype for dtype, _ in headers}) or [wish.dtype or "none"]
        shapes = [tuple(shape) for _, shape in headers]
        if len(dtypes) > 1 or (wish.dtype or dtypes[0]) != dtypes[0]:
            raise PlanError(
                f"columns[{name!r}]: members {wish.feature!r} are arrays of {', '.join(dtypes)}; "
                "give the column the dtype of all, or dtype='bytes'"
            )
        shape = _common_shape(shapes) if wish.shape is None else tuple(wish.shape)
        bad = shape is None or None in shape[1:] or (shape[:1] == (None,) and 0 in shape)
        if bad or not all(_fits(found, shape) for found in shapes):
            listed = ", ".join(map(str, sorted(set(shapes))[:4]))
            raise PlanError(
                f"columns[{name!r}]: members {wish.feature!r} are arrays of the shapes {listed}, which are not {shape}; only "
                "the first axis can vary (None); dtype='bytes' takes the members as they are"
            )
        return Field(dtypes[0], shape or ())


def _is_number(content: bytes) -> bool:
    text = content.strip(b" \t\r\n\f")
    return text[text[:1] in (b"-", b"+") :].isdigit()


def _common_shape(shapes: Sequence[tuple[int, ...]]) -> tuple[int | None, ...] | None:
    """The shape of all arrays, with None for a first axis that varies; None if they differ otherwise."""
    if len(set(shapes)) == 1:
        return shapes[0]
    if shapes and all(shape and shape[1:] == shapes[0][1:] for shape in shapes):
        return (None, *shapes[0][1:])
    return None


def _fits(found: tuple[int, ...], shape: tuple[int | None, ...] | None) -> bool:
    if shape is None or len(found) != len(shape):
        return False
    return all(wanted in (None, axis) for axis, wanted in zip(found, shape, strict=True))
