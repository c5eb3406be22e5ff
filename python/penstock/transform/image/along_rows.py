"""Columns of what lies along with images, as native code takes them: numbers of a row one after the other, and complaints about rows that are none."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.columns.ragged import edges_of, ragged_of
from penstock.core.columns.spec import Bytes, Ids, is_list
from penstock.core.errors import PlanError, RowError
from penstock.core.messages import quoted

#: Complaints about rows, by their numbers.
Faults = dict[int, RowError]


@dataclass(frozen=True, eq=False)
class NumberRows:
    """Rows of values of some numbers each: row i has values[edges[i] : edges[i + 1]]. A bad row has none."""

    values: npt.NDArray[Any]
    edges: Ids
    bad: Faults = field(default_factory=dict)

    @property
    def row_of(self) -> Ids:
        """The row of each value."""
        rows: Ids = np.repeat(np.arange(len(self.edges) - 1), np.diff(self.edges))
        return rows

    def without(self, bad: Faults) -> NumberRows:
        """The same, where these rows have none."""
        if not bad:
            return self
        counts, rows = np.diff(self.edges), list(bad)
        keep = ~np.isin(self.row_of, rows)
        counts[rows] = 0
        return NumberRows(self.values[keep], edges_of(counts), self.bad | bad)


def number_rows(name: str, column: Any, inner: tuple[int, ...]) -> NumberRows:
    """The rows of a column of lists of values of the shape `inner`."""
    if not isinstance(column, np.ndarray):
        if not isinstance(column, pa.Array) or not is_list(column.type):
            raise PlanError(f"transform: column {quoted(name)} holds no lists of {inner[-1]} numbers")
        bad = _bad_lists(name, column, inner)
        column = _without(column, bad)
        if _is_loose(column):
            flat = column.flatten().flatten()
            counts = np.diff(edges_of(pc.list_value_length(column).to_numpy(zero_copy_only=False)))
            return NumberRows(flat.to_numpy(zero_copy_only=False).reshape(-1, *inner), edges_of(counts), bad)
        found = ragged_of(name, column)
        return NumberRows(found.values.reshape(-1, *inner), found.edges, bad)
    count, each = column.shape[:2]
    return NumberRows(column.reshape(-1, *inner), np.arange(count + 1, dtype=np.int64) * each)


def _is_loose(column: pa.Array) -> bool:
    """Whether the lists inside may differ in length."""
    inner = column.type.value_type
    return is_list(inner) and not pa.types.is_fixed_size_list(inner)


def _without(column: pa.Array, bad: Faults) -> pa.Array:
    """The column, where some rows are empty."""
    if not bad:
        return column
    rows = np.arange(len(column))
    column = column.cast(pa.large_list(column.type.value_type))
    good = column.take(pa.array(np.delete(rows, list(bad))))
    counts = np.zeros(len(rows), np.int64)
    counts[~np.isin(rows, list(bad))] = pc.list_value_length(good).to_numpy(zero_copy_only=False)
    return pa.LargeListArray.from_arrays(pa.array(edges_of(counts)), good.flatten())


def _bad_lists(name: str, column: pa.Array, inner: tuple[int, ...]) -> Faults:
    """The rows that are missing, hold what is, or lists of other lengths."""
    flat = column.flatten()
    is_right = not column.null_count and not flat.null_count
    if is_right and _is_loose(column):
        lengths = pc.list_value_length(flat).to_numpy(zero_copy_only=False)
        is_right = bool((lengths == inner[-1]).all())
    while is_right and is_list(flat.type):
        flat = flat.flatten()
        is_right = not flat.null_count
    if is_right:
        return {}
    found = {row: _fault(one.as_py(), inner[-1]) for row, one in enumerate(column)}
    return {
        row: RowError(
            row,
            f"column {quoted(name)} holds {what}",
            f"give each of them {inner[-1]} numbers, and an image without any an empty list",
        )
        for row, what in found.items()
        if what
    }


def _fault(value: Any, width: int) -> str:
    """What is wrong with a row of lists, "" for nothing."""
    if value is None:
        return "a null"
    for one in value:
        if isinstance(one, list) and any(isinstance(each, list) for each in one):
            if found := _fault(one, width):
                return found
        elif one is None or None in one:
            return "a null"
        elif len(one) != width:
            return f"{len(one)} numbers where {width} are needed"
    return ""


def box_faults(name: str, rows: NumberRows, box_format: str, sizes: npt.NDArray[np.uint32]) -> Faults:
    """The rows whose boxes hold what is no number, end before they begin, or lie outside of their image. sizes: (height, width) of each."""
    boxes = rows.values.astype(np.float64)
    first, second = boxes[:, :2], boxes[:, 2:]
    extent = second - first if box_format == "XYXY" else second
    first = first - second / 2 if box_format == "CXCYWH" else first
    most = sizes[rows.row_of][:, ::-1].astype(np.float64)
    is_there = (most > 0).all(axis=1)  # what is no image has an error of its own
    is_number = np.asarray(np.isfinite(boxes).all(axis=1))
    is_turned = np.asarray(is_number & (extent < 0).any(axis=1))
    is_outside = is_number & is_there & ((first > most) | (first + extent < 0)).any(axis=1)
    found: Faults = {}
    for number in np.flatnonzero(~is_number | is_turned | is_outside).tolist():
        row = int(rows.row_of[number])
        box = f"box {number - int(rows.edges[row])} of column {quoted(name)}, {rows.values[number].tolist()} as {box_format},"
        if not is_number[number]:
            error = RowError(row, f"{box} holds what is no number", "repair it, or leave it out")
        elif is_turned[number]:
            error = RowError(
                row, f"{box} ends before it begins", 'repair it, or name its format: Boxes(of=…, format="XYWH")'
            )
        else:
            width, height = most[number].astype(int).tolist()
            text = f"{box} lies outside of its image of {width} × {height} pixels (width × height)"
            error = RowError(row, text, 'repair it, or name its format: Boxes(of=…, format="XYWH")')
        found.setdefault(row, error)
    return found


@dataclass(frozen=True, eq=False)
class MaskRows:
    """Masks as spans of pixels: row i has those from edges[i] to edges[i + 1]. sizes: (height, width) of each. A bad row has none."""

    data: Bytes
    sizes: npt.NDArray[np.uint32]
    lengths: Ids
    edges: Ids
    bad: Faults = field(default_factory=dict)

    @property
    def spans(self) -> tuple[list[Bytes], Ids, Ids, Ids]:
        """As native code takes them."""
        ends = edges_of(self.lengths)
        return [self.data], np.zeros(len(self.lengths), np.int64), ends[:-1], self.lengths


def mask_rows(name: str, column: Any, are_instances: bool) -> MaskRows:
    """The masks of a column of pixels: (height, width) a row, or (instances, height, width)."""
    if isinstance(column, np.ndarray):
        rows = column if are_instances else column.reshape(len(column), 1, *column.shape[-2:])
        count, each, height, width = rows.shape
        size = np.array([height, width], np.uint32)
        masks = count * each
        pixel_bytes = height * width * rows.itemsize
        return MaskRows(
            np.ascontiguousarray(rows).reshape(-1).view(np.uint8),
            np.broadcast_to(size, (masks, 2)),
            np.full(masks, pixel_bytes, np.int64),
            np.arange(count + 1, dtype=np.int64) * each,
        )
    return _listed_masks(name, column, are_instances)


def _listed_masks(name: str, column: pa.Array, are_instances: bool) -> MaskRows:
    arrays, sizes, counts, bad = list[Bytes](), list[Any](), list[int](), Faults()
    for row, one in enumerate(column):
        counts.append(0)
        try:
            masks = [] if not one.is_valid else list(one.values) if are_instances else [one]
            found = [_pixels(mask.values) for mask in masks]
            if not one.is_valid:
                raise ValueError("a null")  # told of as what NumPy refuses is
        except (ValueError, AttributeError, TypeError, pa.ArrowInvalid):
            bad[row] = RowError(
                row,
                f"column {quoted(name)} holds rows of a mask that differ in length, or a null",
                "give masks as rows of equally many pixels",
            )
            continue
        counts[-1] = len(found)
        sizes += [array.shape for array in found]
        arrays += [array.reshape(-1).view(np.uint8) for array in found]
    return MaskRows(
        np.concatenate([np.empty(0, np.uint8), *arrays]),
        np.array(sizes, np.uint32).reshape(-1, 2),
        np.array([len(array) for array in arrays], np.int64),
        edges_of(counts),
        bad,
    )


def _pixels(rows: pa.Array) -> npt.NDArray[Any]:
    """Lists of equally many pixels as an array of two axes; ValueError where they are not."""
    flat = rows.flatten()
    if rows.null_count or flat.null_count:
        raise ValueError("a null")
    values: npt.NDArray[Any] = np.ascontiguousarray(flat.to_numpy(zero_copy_only=False))
    lengths = pc.list_value_length(rows).to_numpy(zero_copy_only=False)
    if len(lengths) and (lengths != lengths[0]).any():
        raise ValueError("rows of several lengths")
    return values.reshape(len(rows), -1)
