"""The stage of a cache: keeps the rows that were made, and joins them with those that were kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.batch.merge import gather
from penstock.core.columns.spec import Field
from penstock.plan.nodes import MapVerb
from penstock.resolve.cache_checks import refuse_random
from penstock.runtime.budget import Budget
from penstock.runtime.slots import Slots
from penstock.runtime.stage import Columned, ItemPart
from penstock.stages.cached.caches import CachedRows
from penstock.transform.function import BatchFunction


class KeepRows:
    """functions: those below the cache, of which some may turn out to draw random numbers."""

    def __init__(
        self, cached: CachedRows, functions: Sequence[tuple[MapVerb, BatchFunction]], slots: Slots, budget: Budget
    ) -> None:
        self._cached, self._functions, self._slots, self._budget = cached, functions, slots, budget

    def __call__(self, item: Columned) -> Columned:
        """One part of all rows instead of two."""
        made, kept = item.part(self._cached.sources), item.part(self._cached.home)
        if made is not None:
            self._check_draws()
            self._cached.rows.made += len(item.ids_of(made))
            self._cached.rows.put(item.ids_of(made) - self._cached.ids[0], made.columns, made.spec, self._budget.cpus)
        if kept is None:
            return item
        others = [part for part in item.parts if part is not made and part is not kept]
        kept.sources = self._cached.sources
        item.parts = [*others, kept if made is None else self._joined(made, kept, item.rows)]
        return item

    def _check_draws(self) -> None:
        for node, function in self._functions:
            if function.draws:
                refuse_random(node, freezes=self._cached.node.freeze_random, by_rows=not function.draws_unasked)

    def _joined(self, made: ItemPart, kept: ItemPart, rows: int) -> ItemPart:
        parts = [made, kept]
        at = np.concatenate([np.arange(rows) if part.at is None else part.at for part in parts])
        turn = np.argsort(at, kind="stable")
        counts = [rows if part.at is None else len(part.at) for part in parts]
        which = np.repeat(np.arange(2), counts)[turn]
        row = np.concatenate([np.arange(count) for count in counts])[turn]
        columns = dict[str, Any]()
        for name, field in made.spec.items():
            both: list[Any] = [part.columns[name] for part in parts]
            columns[name] = gather(both, which, row, name, field, self._allocate, threads=self._budget.cpus)
            if isinstance(columns[name], np.ndarray):
                columns[name] = columns[name].view(both[0].dtype)
        ids = None if made.ids is None or kept.ids is None else np.concatenate([made.ids, kept.ids])[turn]
        return ItemPart(self._cached.sources, at[turn] if len(at) < rows else None, columns, made.spec, ids)

    def _allocate(self, _: str, field: Field, rows: int) -> Any:
        return self._slots.array(field, rows)
