"""The stages of `transform`: kernels of families on columns of a part, or on whole batches."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from penstock.batch.stack import field_of
from penstock.core import kernels
from penstock.core.columns.rows import take_rows
from penstock.core.columns.spec import Columns, Field, Ids, Spec
from penstock.core.draw_keys import DrawKeys
from penstock.core.errors import DataError, PlanError, RowError
from penstock.core.messages import quoted
from penstock.core.warnings import warn
from penstock.order.keys import TRANSFORM_KEY
from penstock.plan.nodes import Draws, Read
from penstock.resolve.row_places import RowPlaces
from penstock.runtime.budget import Budget
from penstock.runtime.slots import Slots
from penstock.runtime.stage import Columned, ItemPart
from penstock.source.protocol import Access
from penstock.stages.moved_ops import BatchDraws
from penstock.stages.read.parse import NamedRows
from penstock.stages.read.samples import load_samples
from penstock.transform.family import Chains, Drawing, Family, Kernel, Site, Workspace

_T = TypeVar("_T")

#: Samples to look at until one fits: a bad one is an error when it is due, and not before.
_FIRST_SAMPLES = 64


def look_at_first(leaf: Read, column: str, look: Callable[[Any], _T]) -> _T:
    """What `look` says of the first row of a source's column that it can work on (ValueError: it cannot); what is wrong with the first row, if that is none of the first 64.

    KeyError for a column that the source has not.
    """
    source, wrong = leaf.opened.source, list[DataError]()
    for sample in range(min(_FIRST_SAMPLES, source.manifest.samples)):
        try:
            columns = load_samples(source, leaf.opened.read_ranges, np.array([sample], dtype=np.int64))
            data: Any = columns[column][0]
            return look(data.as_py() if isinstance(data, pa.Scalar) else data)
        except DataError as error:
            wrong.append(error)
        except ValueError as error:
            wrong.append(DataError(f"{source.manifest.place(sample)}: {error}"))
        if source.access is Access.FORWARD:
            break
    raise wrong[0]


class ChainsKernel:
    """Chains that share columns, with their kernel: compiled at once, or with the first batch after a user's function."""

    def __init__(
        self, family: Family, chains: Chains, needed: Sequence[str], site: Site, kernel: Kernel | None
    ) -> None:
        self.family, self.chains, self._needed = family, chains, needed
        self._site, self._kernel = site, kernel
        self._lock = threading.Lock()

    def counts(self) -> Counter[str]:
        """What the kernel did so far."""
        return Counter() if self._kernel is None else self._kernel.counts()

    def kernel(self, columns: Columns) -> Kernel:
        """The kernel for columns like these; PlanError if one is not there."""
        for name in self._needed:
            if name not in columns:
                raise PlanError(
                    f"transform: no column {quoted(name)}; the function before it returned {', '.join(columns)}"
                )
        with self._lock:
            if self._kernel is None:
                fields = {name: field_of(column) for name, column in columns.items()}
                self._kernel = self.family.compile(self.chains, replace(self._site, fields=fields))
            return self._kernel


