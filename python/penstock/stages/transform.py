"""The stage of `transform`: native kernels on columns."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from penstock.batch.stack import field_of
from penstock.core import kernels
from penstock.core.errors import DataError, PlanError, RowError
from penstock.core.limits import Limits
from penstock.core.quoted import quoted
from penstock.core.spec import Columns, EntryPoints, Ids, Spec
from penstock.core.warned import warn
from penstock.order.keys import TRANSFORM_KEY
from penstock.plan.nodes import Draws, Read
from penstock.resolve.row_places import RowPlaces
from penstock.runtime.budget import Budget
from penstock.runtime.slots import Slots
from penstock.runtime.stage import Columned, Part
from penstock.source.jpeg_index import Growing, entry_points_of
from penstock.source.protocol import Access
from penstock.stages.read.parse import NamedRows
from penstock.stages.read.samples import load_samples
from penstock.stages.same_sizes import Drawing, unequal_sizes
from penstock.transform.image import ImageKernel, fuse, image_size, loss_in_words

_T = TypeVar("_T")

#: Samples to look at until one is an image: a bad one is an error when it is due, and not before.
_FIRST_SAMPLES = 64


class FirstImage:
    """Looks at the first image of a column that can be read, for chains whose output's size or mode depends on it."""

    def __init__(self, leaf: Read, column: str, ops: tuple[Any, ...]) -> None:
        self._source, self._read = leaf.opened.source, leaf.opened.read_ranges
        self._column, self._ops = column, ops

    def size(self) -> tuple[int, int]:
        """(height, width) of the first image; what is wrong with the first sample, if none of the first 64 can be read."""
        return self._first(lambda data: image_size(data, self._ops))

    def mode(self) -> str:
        """The mode that holds the first image unchanged; errors as in `size`."""
        return self._first(kernels.image_mode)

    def _first(self, look: Callable[[bytes], _T]) -> _T:
        wrong: DataError | None = None
        for sample in range(min(_FIRST_SAMPLES, self._source.manifest.samples)):
            try:
                return self._look_at(sample, look)
            except DataError as error:
                wrong = wrong or error
                if self._source.access is Access.FORWARD:
                    break
        assert wrong is not None
        raise wrong

    def _look_at(self, sample: int, look: Callable[[bytes], _T]) -> _T:
        ids = np.array([sample], dtype=np.int64)
        columns = load_samples(self._source, self._read, ids)
        if self._column not in columns:
            raise PlanError(
                f"transform: column {quoted(self._column)} comes out of a function, and what its first image is cannot be looked up before; say "
                f"Decode(mode=…), and let Resize((height, width)) or a crop fix the size"
            )
        data = columns[self._column][0]
        try:
            return look(data.as_py() if isinstance(data, pa.Scalar) else data)
        except ValueError as error:
            raise DataError(f"{self._source.manifest.place(sample)}: {error}") from None


