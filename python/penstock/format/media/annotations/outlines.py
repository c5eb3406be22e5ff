"""Outlines of objects as pixels: polygons and runs, filled as pycocotools does it, pixel for pixel.

A polygon is drawn on a grid five times as fine. Where its edge crosses the middle of a column of pixels, the pixels below change from outside to inside
and back. The image is therefore walked column after column, as COCO's runs count it:

    crossings at 1, 4        outside  inside  inside  inside  outside  …
                                0        1       2       3       4

From cocoapi's maskApi.c (rleFrPoly, rleFrString), github.com/cocodataset/cocoapi.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.columns.plain import numbers_of
from penstock.core.columns.ragged import edges_of, lists_of
from penstock.core.columns.spec import Bytes, Ids

_Floats = npt.NDArray[np.float64]
#: How much finer than pixels the grid is.
_FINER = 5
#: What C makes of a number that is none.
_NO_NUMBER = -(1 << 31)
#: Characters of a run's length, of five bits each.
_MOST_CHARACTERS = 7


@dataclass(frozen=True, kw_only=True, eq=False)
class Outlines:
    """The outlines of objects, each of some parts: polygons (x and y of each corner), or one of runs (lengths outside, inside, outside, …).

    numbers: those of all parts. parts, objects: where each begins in `numbers`, in the parts, and the end. are_runs: of each object.
    sizes: height and width of each image.
    """

    numbers: _Floats
    parts: Ids
    objects: Ids
    are_runs: npt.NDArray[np.bool_]
    sizes: Ids

    def mask(self, number: int, height: int, width: int) -> Bytes:
        """An object's pixels, 1 inside, of shape (height, width)."""
        inside = np.zeros(height * width, dtype=np.uint8)
        for part in range(self.objects[number], self.objects[number + 1]):
            numbers = self.numbers[self.parts[part] : self.parts[part + 1]]
            if self.are_runs[number]:
                inside = np.repeat((np.arange(len(numbers)) % 2).astype(np.uint8), numbers.astype(np.int64))
            else:
                _fill(inside, crossings(numbers.reshape(-1, 2), height, width))
        return inside.reshape(width, height).T


@dataclass(frozen=True, kw_only=True, eq=False)
class Masks:
    """A column of masks: row i has those of `objects[edges[i] : edges[i + 1]]`, of the size `sizes[i]`; they are made when they are taken."""

    outlines: Outlines
    objects: Ids
    edges: Ids
    sizes: Ids

    def take(self, rows: pa.Array) -> pa.LargeListArray:
        """Lists of masks of lists of lines."""
        chosen = numbers_of(rows)
        counts = self.edges[chosen + 1] - self.edges[chosen]
        heights, widths = (np.repeat(self.sizes[chosen, axis], counts) for axis in (0, 1))
        objects = [number for row in chosen for number in self.objects[self.edges[row] : self.edges[row + 1]]]
        flat = np.empty(int((heights * widths).sum()), dtype=np.uint8)
        for number, height, width, end in zip(objects, heights, widths, np.cumsum(heights * widths), strict=True):
            flat[end - height * width : end] = self.outlines.mask(number, height, width).reshape(-1)
        lines = lists_of(flat, edges_of(np.repeat(widths, heights)))
        masks = pa.LargeListArray.from_arrays(pa.array(edges_of(heights)), lines)
        return pa.LargeListArray.from_arrays(pa.array(edges_of(counts)), masks)


def _fill(inside: Bytes, changes: Ids) -> None:
    """Fills what lies between every second place and the next."""
    if not len(changes):
        return
    if len(changes) % 2:
        changes = np.append(changes, len(inside))
    first = int(changes.min())
    is_inside = np.zeros(int(changes.max()) - first + 1, dtype=np.uint8)
    np.bitwise_xor.at(is_inside, changes - first, 1)
    np.bitwise_xor.accumulate(is_inside, out=is_inside)
    inside[first : first + len(is_inside)] |= is_inside[: len(inside) - first]