class ApplyKernels:
    """Runs the kernels of a transform, each from its columns straight into slots. draws: what keys each chain's random choices."""

    def __init__(
        self,
        sources: tuple[int, int],
        first_ids: Ids,
        places: RowPlaces,
        slots: Slots,
        every: Sequence[ChainsKernel],
        *,
        seed: int,
        draws: Mapping[str, Draws],
        budget: Budget,
        is_frozen: bool = False,
    ) -> None:
        self._sources, self._first_ids = sources, first_ids
        self._is_frozen = is_frozen
        self._places = places
        self._slots, self._budget = slots, budget
        self._seed, self._draws = seed, draws
        self._every = every

    def counts(self) -> Counter[str]:
        """What the kernels did so far: images by decoder."""
        return sum((one.counts() for one in self._every), Counter())

    def __call__(self, item: Columned) -> Columned:
        """Replaces columns by what the kernels make of them."""
        if (part := item.part(self._sources)) is not None:
            part.columns, part.spec = self._applied(item, part, None)
        return item

    def good_rows(self, item: Columned, part: ItemPart) -> tuple[Columned | None, dict[int, DataError]]:
        """The same of a part, without the bad rows; and these, by their numbers in it, which is as it was if there are any."""
        bad = dict[int, DataError]()
        columns, spec = self._applied(item, part, bad)
        if not bad:
            part.columns, part.spec = columns, spec
            return item, bad
        good = np.delete(np.arange(len(item.ids_of(part))), list(bad))
        made = ItemPart(self._sources, part.at, columns, spec, part.ids).take(good)
        return item.to(Columned, parts=[made]) if len(good) else None, bad

    def _applied(self, item: Columned, part: ItemPart, bad: dict[int, DataError] | None) -> tuple[Columns, Spec]:
        """What becomes of a part. bad: gets the bad rows; None where they are errors."""
        ids, (epoch, rows) = item.ids_of(part), item.draw_of(part, is_frozen=self._is_frozen)
        columns, spec = dict(part.columns), dict(part.spec)
        compiled = [one.kernel(part.columns) for one in self._every]
        keys = {name: DrawKeys(rows, self._key(epoch, draw)) for name, draw in self._draws.items()}
        with NamedRows(self._places, ids, self._places.own_id):
            self._check_together(compiled, part.columns, keys, ids, bad)
            work = Workspace(
                allocate=lambda _, field, count: self._slots.array(field, count),
                threads=self._budget.cpus,
                bad=None if bad is None else partial(self._name, ids, bad),
                samples=ids - self._first_ids[self._sources[0]] if rows is ids else None,
                ids=ids,
                note=lambda row, text: warn(f"{self._places(int(ids[row]))}: {text}"),
            )
            for one, kernel in zip(self._every, compiled, strict=True):
                if item.work.drawn is not None:
                    own = {name: keys[name] for name in one.chains}
                    item.work.drawn.append((part.at, kernel.drawn(part.columns, own, work)))
                if item.work.watched is not None:
                    _watch(item.work.watched, part, kernel, {name: keys[name] for name in one.chains}, work)
                columns.update(kernel(part.columns, {name: keys[name] for name in one.chains}, work))
                spec.update(kernel.fields)
        return columns, spec

    def _key(self, epoch: int, draw: Draws) -> int:
        return kernels.mix([self._seed, epoch, TRANSFORM_KEY, draw.transform, draw.place])

    def _check_together(
        self,
        compiled: Sequence[Kernel],
        columns: Columns,
        keys: Mapping[str, DrawKeys],
        ids: Ids,
        bad: dict[int, DataError] | None,
    ) -> None:
        """Finds the rows of which chains that draw together cannot do the same."""
        made = [
            (one.family, Drawing(name, kernel, columns, keys[name]))
            for one, kernel in zip(self._every, compiled, strict=True)
            for name in one.chains
        ]
        for family in dict.fromkeys(family for family, _ in made):
            unequal = family.unequal([drawing for of, drawing in made if of is family])
            if unequal and bad is None:
                raise unequal[0]
            self._name(ids, {} if bad is None else bad, unequal)

    def _name(self, ids: Ids, bad: dict[int, DataError], errors: Sequence[RowError]) -> None:
        """Adds bad rows to those that are known, as errors that say where they lie."""
        for error in errors:
            row_id = int(ids[error.row])
            bad[error.row] = DataError.of_row(self._places(row_id), self._places.own_id(row_id), error)


def _watch(
    watched: tuple[int, list[tuple[Ids, Mapping[str, Any]]]],
    part: ItemPart,
    kernel: Kernel,
    keys: Mapping[str, DrawKeys],
    work: Workspace,
) -> None:
    """Notes what each op does to the first rows."""
    at = np.arange(len(next(iter(keys.values())))) if part.at is None else part.at
    rows = np.flatnonzero(at < watched[0])
    columns = {name: take_rows(part.columns[name], rows) for name in kernel.columns}
    own = {name: replace(key, rows=key.rows[rows]) for name, key in keys.items()}
    watched[1].append((at[rows], kernel.steps(columns, own, work)))


class ApplyToBatch:
    """Runs an op on whole batches: an item is one step."""

    def __init__(
        self,
        sources: tuple[int, int],
        places: RowPlaces,
        slots: Slots,
        one: ChainsKernel,
        *,
        draws: BatchDraws,
        budget: Budget,
    ) -> None:
        self._sources, self._places, self._slots, self._one, self._budget = sources, places, slots, one, budget
        self._draws = draws

    def __call__(self, item: Columned) -> Columned:
        """Replaces the columns that it makes."""
        part = item.part(self._sources)
        if part is None:
            return item
        kernel, (key, together) = self._one.kernel(part.columns), self._draws.of(item, part)
        work = Workspace(allocate=self._allocate, threads=self._budget.cpus, together=together)
        ids = item.ids_of(part)
        with NamedRows(self._places, ids, self._places.own_id):
            keys = {"": key}
            if item.work.drawn is not None:
                item.work.drawn.append((None, kernel.drawn(part.columns, keys, work)))
            made = kernel(part.columns, keys, work)
        part.columns, part.spec = {**part.columns, **made}, {**part.spec, **kernel.fields}
        return item

    def _allocate(self, _: str, field: Field, rows: int) -> Any:
        return self._slots.array(field, rows)
