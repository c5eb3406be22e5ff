"""Finds annotations, and joins what they say to the images that are read, by their names.

| in the annotations                    | among the images            | what becomes of it                                       |
| ------------------------------------- | --------------------------- | -------------------------------------------------------- |
| an image with objects                 | there                       | its row has them, in the order of the annotations        |
| none, or an image without objects     | there                       | its row has none                                         |
| an image                              | not there, a folder is read | SourceError                                              |
| an image                              | not there, a list is read   | left out: the list says which images are meant           |
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.arguments import check_flags, path_of
from penstock.core.columns.ragged import edges_of, lists_of
from penstock.core.columns.spec import Field, Ids
from penstock.core.errors import DataError, PlanError, SourceError
from penstock.core.files.byte_ranges import ByteRanges, read_ranges
from penstock.core.files.shards import Shards
from penstock.core.limits import Limits
from penstock.core.messages import quoted
from penstock.core.verbs.options import Options
from penstock.format.media.annotations.coco import read_coco
from penstock.format.media.annotations.objects import Annotations
from penstock.format.media.annotations.outlines import Masks, Outlines
from penstock.format.media.annotations.voc import read_voc
from penstock.format.media.classes import checked_names, shown_names
from penstock.format.media.said import Said

_SUFFIX = ".xml"


def open_annotations(shards: Shards, options: Options) -> Said:
    """What `options.own` asks for, a row for each of the images.

    Raises PlanError for options that do not fit, DataError for damaged annotations, SourceError for images that are not there.
    """
    masks = options.own.get("masks", False)
    check_flags("read", masks=masks)
    if "annotations" not in options.own:
        raise PlanError("read: masks=True makes pixels of the outlines in annotations; pass annotations= with it")
    where = path_of("annotations", options.own["annotations"])
    if options.find is None:
        raise PlanError("annotations are opened by penstock.read, which knows the storages")
    files, read = options.find(where)
    found, settings = _read(where, files, read, options.limits, masks=masks)
    objects = _Objects.of(found, _image_of(found, shards, are_picked=options.are_picked))
    label, classes = _labels(found, options.own.get("classes"))
    fields = {"boxes": Field("float32", (None, 4)), "label": Field("int64", (None,))}
    said: dict[str, Any] = {name: objects.lists(values) for name, values in {**found.values, "label": label}.items()}
    said = {name: said.pop(name) for name in fields} | said
    fields |= {name: Field(values.dtype.name, (None,)) for name, values in found.values.items() if name not in fields}
    for name, (values, missing) in found.of_image.items():
        said[name], fields[name] = objects.of_image(values, missing), Field("int64")
    if found.outlines is not None:
        said["masks"], fields["masks"] = (
            objects.masks(found.outlines, options.limits, shards),
            Field("uint8", (None,) * 3),
        )
    return Said(said=said, fields=fields, classes=classes, classes_given=True, settings=f"{settings} {classes}")


def _read(where: str, files: Shards, read: ByteRanges, limits: Limits, *, masks: bool) -> tuple[Annotations, str]:
    """What the files say, and a digest of them."""
    chosen = np.array([path.lower().endswith(_SUFFIX) for path in files.paths.to_pylist()], dtype=bool)
    if not chosen.any() and len(files) != 1:
        raise SourceError(
            f"annotations={quoted(where)}: {len(files):,} files, none of which is {_SUFFIX}; name a file of COCO, or a folder of Pascal VOC's {_SUFFIX}"
        )
    files = files.take(np.flatnonzero(chosen)) if chosen.any() else files
    if len(large := np.flatnonzero(files.sizes > limits.record_bytes)):
        raise DataError(
            f"{files.path(int(large[0]))}: annotations of {files.sizes[large[0]]:,} bytes, the limit is {limits.record_bytes:,}; raise "
            "Limits(record_bytes=…) if they can be trusted"
        )
    shard = np.arange(len(files), dtype=np.int64)
    spans = read_ranges(read, files, shard, np.zeros_like(shard), files.sizes)
    contents = [spans[number] for number in range(len(files))]
    state = hashlib.blake2b(digest_size=16)
    names, places = files.names.to_pylist(), files.paths.to_pylist()
    for name, content in zip(names, contents, strict=True):
        state.update(f"{name} {len(content)} ".encode("utf-8", "surrogatepass"))
        state.update(content)
    if not chosen.any():
        return read_coco(contents[0], places[0], limits, masks=masks), state.hexdigest()
    if masks:
        raise PlanError(f"{places[0]}: Pascal VOC's annotations hold no outlines; leave masks=True out")
    return read_voc(contents, [os.path.splitext(name)[0] for name in names], places), state.hexdigest()


def _image_of(found: Annotations, shards: Shards, *, are_picked: bool) -> Ids:
    """For each of the images that are read, its number in the annotations, or -1."""
    number_of: dict[str, int] = {}
    for number, name in enumerate(found.names):
        if (other := number_of.setdefault(name, number)) != number:
            raise DataError(
                f"{found.place(number)}: {quoted(name)} is named by {found.place(other)}, too; leave one out"
            )
    names = shards.names.to_pylist()
    keys = [os.path.splitext(name)[0] for name in names] if found.are_stems else names
    if found.are_stems and len({*keys}) < len({*names}):
        _refuse_two(dict(zip(names, keys, strict=True)))
    image = np.array([number_of.get(key, -1) for key in keys], dtype=np.int64)
    if not are_picked and len(lost := sorted({*number_of.values()} - {*image.tolist()})):
        raise SourceError(
            f"{found.place(lost[0])}: the image {quoted(found.names[lost[0]])} is not in {shards.root} ({len(lost):,} of {len(found.names):,} are not); "
            "put it there, leave it out, or read a list of those images that you mean"
        )
    if not (image >= 0).any():
        raise SourceError(
            f"{found.place(0) if found.names else found.places}: names none of the {len(names):,} images that are read, the first {quoted(names[0])}; "
            "names are those below the folder that is read"
        )
    return image


def _refuse_two(keys: Mapping[str, str]) -> None:
    known: dict[str, str] = {}
    for name, key in keys.items():
        if (other := known.setdefault(key, name)) != name:
            raise SourceError(
                f"{name}: {other} has the same name but for its extension, and annotations name {key}; leave one out"
            )


def _labels(found: Annotations, given: Any) -> tuple[Ids, tuple[str, ...]]:
    """The class of each object, and the classes' names."""
    if given is None:
        return found.category, tuple(found.categories)
    names = checked_names(given, "classes")
    number_of = {name: number for number, name in enumerate(names)}
    used = {found.categories[number] for number in np.unique(found.category)}
    if lost := sorted(used - {*names}):
        raise PlanError(
            f"classes: the annotations have objects of the class {quoted(lost[0])}, which is not among the {len(names)} named ({shown_names(names)}); name "
            "it as well"
        )
    numbers = np.array([number_of.get(name, -1) for name in found.categories], dtype=np.int64)
    return numbers[found.category], names