def crossings(corners: _Floats, height: int, width: int) -> Ids:
    """The places, column after column, where a polygon's edge crosses the middle of a column; those where it crosses twice come twice."""
    across, down = _edge_points(corners)
    crosses = np.flatnonzero(np.diff(across)) + 1
    left = np.minimum(across[crosses], across[crosses - 1])
    column = (left + 0.5) / _FINER - 0.5
    upper = (np.minimum(down[crosses], down[crosses - 1]) + 0.5) / _FINER - 0.5
    row = np.ceil(np.clip(upper, 0, height))
    is_middle = (np.floor(column) == column) & (column >= 0) & (column <= width - 1)
    places: Ids = (column * height + row)[is_middle].astype(np.int64)
    return places


def _edge_points(corners: _Floats) -> tuple[Ids, Ids]:
    """All points of the fine grid along the edges: x, and y."""
    begin = np.trunc(_FINER * corners + 0.5).astype(np.int64)
    ends = np.stack([begin, np.roll(begin, -1, axis=0)])
    wide, tall = np.abs(ends[1] - ends[0]).T
    is_wide = wide >= tall
    along = np.where(is_wide, 0, 1)
    turned = np.take_along_axis(ends[0], along[:, None], 1) > np.take_along_axis(ends[1], along[:, None], 1)
    low, high = np.where(turned, ends[1], ends[0]), np.where(turned, ends[0], ends[1])
    steps = np.maximum(wide, tall)
    aside = np.take_along_axis(high - low, 1 - along[:, None], 1)[:, 0]
    slope = np.full(len(steps), np.nan)
    np.divide(aside, steps, out=slope, where=steps > 0)
    edge = np.repeat(np.arange(len(steps)), steps + 1)
    step = np.arange(len(edge)) - np.repeat(edges_of(steps + 1)[:-1], steps + 1)
    step = np.where(turned[edge, 0], steps[edge] - step, step)
    straight = step + np.where(is_wide, low[:, 0], low[:, 1])[edge]
    exact = np.where(is_wide, low[:, 1], low[:, 0])[edge] + slope[edge] * step + 0.5
    slanted = np.trunc(np.nan_to_num(exact, nan=_NO_NUMBER)).astype(np.int64)
    return np.where(is_wide[edge], straight, slanted), np.where(is_wide[edge], slanted, straight)


def runs_of(counts: Any, pixels: int) -> list[int]:
    """The lengths of runs, as a list or COCO's text gives them; ValueError where they are none, or not of so many pixels."""
    runs = _unpacked(counts) if isinstance(counts, str) else counts
    if not isinstance(runs, list) or not {*map(type, runs)} <= {int} or any(not 0 <= run <= pixels for run in runs):
        raise ValueError("counts are a list of whole numbers, or a text of them")
    if sum(runs) != pixels:
        raise ValueError(f"its counts are {sum(runs):,} pixels of an image of {pixels:,}")
    return runs


def _unpacked(text: str) -> list[int]:
    """Lengths of runs out of text: five bits a character, the last of a number without the sixth; from the fourth on, differences to the last but one."""
    codes = np.frombuffer(text.encode("utf-8", "surrogatepass"), dtype=np.uint8).astype(np.int64) - 48
    if not len(codes):
        return []
    last = np.flatnonzero(codes & 32 == 0)
    edges = np.concatenate([[0], last + 1])
    lengths = np.diff(edges)
    if (
        codes.min() < 0
        or codes.max() > 63
        or not len(last)
        or edges[-1] != len(codes)
        or lengths.max() > _MOST_CHARACTERS
    ):
        raise ValueError("its counts are no text of runs")
    place = np.arange(len(codes)) - np.repeat(edges[:-1], lengths)
    numbers = np.add.reduceat((codes & 31) << (5 * place), edges[:-1])
    numbers = numbers - np.where(codes[last] & 16, 1 << (5 * lengths), 0)
    for first in (1, 2):
        numbers[first::2] = np.cumsum(numbers[first::2])
    found: list[int] = numbers.tolist()
    return found
