"""The chains of what lies along with images, one class a kind: a column's rows in, and what they become where the image goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.columns.ragged import edges_of, lists_of
from penstock.core.columns.spec import Column, Columns, Field, Ids, Spec
from penstock.core.errors import PlanError, RowError
from penstock.core.kernels import BoxColumn, ImageProgram, moved_boxes, moved_points, run_masks
from penstock.core.messages import quoted
from penstock.transform.family import Site, Workspace
from penstock.transform.image.along import PRECISIONS, KeyPoints, Mask
from penstock.transform.image.along_rows import MaskRows, NumberRows, box_faults, mask_rows, number_rows
from penstock.transform.image.decode import Decode
from penstock.transform.image.kernel import ImageKernel, chain_of
from penstock.transform.image.native_spans import NativeSpans


@dataclass(frozen=True, eq=False)
class MovedImages:
    """The images of a batch, as what lies along needs them. sizes: (height, width) where the chain begins; 0 for what is no image."""

    program: ImageProgram
    sizes: npt.NDArray[np.uint32]
    rows: Ids
    key: int
    boxes: BoxColumn | None

    @property
    def native(self) -> tuple[ImageProgram, npt.NDArray[np.uint32], Ids, int, BoxColumn | None]:
        """As native code takes them."""
        rows = np.ascontiguousarray(self.rows, np.int64)
        return self.program, np.ascontiguousarray(self.sizes).reshape(-1), rows, self.key, self.boxes


class BoxChain:
    """See `Boxes`."""

    def __init__(self, name: str, ops: Sequence[Any], site: Site) -> None:
        self._name, self._op, self._steps = name, ops[0], ops[0].steps(ops)
        self.of: str = self._op.of
        self._dtype = self._op.output(name, site.fields)[name].dtype

    def fields(self, given: Spec) -> dict[str, Field]:
        """Those of the boxes, and of their labels."""
        made = self._op.output(self._name, given)
        return {name: made[name] for name in (self._name, *self._op.labels)}

    def rows(self, column: Column, sizes: npt.NDArray[np.uint32]) -> NumberRows:
        """The boxes of images of these sizes."""
        found = number_rows(self._name, column, (4,))
        return found.without(box_faults(self._name, found, self._op.format, sizes))

    def native(self, rows: NumberRows) -> BoxColumn:
        """As native code takes them."""
        numbers = rows.values.astype(np.float64).reshape(-1)
        return BoxColumn(numbers, rows.edges, self._op.format, PRECISIONS[self._dtype])

    def __call__(self, rows: NumberRows, images: MovedImages, columns: Columns, work: Workspace) -> Columns:
        """What becomes of boxes and labels. columns: with the masks that are made beside them."""
        numbers, counts, kept = moved_boxes(images.native, self.native(rows), self._steps, work.threads)
        edges = edges_of(counts)
        made: Columns = {self._name: lists_of(numbers.astype(self._dtype), edges, (4,))}
        for label in self._op.labels:
            values, begins = self._label(label, columns[label], rows, work)
            row_of = np.repeat(np.arange(len(counts)), counts)
            places = begins[row_of] + kept - rows.edges[row_of]
            made[label] = pa.LargeListArray.from_arrays(pa.array(edges), values.take(pa.array(places)))
        return made

    def _label(self, label: str, column: Column, rows: NumberRows, work: Workspace) -> tuple[pa.Array, Ids]:
        """A label's values, and where those of each row begin."""
        if isinstance(column, np.ndarray):
            count, each, *inner = column.shape
            ends = np.arange(count + 1, dtype=np.int64) * each
            values = lists_of(np.ascontiguousarray(column).reshape(-1), ends, inner).flatten()
        else:
            assert isinstance(column, pa.Array)
            lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
            ends, values = edges_of(lengths), column.flatten()
        boxes = np.diff(rows.edges)
        wrong = [row for row in np.flatnonzero(np.diff(ends) != boxes).tolist() if row not in rows.bad]
        if wrong:
            errors = [
                RowError(
                    row,
                    f"{boxes[row]} boxes in column {quoted(self._name)}, and {ends[row + 1] - ends[row]} values of the label {quoted(label)}",
                    "give as many, or leave the label out of Boxes(labels=…)",
                )
                for row in wrong
            ]
            if work.bad is None:
                raise errors[0]
            work.bad(errors)
            ends = ends.copy()
            values = pa.concat_arrays([values, pa.nulls(int(boxes.max()), values.type)])
            ends[wrong] = len(values) - int(boxes.max())  # of bad rows, which nobody sees
        return values, ends[:-1]