class ColumnKernel:
    """A column's kernel, made when the column's field is known: at once, or with the first batch after a user's function."""

    def __init__(
        self,
        ops: tuple[Any, ...],
        first: FirstImage,
        limits: Limits,
        kernel: Any = None,
        entry_points: EntryPoints | Growing | None = None,
        numbers: Sequence[int] = (),
        *,
        channels_first: bool = False,
    ) -> None:
        self._channels_first = channels_first
        self._ops, self._first, self._limits, self._kernel = ops, first, limits, kernel
        self._numbers = numbers
        self._entry_points = entry_points
        self._lock = threading.Lock()

    @property
    def images(self) -> Counter[str]:
        """Images so far, by decoder."""
        return Counter() if self._kernel is None else self._kernel.images

    def kernel(self, column: Any) -> Any:
        """The kernel for a column like this one."""
        with self._lock:
            if self._kernel is None:
                self._kernel = fuse(
                    self._ops,
                    field_of(column),
                    self._first.size,
                    limits=self._limits,
                    numbers=self._numbers,
                    channels_first=self._channels_first,
                )
            return self._kernel

    def entry_points(self, column: Any, samples: Ids, threads: int) -> EntryPoints | None:
        """Entry points for the column's images; missing ones are made first, where the plan says so."""
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
        sources: tuple[int, int],
        first_ids: Ids,
        places: RowPlaces,
        slots: Slots,
        kernels_by_column: Mapping[str, ColumnKernel],
        *,
        seed: int,
        draws: Sequence[Draws],
        budget: Budget,
        is_frozen: bool = False,
    ) -> None:
        self._sources, self._first_ids = sources, first_ids
        self._is_frozen = is_frozen
        self._places = places
        self._slots, self._budget = slots, budget
        self._seed, self._draws = seed, draws
        self._kernels = kernels_by_column

    def images(self) -> Counter[str]:
        """Images so far, by decoder."""
        return sum((lazy.images for lazy in self._kernels.values()), Counter())

    def __call__(self, item: Columned) -> Columned:
        """Replaces each column by what its kernel makes of it."""
        if (part := item.part(self._sources)) is not None:
            part.columns, part.spec = self._applied(item, part, None)
        return item

    def good_rows(self, item: Columned, part: Part) -> tuple[Columned | None, dict[int, DataError]]:
        """The same of a part, without the bad rows; and these, by their numbers in it, which is as it was if there are any."""
        bad = dict[int, DataError]()
        columns, spec = self._applied(item, part, bad)
        if not bad:
            part.columns, part.spec = columns, spec
            return item, bad
        good = np.delete(np.arange(len(item.ids_of(part))), list(bad))
        made = Part(self._sources, part.at, columns, spec, part.ids).take(good)
        return item.to(Columned, parts=[made]) if len(good) else None, bad

    def _applied(self, item: Columned, part: Part, bad: dict[int, DataError] | None) -> tuple[Columns, Spec]:
        """What becomes of a part. bad: gets the bad rows; None where they are errors."""
        ids, (epoch, keys) = item.ids_of(part), item.draw_of(part, is_frozen=self._is_frozen)
        columns, spec = dict(part.columns), dict(part.spec)
        made = [self._drawing(part, draw, name, epoch) for draw, name in zip(self._draws, self._kernels, strict=True)]
        if unequal := unequal_sizes(made, keys):
            if bad is None:
                with NamedRows(self._places, ids, self._places.own_id):
                    raise unequal[0]
            bad |= {one.row: self._named(int(ids[one.row]), one) for one in unequal}
        for (name, lazy), (_, _, kernel, key) in zip(self._kernels.items(), made, strict=True):
            out = self._slots.array(kernel.field, len(ids))
            with NamedRows(self._places, ids, self._places.own_id):
                column = part.columns[name]
                samples = ids - self._first_ids[self._sources[0]]
                points = lazy.entry_points(column, samples, self._budget.cpus) if keys is ids else None
                try:
                    lost = kernel(
                        column,
                        keys,
                        key=key,
                        out=out,
                        threads=self._budget.cpus,
                        entry_points=points,
                        every_row=bad is not None,
                    )
                except RowError as error:
                    if bad is None or not error.every:
                        raise
                    bad |= {one.row: self._named(int(ids[one.row]), one) for one in error.every}
                    lost = None
            if lost is not None:
                self._warn_of_loss(kernel, name, int(ids[lost[0]]), lost[1])
            columns[name], spec[name] = out, kernel.field
        return columns, spec

    def _warn_of_loss(self, kernel: ImageKernel, name: str, row_id: int, what: str) -> None:
        try:
            warn(f"{self._places(row_id)}: column {quoted(name)}: {loss_in_words(what)}")
        except Warning:  # an error by the user's filters: its step is made again, alone, and must fail again
            kernel.is_watching = True
            raise

    def _drawing(self, part: Part, draw: Draws, name: str, epoch: int) -> Drawing:
        """A column with its kernel, and the key by which that draws."""
        if name not in part.columns:
            raise PlanError(
                f"transform: no column {quoted(name)}; the function before it returned {', '.join(part.columns)}"
            )
        key = kernels.mix([self._seed, epoch, TRANSFORM_KEY, draw.transform, draw.place])
        return Drawing(name, part.columns[name], self._kernels[name].kernel(part.columns[name]), key)

    def _named(self, row_id: int, error: RowError) -> DataError:
        return DataError.of_row(self._places(row_id), self._places.own_id(row_id), error)