@dataclass(frozen=True, kw_only=True, eq=False)
class _Objects:
    """Which objects each row has. image: of each row, or -1. chosen: the objects of all rows, one row after another. edges: where each row's begin."""

    image: Ids
    chosen: Ids
    edges: Ids

    @classmethod
    def of(cls, found: Annotations, image: Ids) -> _Objects:
        by_image = np.argsort(found.image, kind="stable")
        counts = np.bincount(found.image, minlength=len(found.names) + 1)
        begins = edges_of(counts)
        counts = counts[image]  # of -1 the last, which is 0
        edges = edges_of(counts)
        inside = np.arange(edges[-1]) - np.repeat(edges[:-1], counts)
        return cls(image=image, chosen=by_image[np.repeat(begins[image], counts) + inside], edges=edges)

    def lists(self, values: np.ndarray[Any, Any]) -> pa.LargeListArray:
        """A column of what is said of each object."""
        return lists_of(values[self.chosen].reshape(-1), self.edges, values.shape[1:])

    def of_image(self, values: Ids, missing: int) -> Ids:
        """A column of what is said of each image."""
        return np.append(values, missing)[self.image]

    def masks(self, outlines: Outlines, limits: Limits, shards: Shards) -> Masks:
        """The column of masks; DataError for images whose masks are more than one may need."""
        sizes = np.concatenate([outlines.sizes, np.ones((1, 2), dtype=np.int64)])[self.image]
        needed = np.diff(self.edges) * sizes[:, 0].astype(np.float64) * sizes[:, 1]
        if len(large := np.flatnonzero(needed > limits.image_bytes)):
            row = int(large[0])
            raise DataError(
                f"{shards.path(row)}: {self.edges[row + 1] - self.edges[row]:,} masks of {sizes[row, 0]:,} × {sizes[row, 1]:,} pixels, the limit is "
                f"{limits.image_bytes:,} bytes; raise Limits(image_bytes=…), or read without masks=True"
            )
        return Masks(outlines=outlines, objects=self.chosen, edges=self.edges, sizes=sizes)
