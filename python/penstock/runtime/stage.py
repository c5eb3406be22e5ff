"""Stages, and the item that passes through them: what it holds says its type.

Work → Planned → Loaded → Columned → Delivered, and below a lane stage → LaneItem (see `stages.lanes`)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from penstock.core.columns.rows import take_rows
from penstock.core.columns.spec import Columns, Ids, Spans, Spec
from penstock.order.keys import mix_rows
from penstock.order.steps.cursor import Work
from penstock.runtime.budget import BudgetShare

ItemT = TypeVar("ItemT", bound="Item")


def _no_draws() -> None:
    return None


def _same(ids: Ids) -> Ids:
    return ids


@dataclass(kw_only=True)
class Item:
    """One or several neighbouring steps on their way through the stages; the unit of work.

    find_ids: gives `ids`, when they are first needed. find_draws: gives `draws`. share: its part of the memory that the run may hold.
    """

    work: Work
    rows_per_step: int
    find_ids: Callable[[], Ids]
    find_draws: Callable[[], Ids | None] = _no_draws
    share: BudgetShare | None = None
    _ids: Ids | None = field(default=None, init=False)
    _planned: tuple[Ids, Ids | None] | None = field(default=None, init=False)

    def to(self, kind: type[ItemT], **held: Any) -> ItemT:
        """The same rows in another phase."""
        made = kind(work=self.work, rows_per_step=self.rows_per_step, find_ids=self.find_ids, share=self.share, **held)
        made.find_draws = self.find_draws
        made._ids, made._planned = self._ids, self._planned  # noqa: SLF001  # its own class
        return made

    @property
    def epoch(self) -> int:
        """The epoch of its steps."""
        return self.work.epoch

    @property
    def step(self) -> int:
        """Its first step."""
        return self.work.step

    @property
    def steps(self) -> int:
        """How many steps it is."""
        return self.work.steps

    @property
    def ids(self) -> Ids:
        """The ids (int64) of all rows, step after step: see `order.protocol.RowOrder`."""
        # Not a cached_property: before Python 3.12 all items would wait for each other by one lock, which a fork may find taken.
        if self._ids is None:
            self._ids = self.find_ids()
        return self._ids

    @property
    def planned(self) -> tuple[Ids, Ids | None]:
        """The ids and draws that the plan says, also where other rows took the places of bad ones."""
        return self._planned or (self.ids, self.find_draws())

    def replace_rows(self, places: Ids, ids: Ids, draws: Ids) -> None:
        """Other rows are in some places from now on."""
        self._planned = self.planned
        all_ids, all_draws = self.ids.copy(), self.find_draws()
        all_ids[places] = ids
        self.find_ids, self._ids = partial(_same, all_ids), all_ids
        if all_draws is not None:
            all_draws = all_draws.copy()
            all_draws[places] = draws
            self.find_draws = partial(_same, all_draws)

    @property
    def rows(self) -> int:
        """Rows of all steps together."""
        return self.work.steps * self.rows_per_step

    @property
    def size_bytes(self) -> int:
        """Bytes that it holds, for the figures of a stage."""
        return 0

    @property
    def counted_bytes(self) -> int:
        """Bytes of these that the budget does not count by themselves, as it does blocks and the memory of records."""
        return 0


@dataclass
class SourceRows:
    """An item's rows of one source, or of several that are read as one.

    source: the number of its reader. at: their places among the item's rows, None for all of them. samples: their ids in the source. held: what the
    source's reader has of them so far, of a type that it alone knows (see `stages.read.reader`). ids: as of `ItemPart`.
    """

    source: int
    at: Ids | None
    samples: Ids
    held: object = None
    ids: Ids | None = None

    def take(self, rows: Ids) -> SourceRows:
        """Some of the rows, by their numbers; of records that were read, or that lie in memory."""
        held = self.held.take(rows) if isinstance(self.held, Spans) else self.held
        return SourceRows(self.source, _some(self.at, rows), self.samples[rows], held, _none_or(self.ids, rows))


@dataclass(kw_only=True)
class Planned(Item):
    """Its memory is admitted, and it is known what to read."""

    parts: list[SourceRows]


@dataclass(kw_only=True)
class Loaded(Item):
    """Records, or blocks, are in memory."""

    parts: list[SourceRows]

    @property
    def size_bytes(self) -> int:
        """Bytes of the records."""
        return sum(int(part.held.length.sum()) for part in self.parts if isinstance(part.held, Spans))


@dataclass
class ItemPart:
    """Columns of an item's rows of some neighbouring sources: those numbered [sources[0], sources[1]).

    at: their places among the item's rows, None for all of them. ids: theirs, where they are not the item's: of rows that follow others (`zip`).
    """

    sources: tuple[int, int]
    at: Ids | None
    columns: Columns
    spec: Spec
    ids: Ids | None = None

    def take(self, rows: Ids) -> ItemPart:
        """Some of the rows, by their numbers."""
        columns = {name: take_rows(column, rows) for name, column in self.columns.items()}
        return ItemPart(self.sources, _some(self.at, rows), columns, self.spec, _none_or(self.ids, rows))


def _some(at: Ids | None, rows: Ids) -> Ids:
    return rows if at is None else at[rows]


def _none_or(ids: Ids | None, rows: Ids) -> Ids | None:
    return None if ids is None else ids[rows]


@dataclass(kw_only=True)
class Columned(Item):
    """Rows as columns: a part a source, until `concat` joins them."""

    parts: list[ItemPart]

    @property
    def size_bytes(self) -> int:
        """Bytes of the columns."""
        return sum(int(getattr(column, "nbytes", 0)) for part in self.parts for column in part.columns.values())

    @property
    def counted_bytes(self) -> int:
        """Bytes of the columns."""
        return self.size_bytes

    def part(self, sources: tuple[int, int]) -> ItemPart | None:
        """The part of some sources, None where the item has no rows of them."""
        return next((part for part in self.parts if part.sources == sources), None)

    def ids_of(self, part: ItemPart) -> Ids:
        """The ids of a part's rows."""
        if part.ids is not None:
            return part.ids
        return self.ids if part.at is None else self.ids[part.at]

    def keys_of(self, part: ItemPart) -> Ids:
        """The numbers by which a part's rows draw random numbers in their epoch: their ids, or these mixed with their draws."""
        draws, ids = self.find_draws(), self.ids_of(part)
        if draws is None:
            return ids
        return mix_rows(ids, draws if part.at is None else draws[part.at])

    def draw_of(self, part: ItemPart, *, is_frozen: bool) -> tuple[int, Ids]:
        """The epoch in which a part's rows draw random numbers, and their keys. is_frozen: as in epoch 0, whichever it is."""
        if not is_frozen:
            return self.epoch, self.keys_of(part)
        ids = self.ids_of(part)
        return 0, ids if self.find_draws() is None else mix_rows(ids, np.int64(0))


