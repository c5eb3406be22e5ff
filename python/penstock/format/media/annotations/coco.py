"""COCO's JSON: lists of images, of categories, and of annotations, one an object (cocodataset.org, "Data format")."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core.columns.ragged import edges_of
from penstock.core.columns.spec import Ids
from penstock.core.errors import DataError
from penstock.core.limits import Limits
from penstock.format.media.annotations.objects import Annotations, shown
from penstock.format.media.annotations.outlines import Outlines, runs_of

_Items = list[dict[str, Any]]
#: Corners lie so far from an image at most.
_FURTHEST = 1 << 20
#: The largest number that float32 holds.
_LARGEST = float(np.finfo(np.float32).max)


def read_coco(content: bytes, where: str, limits: Limits, *, masks: bool) -> Annotations:
    """What the file says; DataError with its place for the first that is wrong."""
    lists = _lists(content, where)
    images, categories, objects = (lists[name] for name in ("images", "categories", "annotations"))
    image_ids, category_ids = (_ids(lists, name, where) for name in ("images", "categories"))
    image = _places(image_ids, lists, "image_id", "images", where)
    category = _places(category_ids, lists, "category_id", "categories", where)
    boxes = _boxes(objects, where)
    area = np.prod(boxes[:, 2:], axis=1)
    if any("area" in one for one in objects):
        said = [one.get("area", own) for one, own in zip(objects, area.tolist(), strict=True)]
        area = _numbers(said, lambda number: f"{where}, annotations[{number}]: area", "a number")
    by_id = np.argsort(category_ids)
    rank = np.empty_like(by_id)
    rank[by_id] = np.arange(len(by_id))
    names = _texts(categories, "categories", "name", where)
    return Annotations(
        names=[name.removeprefix("./") for name in _texts(images, "images", "file_name", where)],
        image=image,
        category=rank[category],
        categories=[names[number] for number in by_id],
        values={
            "boxes": boxes.astype(np.float32),
            "category_id": category_ids[category],
            "iscrowd": _whole(objects, "annotations", "iscrowd", where, default=0),
            "area": np.minimum(area, _LARGEST).astype(np.float32),
        },
        places=where,
        of_image={"image_id": (image_ids, -1)},
        outlines=_outlines(lists, image, where, limits) if masks else None,
    )


def _lists(content: bytes, where: str) -> dict[str, _Items]:
    """The three lists of objects."""
    try:
        said = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{where}: no JSON ({error}); annotations= is a file of COCO, or a folder of Pascal VOC's"
        ) from None
    found: dict[str, _Items] = {}
    for name in ("images", "annotations", "categories"):
        items = said.get(name) if isinstance(said, dict) else None
        if not isinstance(items, list):
            keys = f"an object with {shown([*said])}" if isinstance(said, dict) else shown(said)
            raise DataError(f"{where}: no list {name!r}, but {keys}; give a file of COCO's instances")
        if not {*map(type, items)} <= {dict}:
            number = next(number for number, one in enumerate(items) if type(one) is not dict)
            raise DataError(
                f"{where}, {name}[{number}]: {shown(items[number])}, where an object is needed; write it as COCO does"
            )
        found[name] = items
    return found


def _wrong(place: str, found: Any, needed: str) -> DataError:
    said = "nothing" if found is None else shown(found)
    return DataError(f"{place} is {said}, where {needed} is needed; mend the file, or leave the entry out")


def _first(values: Sequence[Any], is_right: Callable[[Any], bool]) -> int:
    return next(number for number, value in enumerate(values) if not is_right(value))


def _whole(items: _Items, list_name: str, key: str, where: str, *, default: int | None = None) -> Ids:
    """Whole numbers of 64 bits."""
    values = [one.get(key, default) for one in items]
    if {*map(type, values)} <= {int, bool}:
        try:
            return np.array(values, dtype=np.int64)
        except OverflowError:
            pass
    number = _first(values, lambda value: isinstance(value, int) and -(1 << 63) <= value < 1 << 63)
    raise _wrong(f"{where}, {list_name}[{number}]: {key}", values[number], "a whole number of 64 bits")


def _numbers(values: list[Any], place: Callable[[int], str], needed: str) -> npt.NDArray[np.float64]:
    """Finite numbers that float32 can hold."""
    if {*map(type, values)} <= {int, float}:
        try:
            found = np.array(values, dtype=np.float64)
        except OverflowError:
            found = np.array([float("inf")])
        if (np.abs(found) <= _LARGEST).all():  # NaN is not
            return found
    number = _first(values, lambda value: type(value) in (int, float) and abs(value) <= _LARGEST)
    raise _wrong(place(number), values[number], needed)


def _texts(items: _Items, list_name: str, key: str, where: str) -> list[str]:
    values: list[Any] = [one.get(key) for one in items]
    if not {*map(type, values)} <= {str}:
        number = _first(values, lambda value: isinstance(value, str))
        raise _wrong(f"{where}, {list_name}[{number}]: {key}", values[number], "a text")
    return values


def _ids(lists: dict[str, _Items], name: str, where: str) -> Ids:
    """The ids of images or categories, each once."""
    ids = _whole(lists[name], name, "id", where)
    known: dict[int, int] = {}
    for number, one in enumerate(ids.tolist()):
        if known.setdefault(one, number) != number:
            raise DataError(
                f"{where}, {name}[{number}]: id {one} is that of {name}[{known[one]}], too; give each its own"
            )
    return ids


def _places(ids: Ids, lists: dict[str, _Items], key: str, of: str, where: str) -> Ids:
    """For each annotation, which image or category it names."""
    wanted = _whole(lists["annotations"], "annotations", key, where)
    if not len(wanted):
        return wanted
    if not len(ids):
        raise DataError(f"{where}, annotations[0]: {key} {wanted[0]} is none of the file's {of}; there are none")
    by_id = np.argsort(ids)
    places: Ids = by_id[np.minimum(np.searchsorted(ids, wanted, sorter=by_id), len(ids) - 1)]
    if len(lost := np.flatnonzero(ids[places] != wanted)):
        raise DataError(
            f"{where}, annotations[{lost[0]}]: {key} {wanted[lost[0]]} is none of the file's {len(ids):,} {of}; add it there, or leave the annotation out"
        )
    return places


def _boxes(objects: _Items, where: str) -> npt.NDArray[np.float64]:
    boxes: list[Any] = [one.get("bbox") for one in objects]
    needed = "a list of four numbers, x, y, width and height,"
    if not {*map(type, boxes)} <= {list} or not {*map(len, boxes)} <= {4}:
        number = _first(boxes, lambda box: isinstance(box, list) and len(box) == 4)
        raise _wrong(f"{where}, annotations[{number}]: bbox", boxes[number], needed)
    flat = [*chain.from_iterable(boxes)]
    return _numbers(
        flat, lambda number: f"{where}, annotations[{number // 4}]: bbox[{number % 4}]", "a number"
    ).reshape(-1, 4)


def _outlines(lists: dict[str, _Items], image: Ids, where: str, limits: Limits) -> Outlines:
    """The outlines of all objects, as numbers."""
    sizes = np.stack([_whole(lists["images"], "images", key, where) for key in ("height", "width")], axis=1)
    if len(bad := np.flatnonzero((sizes < 1).any(axis=1) | (sizes > limits.pixels).any(axis=1))):
        raise _wrong(f"{where}, images[{bad[0]}]: its size", sizes[bad[0]].tolist(), "a height and a width of pixels")
    sizes_of_objects = sizes[image].tolist()
    parts: list[list[float]] = []
    counts, are_runs = [], []
    for number, (one, size) in enumerate(zip(lists["annotations"], sizes_of_objects, strict=True)):
        outline = one.get("segmentation")
        are_runs.append(isinstance(outline, dict))
        try:
            found = [_runs(outline, size)] if isinstance(outline, dict) else _polygons(outline)
        except ValueError as error:
            raise DataError(
                f"{where}, annotations[{number}]: segmentation {shown(outline)}: {error}; mend it, or read without masks=True"
            ) from None
        counts.append(len(found))
        parts += found
    flat = np.array([*chain.from_iterable(parts)], dtype=np.float64)
    lengths = [len(part) for part in parts]
    flags = np.array(are_runs, dtype=bool)
    return Outlines(numbers=flat, parts=edges_of(lengths), objects=edges_of(counts), are_runs=flags, sizes=sizes)


def _polygons(outline: Any) -> list[list[float]]:
    """The polygons of an outline; ValueError says what is wrong."""
    if not isinstance(outline, list) or not outline or not {*map(type, outline)} <= {list}:
        raise ValueError("an outline is a list of polygons, or runs")
    for polygon in outline:
        if len(polygon) < 6 or len(polygon) % 2:
            raise ValueError(f"a polygon of {len(polygon)} numbers, where there are x and y for three corners and more")
        if not {*map(type, polygon)} <= {int, float} or not all(abs(number) <= _FURTHEST for number in polygon):
            raise ValueError(f"a corner that is no number within {_FURTHEST:,} pixels")
    return outline


def _runs(outline: dict[str, Any], size: list[int]) -> list[float]:
    if outline.get("size") != size:
        raise ValueError(f"its size is not that of the image, {size[0]} × {size[1]}")
    return [*map(float, runs_of(outline.get("counts"), size[0] * size[1]))]