class PointChain:
    """See `KeyPoints`."""

    def __init__(self, name: str, op: KeyPoints, site: Site) -> None:
        self._name, self.of = name, op.of
        self.field = op.output(name, site.fields)[name]
        self._inner = tuple(axis or 0 for axis in self.field.shape[1:])

    def rows(self, column: Column) -> NumberRows:
        """The points of images."""
        return number_rows(self._name, column, self._inner)

    def __call__(self, rows: NumberRows, images: MovedImages, work: Workspace) -> Column:
        """What becomes of them."""
        each = int(np.prod(self._inner[:-1], dtype=np.int64))
        numbers = rows.values.astype(np.float64).reshape(-1)
        moved = moved_points(images.native, numbers, rows.edges * each, PRECISIONS[self.field.dtype], work.threads)
        if not self.field.is_fixed:
            return lists_of(moved.astype(self.field.dtype), rows.edges, self._inner)
        count = len(rows.edges) - 1
        out: npt.NDArray[Any] = work.allocate(self._name, self.field, count)
        out[:] = moved.reshape(out.shape)
        return out


class MaskChain:
    """See `Mask`."""

    def __init__(self, name: str, ops: Sequence[Any], image: ImageKernel, site: Site) -> None:
        op, others = ops[0], ops[1:]
        self._ops, self._site = ops, site
        self._name, self._fill, self.of = name, float(op.fill), op.of
        given = site.fields[name]
        self._is_encoded, self._are_instances = given.dtype == "bytes", _are_instances(op, name, given, site)
        dtype = "uint8" if given.dtype == "bool" else given.dtype
        height, width = image.size
        if self._is_encoded:
            chain = chain_of([Decode(mode=op.mode), *others], Field("bytes"), ())
        else:
            chain = chain_of(others, Field(dtype, (height, width, 1)), ())
        self._kernel = ImageKernel(chain, height, width, site.limits)
        self.field = self._kernel.field
        if given.dtype == "bool" and chain.numbers.is_raw:
            self.field = replace(self.field, dtype="bool")
        if self._are_instances:
            if others:
                raise PlanError(f"transform: {others[0]} behind {op} of instances, where nothing follows; leave it out")
            self.field = replace(self.field, shape=(None, height, width))

    def for_images(self, image: ImageKernel) -> MaskChain:
        """The same beside other ops on images, without what follows the mask."""
        return MaskChain(self._name, self._ops[:1], image, self._site)

    def __call__(self, column: Column, images: MovedImages, work: Workspace) -> Column:
        """What becomes of them."""
        count = len(images.rows)
        if self._is_encoded:
            out = work.allocate(self._name, self.field, count)
            self._run(images, np.arange(count), column, out, work)
            return out
        masks = mask_rows(self._name, column, self._are_instances)
        if masks.bad:
            if work.bad is None:
                raise masks.bad[min(masks.bad)]
            work.bad(list(masks.bad.values()))
        row_of = np.repeat(np.arange(count), np.diff(masks.edges))
        shape = self.field.shape[1:] if self._are_instances else self.field.shape
        is_direct = not self._are_instances and len(row_of) == count
        made = (
            work.allocate(self._name, self.field, count)
            if is_direct
            else np.empty((len(row_of), *(axis or 0 for axis in shape)), self.field.numpy_dtype)
        )
        self._run(images, row_of, masks, made, work)
        if is_direct:
            return made
        if self._are_instances:
            return lists_of(made.reshape(-1), masks.edges, shape)
        out = work.allocate(self._name, self.field, count)
        out[row_of] = made
        return out

    def _run(
        self,
        images: MovedImages,
        row_of: Ids,
        masks: MaskRows | Column,
        out: npt.NDArray[Any],
        work: Workspace,
    ) -> None:
        sizes = np.ascontiguousarray(masks.sizes).reshape(-1) if isinstance(masks, MaskRows) else None
        pixels, every_row = out.reshape(-1).view(np.uint8), work.bad is not None

        def run(spans: NativeSpans) -> None:
            run_masks(
                images.native,
                self._kernel.program,
                row_of,
                *spans,
                sizes,
                self._fill,
                pixels,
                work.threads,
                every_row,
            )

        try:
            if isinstance(masks, MaskRows):
                run(masks.spans)
            else:
                self._kernel.encoded.run(run, masks, work.threads)
        except RowError as error:
            if work.bad is None or not error.every:
                raise
            work.bad(error.every)


def _are_instances(op: Mask, name: str, given: Field, site: Site) -> bool:
    """Whether a row is several masks; PlanError where it is none."""
    shape = given.shape
    axes = len(shape) if given.dtype != "bytes" and 0 not in shape else -1 if shape else 2
    if axes not in (2, 3):
        raise PlanError(
            f"transform: {op} on column {quoted(name)}, which is {given}; give it encoded files, or pixels of shape (height, width) or (instances, height, width)"
        )
    has_one_channel = shape[-1:] == (1,) or (name in site.channels_first and shape[0] == 1)
    return axes == 3 and not (has_one_channel and None not in shape)