@dataclass(frozen=True, kw_only=True)
class LaneResult:
    """What comes out of a lane stage: rows `rows` of the columns, group after group.

    counts: how many come of each group. used: how many of its rows are consumed; the others are fed again, before the next ones of their lane.
    states: of the stage in each group's lane, after the used rows.
    """

    columns: Columns
    spec: Spec
    rows: Ids
    counts: Ids
    used: Ids
    states: Sequence[Any]

    @property
    def size_bytes(self) -> int:
        """Bytes of the columns."""
        return sum(int(getattr(column, "nbytes", 0)) for column in self.columns.values())


@dataclass(kw_only=True)
class LaneItem(Item):
    """What a lane stage made of an item. states: of the stage in the lanes of its groups, before their first rows."""

    made: LaneResult
    states: Sequence[Any]

    @property
    def size_bytes(self) -> int:
        """Bytes of what came out."""
        return self.made.size_bytes

    @property
    def counted_bytes(self) -> int:
        """Bytes of what came out."""
        return self.size_bytes


@dataclass(kw_only=True)
class Delivered(Item):
    """What the consumer works with."""

    columns: dict[str, Any]

    @property
    def size_bytes(self) -> int:
        """Bytes of the columns."""
        return sum(int(getattr(column, "nbytes", 0)) for column in self.columns.values())

    @property
    def counted_bytes(self) -> int:
        """Bytes of the columns."""
        return self.size_bytes


@dataclass(frozen=True)
class Stage:
    """A named function; `threads` run it at once. `kind` is what limits it: "io", "cpu", "python" or "copy".

    most: as many threads as a tuner may give it; 0: not tunable. tuned_as: "process", where threads wait for processes.
    is_reading: plans what is to be read, or reads it, and so computes little, but may wait; such stages are the first.
    leaves_bad_out: takes bad rows out of the item. is_with_one_before: so short that the threads of the stage before do it (see `run_together`).
    """

    name: str
    kind: str
    work: Callable[[Any], Item]
    threads: int = 1
    most: int = 0
    tuned_as: str = ""
    is_reading: bool = False
    leaves_bad_out: bool = False
    is_with_one_before: bool = False

    @property
    def is_tunable(self) -> bool:
        """Whether a tuner may change the number of its threads, unless the user fixed it."""
        return self.most > 0

    def then(self, work: Callable[[Any], Item]) -> Stage:
        """The same stage, which does this as well."""
        before = self.work
        return replace(self, work=lambda given: work(before(given)))


def run_together(stages: Iterable[Stage]) -> list[Stage]:
    """Stages, of which each has threads of its own: those that are done with the one before are part of it."""
    found = list[Stage]()
    for stage in stages:
        if stage.is_with_one_before:
            found[-1] = found[-1].then(stage.work)
        else:
            found.append(stage)
    return found


def told_apart(stages: Iterable[Stage]) -> list[Stage]:
    """Stages with a name of their own each: "transform", "transform 2"."""
    found, numbers = dict[str, Stage](), Counter[str]()
    for stage in stages:
        name = stage.name
        while name in found:
            numbers[stage.name] += 1
            name = f"{stage.name} {numbers[stage.name] + 1}"
        found[name] = stage if name == stage.name else replace(stage, name=name)
    return [*found.values()]
