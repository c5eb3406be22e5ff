"""The transforming stages: native kernels on columns, users' functions on batches."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from penstock.batch.merge import gather
from penstock.batch.stack import field_of, materialize
from penstock.core import kernels
from penstock.core.draw_keys import DrawKeys
from penstock.core.errors import DataError, PlanError, RowError
from penstock.core.limits import Limits
from penstock.core.quoted import quoted
from penstock.core.spec import Columns, EntryPoints, Field, Ids, Spec
from penstock.core.warned import warn
from penstock.order.keys import STEP_KEY, TRANSFORM_KEY
from penstock.plan.nodes import Draws, Read
from penstock.resolve.row_places import RowPlaces
from penstock.runtime.budget import Budget
from penstock.runtime.slots import Slots
from penstock.runtime.stage import Columned, Part
from penstock.source.jpeg_index import Growing, entry_points_of
from penstock.source.protocol import Access
from penstock.stages.call import Call
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


class CallFunction:
    """Calls a user's function, here or in another process. step_of: the step of an epoch that an item is, by its number; None where it is none."""

    def __init__(
        self,
        sources: tuple[int, int],
        call: Call,
        seed: int,
        number: int,
        *,
        step_of: Callable[[int], int | None],
        is_frozen: bool = False,
    ) -> None:
        self._sources, self._call, self._seed, self._number = sources, call, seed, number
        self._step_of, self._is_frozen = step_of, is_frozen

    def __call__(self, item: Columned) -> Columned:
        """Replaces all columns by what the function returns; PlanError if that is no batch of as many rows."""
        part = item.part(self._sources)
        if part is None:
            return item
        epoch, keys = item.draw_of(part, is_frozen=self._is_frozen)
        key = kernels.mix([self._seed, epoch, TRANSFORM_KEY, self._number])
        part.columns = self._call(materialize(part.columns), DrawKeys(keys, key, self._step_key(item)))
        part.spec = {name: field_of(column) for name, column in part.columns.items()}
        return item

    def _step_key(self, item: Columned) -> int | None:
        step = None if self._is_frozen else self._step_of(item.step)
        return None if step is None else kernels.mix([self._seed, item.epoch, STEP_KEY, self._number, step])


class MergeParts:
    """Joins the parts of several branches: every row moves to its place."""

    def __init__(self, verb: str, branches: Sequence[tuple[int, int]], slots: Slots, budget: Budget) -> None:
        self._verb, self._branches, self._slots, self._budget = verb, branches, slots, budget
        self._sources = branches[0][0], branches[-1][1]
        self._first: tuple[int, Spec] | None = None  # of the run: a dataset, and the columns that it has
        self._lock = threading.Lock()

    def __call__(self, item: Columned) -> Columned:
        """One part instead of those of the branches; PlanError where their columns differ."""
        mine = [part for part in item.parts if part.sources in self._branches]
        others = [part for part in item.parts if part.sources not in self._branches]
        if not mine:
            return item
        item.parts = [*others, self._merged(mine, item.rows)]
        return item

    def _merged(self, parts: list[Part], rows: int) -> Part:
        first = parts[0]
        for part in parts:
            self._check_alike(self._branches.index(part.sources), part.spec)
        if len(parts) == 1:
            whole = first.at if first.at is not None and len(first.at) < rows else None
            return Part(self._sources, whole, first.columns, first.spec, first.ids)
        places = [part.at for part in parts if part.at is not None]
        together, at = _closed_up(places, rows)
        which, row = kernels.sources_of(at)
        cpus = self._budget.cpus
        columns = {
            name: gather([part.columns[name] for part in parts], which, row, name, field, self._allocate, threads=cpus)
            for name, field in first.spec.items()
        }
        ids = None if first.ids is None else np.concatenate([part.ids for part in parts if part.ids is not None])
        return Part(
            self._sources, together, columns, first.spec, ids if ids is None else ids[np.argsort(np.concatenate(at))]
        )

    def _allocate(self, _: str, field: Field, rows: int) -> Any:
        return self._slots.array(field, rows)

    def _check_alike(self, number: int, spec: Spec) -> None:
        """PlanError unless a dataset has the columns of the one that came first, which may have been steps ago."""
        with self._lock:
            first, wanted = self._first = self._first or (number, spec)
        if wanted.keys() != spec.keys():
            raise PlanError(
                f"{self._verb}: dataset {first} has the columns {', '.join(wanted)}, and dataset {number} {', '.join(spec)}; let the "
                f"functions of both return the same"
            )
        for name, field in wanted.items():
            if not _is_alike(field, spec[name]):
                raise PlanError(
                    f"{self._verb}: column {quoted(name)} is {field} in dataset {first} and {spec[name]} in dataset {number}; make "
                    f"them alike, with Resize or a crop for images, or with map"
                )


class ZipParts:
    """Joins the columns of several branches, which have the same rows."""

    def __init__(self, branches: Sequence[tuple[int, int]]) -> None:
        self._branches = branches
        self._sources = branches[0][0], branches[-1][1]

    def __call__(self, item: Columned) -> Columned:
        """One part instead of those of the branches; PlanError for a column that two of them have."""
        parts = [part for part in map(item.part, self._branches) if part is not None]
        if not parts:
            return item
        columns: Columns = {}
        spec: dict[str, Field] = {}
        for number, part in enumerate(parts):
            if both := [name for name in part.columns if name in columns]:
                raise PlanError(
                    f"zip: dataset {number} and one before it have a column {quoted(both[0])}; let a function return it by another name"
                )
            columns.update(part.columns)
            spec.update(part.spec)
        others = [part for part in item.parts if part.sources not in self._branches]
        item.parts = [*others, Part(self._sources, parts[0].at, columns, spec, parts[0].ids)]
        return item


def _closed_up(places: list[Ids], rows: int) -> tuple[Ids | None, list[Ids]]:
    """Places among `rows` rows: all of them in order, None if that is every row, and their numbers among themselves."""
    if sum(map(len, places)) == rows:
        return None, places
    is_mine = np.zeros(rows, dtype=bool)
    for some in places:
        is_mine[some] = True
    number = np.cumsum(is_mine) - 1
    return np.flatnonzero(is_mine), [number[some] for some in places]


def _is_alike(one: Field, other: Field) -> bool:
    """Whether rows of both can stand in one column: of one type, with as many axes, alike where both are fixed."""
    if not one.required.is_fixed:  # text and lists are of one type, with nulls and without
        one, other = one.required, other.required
    if one.is_fixed or other.is_fixed or one.dtype != other.dtype or len(one.shape) != len(other.shape):
        return one == other
    return all(None in axes or axes[0] == axes[1] for axes in zip(one.shape, other.shape, strict=True))
