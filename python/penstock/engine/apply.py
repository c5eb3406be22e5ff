"""The transforming stages: native kernels on columns, users' functions on batches."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.batch.stack import check_batch, field_of, materialize, stack_rows
from penstock.core import kernels
from penstock.core.byte_ranges import ReadRanges
from penstock.core.errors import DataError, PlanError
from penstock.core.limits import Limits
from penstock.core.spec import EntryPoints, Ids
from penstock.engine.jpeg_index import entry_points_of
from penstock.engine.read.parse import NamedRows
from penstock.engine.single import load_samples
from penstock.engine.slots import Slots
from penstock.engine.stage import Item
from penstock.order.epoch import TRANSFORM_KEY
from penstock.source.jpeg_index import Growing
from penstock.source.protocol import AnySource, is_forward_only
from penstock.transform.function import BatchFunction, RowFunction
from penstock.transform.image import fuse, picture_size

#: Samples that are looked at, until one is a picture: a bad one is an error when it is due, and not before.
_FIRST_SAMPLES = 64


class FirstPicture:
    """Looks at the first picture of a column that can be read, for chains whose output's size depends on it."""

    def __init__(self, source: AnySource, read: ReadRanges, column: str, ops: tuple[Any, ...]) -> None:
        self._source, self._read, self._column, self._ops = source, read, column, ops

    def size(self) -> tuple[int, int]:
        """(height, width) of the first picture; what is wrong with the first sample, if none of the first 64 can be read."""
        wrong: DataError | None = None
        for sample in range(min(_FIRST_SAMPLES, self._source.manifest.samples)):
            try:
                return self._size_of(sample)
            except DataError as error:
                wrong = wrong or error
                if is_forward_only(self._source):
                    break
        assert wrong is not None
        raise wrong

    def _size_of(self, sample: int) -> tuple[int, int]:
        ids = np.array([sample], dtype=np.int64)
        data = load_samples(self._source, self._read, ids)[self._column][0]
        try:
            return picture_size(data.as_py() if isinstance(data, pa.Scalar) else data, self._ops)
        except ValueError as error:
            raise DataError(f"{self._source.manifest.place(sample)}: {error}") from None


class ColumnKernel:
    """A column's kernel, made when the column's field is known: at once, or with the first batch after a user's function."""

    def __init__(
        self,
        ops: tuple[Any, ...],
        first: FirstPicture,
        limits: Limits,
        kernel: Any = None,
        entry_points: EntryPoints | Growing | None = None,
    ) -> None:
        self._ops, self._first, self._limits, self._kernel = ops, first, limits, kernel
        self._entry_points = entry_points
        self._lock = threading.Lock()

    @property
    def pictures(self) -> Counter[str]:
        """Pictures so far, by decoder."""
        return Counter() if self._kernel is None else self._kernel.pictures

    def kernel(self, column: Any) -> Any:
        """The kernel for a column like this one."""
        with self._lock:
            if self._kernel is None:
                self._kernel = fuse(self._ops, field_of(column), self._first.size, limits=self._limits)
            return self._kernel

    def entry_points(self, column: Any, samples: Ids, threads: int) -> EntryPoints | None:
        """Entry points for the column's pictures; those that are still missing are made first, where that is wanted."""
        growing = self._entry_points
        if not isinstance(growing, Growing):
            return growing
        rows = growing.missing(samples)
        if len(rows):
            data, length, checksum = entry_points_of(column.take(rows), threads)
            growing.add(samples[rows], length, checksum, data)
        return growing.view()


class ApplyKernels:
    """Runs the kernels of a transform, each from its column straight into a slot."""

    def __init__(
        self,
        source: AnySource,
        slots: Slots,
        kernels_by_column: Mapping[str, ColumnKernel],
        *,
        seed: int,
        number: int,
        threads: int,
    ) -> None:
        self._source, self._slots, self._threads = source, slots, threads
        self._seed, self._number = seed, number
        self._kernels = kernels_by_column

    def pictures(self) -> Counter[str]:
        """Pictures so far, by decoder."""
        return sum((lazy.pictures for lazy in self._kernels.values()), Counter())

    def __call__(self, item: Item) -> Item:
        """Replaces each column by what its kernel makes of it."""
        for place, (name, lazy) in enumerate(self._kernels.items()):
            if name not in item.columns:
                raise PlanError(
                    f"transform: no column {name!r}; the function before it returned {', '.join(item.columns)}"
                )
            kernel = lazy.kernel(item.columns[name])
            out = self._slots.array(kernel.field, item.rows)
            key = kernels.mix([self._seed, item.epoch, TRANSFORM_KEY, self._number, place])
            with NamedRows(self._source, item):
                column = item.columns[name]
                points = lazy.entry_points(column, item.samples, self._threads)
                kernel(column, item.samples, key=key, out=out, threads=self._threads, entry_points=points)
            item.columns[name] = out
            item.spec = {**item.spec, name: kernel.field}
        return item


class CallFunction:
    """Calls a user's function."""

    def __init__(self, function: BatchFunction, seed: int, number: int) -> None:
        self._function, self._seed, self._number = function, seed, number

    def __call__(self, item: Item) -> Item:
        """Replaces all columns by what the function returns; PlanError if that is no batch of as many rows."""
        key = kernels.mix([self._seed, item.epoch, TRANSFORM_KEY, self._number])
        made = self._function(materialize(item.columns), item.samples, key)
        name = self._function.name
        if isinstance(self._function, RowFunction):
            item.columns = stack_rows(made, name)
        else:
            item.columns = check_batch(made, item.rows, name)
        item.spec = {name: field_of(column) for name, column in item.columns.items()}
        return item
