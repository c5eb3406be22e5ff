"""A few rows as a table: text for terminals, HTML with images for notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from penstock.core.columns.overlay import Overlay
from penstock.core.images.by_library import HEAD_BYTES
from penstock.core.images.encoded import image_size
from penstock.core.images.heads import is_image
from penstock.core.messages import printable
from penstock.observe.page_cells import Cells

#: Characters of a cell, and values of an array that are shown as they are.
_WIDEST, _VALUES = 32, 4


class RowsTable:
    """Rows, each a dict of values, as text (`str`) and as a table with images in notebooks (`_repr_html_`).

    overlays: by column, what is drawn over the pictures of another one. classes: names of classes, by label.
    """

    def __init__(
        self,
        rows: Sequence[Mapping[str, Any]],
        overlays: Mapping[str, Overlay] | None = None,
        classes: Sequence[str] = (),
    ) -> None:
        self._rows, self._overlays, self._classes = rows, overlays or {}, classes
        self._names = [*rows[0]] if rows else []

    def __repr__(self) -> str:
        heads = [["", *self._names], ["", *(_kind([row[name] for row in self._rows]) for name in self._names)]]
        body = [[str(number), *(shown(row[name]) for name in self._names)] for number, row in enumerate(self._rows)]
        lines = [[_cut(printable(cell)) for cell in line] for line in [*heads, *body]]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
        )

    def _repr_html_(self) -> str:
        kinds = [_kind([row[name] for row in self._rows]) for name in self._names]
        heads = "".join(
            f"<th>{escape(name)}<br><small>{escape(kind)}</small></th>"
            for name, kind in zip(self._names, kinds, strict=True)
        )
        cells = Cells(self._overlays, self._classes)
        body = "".join(
            f"<tr><th>{number}</th>{''.join(f'<td>{cells.of(name, row, words(row[name]))}</td>' for name in self._names)}</tr>"
            for number, row in enumerate(self._rows)
        )
        return f"<table><thead><tr><th></th>{heads}</tr></thead><tbody>{body}</tbody></table>"


def words(value: Any) -> str:
    """What a cell says of a value."""
    return _cut(printable(shown(value)))


def shown(value: Any) -> str:
    """One value in a few words: shown(np.zeros((2, 3))) == "0 … 0 (2, 3)"."""
    if isinstance(value, bytes):
        return _of_bytes(value)
    if isinstance(value, (str, list)):
        return str(value)
    array = np.asarray(value)
    if array.ndim == 0:
        return f"{value:.6g}" if array.dtype.kind == "f" else str(value)
    if array.size <= _VALUES and array.ndim == 1:
        return f"[{', '.join(map(shown, array))}]"
    if not array.size or array.dtype.kind not in "iufb":
        return f"{array.dtype} {array.shape}"
    return f"{shown(array.min())} … {shown(array.max())} {array.shape}"


def _of_bytes(value: bytes) -> str:
    size = f"{len(value):,} bytes"
    if is_image(value[:HEAD_BYTES]):
        try:
            height, width = image_size(value)
        except ValueError:
            return f"unreadable image, {size}"
        return f"image {width} × {height}, {size}"
    return f"{value[:8]!r}{'…' if len(value) > 8 else ''}, {size}"


def _kind(values: Sequence[Any]) -> str:
    """The dtype and the shape that all values have; "?" for an axis in which they differ."""
    kinds = {
        str(value.dtype) if isinstance(value, (np.ndarray, np.generic)) else type(value).__name__ for value in values
    }
    shapes = {np.shape(value) for value in values if isinstance(value, (np.ndarray, np.generic))}
    kind = " or ".join(sorted(kinds))
    if len({len(shape) for shape in shapes}) != 1 or shapes == {()}:
        return kind
    axes = [str(axis[0]) if len(set(axis)) == 1 else "?" for axis in zip(*shapes, strict=True)]
    return f"{kind} ({', '.join(axes)})"


def _cut(text: str) -> str:
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"
