"""Boxes, masks and points over a picture in a page: shapes as SVG and masks as a half-transparent picture above it, so that the picture stays as it is.

What cannot be drawn is told below it. Whatever comes from data is a number here, or escaped.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from penstock.core.columns.overlay import Overlay
from penstock.core.messages import counted, printable
from penstock.observe.mask_colours import Size, Undrawable, array_of, colour, mask_colours
from penstock.observe.picture import SIDE
from penstock.observe.png import png

Numbers: TypeAlias = npt.NDArray[np.float64]
Which: TypeAlias = npt.NDArray[np.bool_]

#: Shapes over one picture, and characters of a label.
_MOST, _LABEL = 200, 40
#: Where a drawing ends; browsers draw nothing beyond.
_FAR = 1e6
_ABOVE = "position:absolute;left:0;top:0;width:100%;height:100%"


@dataclass(frozen=True)
class DrawnOver:
    """What lies over a picture as HTML, and what is said of it below, as text."""

    html: str = ""
    note: str = ""


def drawn_over(
    name: str, overlay: Overlay, row: Mapping[str, Any], size: Size, classes: Sequence[str] = ()
) -> DrawnOver:
    """The column `name` of a row over a picture of `size`. classes: names of the classes that the first label of whole numbers means."""
    draw = {"boxes": _boxes, "mask": _mask, "points": _points}[overlay.kind]
    try:
        return draw(name, overlay, row, size, classes)
    except Undrawable as error:
        return DrawnOver(note=f"{name}: {error}; not drawn")


def _css(number: int) -> str:
    return _hex(colour(number))


def _hex(parts: Iterable[int]) -> str:
    return f"#{bytes(parts).hex()}"


# Boxes


def _boxes(name: str, overlay: Overlay, row: Mapping[str, Any], size: Size, classes: Sequence[str]) -> DrawnOver:
    boxes = _edges(_numbers(row[name], 4), overlay.format)
    labels = _labels(overlay, row, len(boxes), classes)
    finite = _all(np.isfinite(boxes))
    ordered = finite & _all(boxes[:, 2:] >= boxes[:, :2])
    shapes = [_box(box, *labels[number], size) for number, box in enumerate(boxes) if ordered[number]]
    beyond = ordered & ~_inside(boxes, (size[1], size[0], size[1], size[0]))
    return _shapes(
        name,
        shapes,
        size,
        counted(len(boxes), "box", "boxes"),
        {"not finite": ~finite, "end before they begin": finite & ~ordered, "reach beyond the picture": beyond},
    )


def _edges(boxes: Numbers, written: str) -> Numbers:
    """Boxes as left, upper, right and lower edge."""
    if written == "XYXY":
        return boxes
    first, extent = boxes[:, :2], boxes[:, 2:]
    with np.errstate(all="ignore"):
        if written == "CXCYWH":
            first = first - extent / 2
        elif written != "XYWH":
            raise Undrawable(f"boxes of format {written}, which is none of XYXY, XYWH and CXCYWH")
        return np.concatenate([first, first + extent], axis=1)


def _labels(overlay: Overlay, row: Mapping[str, Any], count: int, classes: Sequence[str]) -> list[tuple[str, int]]:
    """Of each box, what is written at it, and the number of its colour."""
    columns = [(label, _each(row[label])) for label in overlay.labels if label in row]
    columns = [(label, values) for label, values in columns if len(values) == count]
    named = next((label for label, values in columns if all(map(_is_whole, values))), None)
    found = list[tuple[str, int]]()
    for number in range(count):
        words, of = list[str](), number
        for label, values in columns:
            value = values[number]
            if label == named:
                of = int(value)
                words.append(str(classes[of]) if 0 <= of < len(classes) else str(of))
            elif np.ndim(value) == 0:
                text = f"{value:.3g}" if isinstance(value, (float, np.floating)) else str(value)
                words.append(text if named is None else f"{label} {text}")
        found.append((_cut(", ".join(words)), of))
    return found


def _each(values: Any) -> Any:
    """A value a box; nothing of what is no list."""
    return values if isinstance(values, (list, np.ndarray)) and np.ndim(values) else ()


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _cut(text: str) -> str:
    text = printable(text)
    return text if len(text) <= _LABEL else f"{text[: _LABEL - 1]}…"


def _box(box: Numbers, label: str, number: int, size: Size) -> str:
    left, top, right, bottom = np.clip(box, -_FAR, _FAR).tolist()
    edges = " ".join(f"{edge:.6g}" for edge in box.tolist())
    shape = (
        f'<rect x="{left:.6g}" y="{top:.6g}" width="{right - left:.6g}" height="{bottom - top:.6g}" fill="none" stroke="{_css(number)}" '
        f'stroke-width="2" vector-effect="non-scaling-stroke"><title>{escape(label)} ({edges})</title></rect>'
    )
    if not label:
        return shape
    letters = 10 * _scale(size)
    x, y = max(left, 0) + letters / 5, max(top, 0) + letters
    return (
        f'{shape}<text x="{x:.6g}" y="{y:.6g}" font-family="sans-serif" font-size="{letters:.6g}" fill="#fff" stroke="{_ink(number)}" stroke-width="{letters / 4:.6g}" '
        f'paint-order="stroke">{escape(label)}</text>'
    )


def _ink(number: int) -> str:
    """A class's colour, dark enough for white letters."""
    return _hex(part // 2 for part in colour(number))


# Points


def _points(name: str, overlay: Overlay, row: Mapping[str, Any], size: Size, classes: Sequence[str]) -> DrawnOver:  # noqa: ARG001  # as the others
    numbers = array_of(row[name])
    each = numbers.shape[1] if numbers.ndim == 3 else 1  # a colour for each object
    points = _numbers(numbers.reshape(-1, numbers.shape[2]) if numbers.ndim == 3 else numbers, 2)
    finite = _all(np.isfinite(points))
    beyond = finite & ~_inside(points, (size[1], size[0]))
    radius = 3 * _scale(size)
    shapes = [
        f'<circle cx="{x:.6g}" cy="{y:.6g}" r="{radius:.6g}" fill="{_css(number // max(each, 1))}" stroke="#000" stroke-width="{radius / 6:.6g}"/>'
        for number, (x, y) in enumerate(np.clip(points, -_FAR, _FAR).tolist())
        if finite[number]
    ]
    said = {"not finite": ~finite, "lie beyond the picture": beyond}
    return _shapes(name, shapes, size, counted(len(points), "point"), said)


# Masks


def _mask(name: str, overlay: Overlay, row: Mapping[str, Any], size: Size, classes: Sequence[str]) -> DrawnOver:  # noqa: ARG001  # as the others
    coloured, found = mask_colours(row[name], size)
    data = base64.b64encode(png(coloured)).decode()
    above = f'<img src="data:image/png;base64,{data}" alt="" style="{_ABOVE};image-rendering:pixelated">'
    return DrawnOver(html=above, note=f"{name}: {found}")


# What all use


def _numbers(value: Any, width: int) -> Numbers:
    """As many rows of `width` numbers as there are."""
    numbers = array_of(value)
    if not numbers.size:
        return np.zeros((0, width))
    if numbers.ndim != 2 or numbers.shape[1] != width:
        raise Undrawable(f"shape {numbers.shape}, and not {width} numbers each")
    return numbers


def _inside(numbers: Numbers, most: tuple[int, ...]) -> Which:
    """Whether a row's numbers lie in the picture; a float's rounding is forgiven."""
    slack = 1e-3 * max(most)
    with np.errstate(invalid="ignore"):
        return _all((numbers >= -slack) & (numbers <= np.array(most) + slack))


def _all(which: Which) -> Which:
    """Whether all of a row are true."""
    found: Which = np.logical_and.reduce(which, axis=1)
    return found


def _scale(size: Size) -> float:
    """How much smaller than its pixels a picture is shown."""
    return max(1.0, max(size) / SIDE)


def _shapes(name: str, shapes: Sequence[str], size: Size, count: str, said: Mapping[str, Which]) -> DrawnOver:
    words = [count, *(f"{int(which.sum()):,} {what}" for what, which in said.items() if which.any())]
    if len(shapes) > _MOST:
        words.append(f"the first {_MOST} drawn")
    inside = "".join(shapes[:_MOST])
    svg = f'<svg viewBox="0 0 {size[1]} {size[0]}" preserveAspectRatio="none" style="{_ABOVE}">{inside}</svg>'
    return DrawnOver(html=svg if inside else "", note=f"{name}: {', '.join(words)}")
