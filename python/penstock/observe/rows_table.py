"""A few rows as a table: text for terminals, HTML with images for notebooks."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from penstock.core import kernels
from penstock.core.messages import printable
from penstock.observe.png import Pixels, png

#: Characters of a cell, and values of an array that are shown as they are.
_WIDEST, _VALUES = 32, 4
#: Longest side of an image in a page, in pixels; images beyond so many bytes are only described.
_SIDE, _MOST_BYTES = 160, 2_000_000
#: How files begin that browsers show.
_KINDS = {b"\xff\xd8\xff": "jpeg", b"\x89PNG": "png", b"GIF8": "gif", b"BM": "bmp", b"RIFF": "webp"}


class RowsTable:
    """Rows, each a dict of values, as text (`str`) and as a table with images in notebooks (`_repr_html_`)."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._rows = rows
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
        body = "".join(
            f"<tr><th>{number}</th>{''.join(f'<td>{_cell(row[name])}</td>' for name in self._names)}</tr>"
            for number, row in enumerate(self._rows)
        )
        return f"<table><thead><tr><th></th>{heads}</tr></thead><tbody>{body}</tbody></table>"


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
    if _mime(value):
        try:
            width, height, _ = kernels.image_info(value)
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


def _cell(value: Any) -> str:
    kind, data = "png", b""
    if isinstance(value, bytes) and (mime := _mime(value)):
        kind, data = mime, value
    elif (pixels := _pixels(value)) is not None:
        data = png(pixels)
    text = escape(_cut(printable(shown(value))))
    if not data or len(data) > _MOST_BYTES:
        return text
    source = f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
    return f'<img src="{source}" alt="{text}" title="{text}" style="max-width:{_SIDE}px;max-height:{_SIDE}px">'


def _mime(value: bytes) -> str:
    return next((kind for head, kind in _KINDS.items() if value.startswith(head)), "")


def _pixels(value: Any) -> Pixels | None:
    """An array that has the shape of an image, with its rows or its channels first, as RGB; numbers that are no bytes are stretched to 0 … 255."""
    if not isinstance(value, np.ndarray) or value.ndim != 3 or value.dtype.kind not in "uif" or not value.size:
        return None
    if value.shape[2] not in (1, 3, 4):
        value = np.moveaxis(value, 0, 2)
    if value.shape[2] not in (1, 3, 4) or min(value.shape[:2]) < 8:
        return None
    every = -(-max(value.shape[:2]) // (2 * _SIDE))
    value = value[::every, ::every, :3]
    if value.dtype != np.uint8:
        value = np.nan_to_num(value.astype(np.float32))
        low, high = float(value.min()), float(value.max())
        value = np.rint((value - low) * (255 / (high - low or 1))).astype(np.uint8)
    return np.broadcast_to(value, (*value.shape[:2], 3))
