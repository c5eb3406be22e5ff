"""The rows of a plan in blocks of columns, each once: what statistics are made of."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core.columns.row_sources import RowSources
from penstock.core.columns.spec import Ids
from penstock.looking.column_values import parts_of, taken, written
from penstock.looking.computed import MadeColumns
from penstock.looking.rows import Looking, digest
from penstock.plan.columns import check_names
from penstock.plan.nodes import Node, Read, Shuffle, describe
from penstock.plan.tree import flow, leaves
from penstock.resolve.resolved import resolve
from penstock.resolve.row_places import RowPlaces, row_sources
from penstock.stages.read.parse import NamedRows


@dataclass(frozen=True, eq=False)
class RowBlock:
    """Some rows: columns by name, the rows' ids, and what they are ids in."""

    columns: Mapping[str, Any]
    ids: Ids
    places: RowPlaces
    sources: RowSources

    def place(self, row: int) -> tuple[str, int]:
        """Where a row lies, in words, and its id in its source."""
        number = int(self.ids[row])
        return self.places(number), self.places.own_id(number)


class Blocks:
    """Goes through some columns of a plan, whose order does not matter: shuffles are looked through.

    Attributes:
        rows: how many there are.
        digest: 32 hex digits of the data, and of which rows of it these are.
        sources: what the rows' ids are ids in.

    sees_nulls: whether the columns have their nulls, whatever batches have in their place.
    keeps_repeated: whether text of which few values stand in many rows may come as Arrow dictionaries.
    """

    def __init__(
        self,
        verb: str,
        root: Node,
        names: Collection[str],
        *,
        sees_nulls: bool = False,
        keeps_repeated: bool = False,
    ) -> None:
        while isinstance(root, Shuffle):
            root = root.input
        self._looking, self._root, self._names = Looking(verb, root, None), root, {*names}
        self._sees_nulls, self._keeps_repeated = sees_nulls, keeps_repeated
        check_names(verb, names, root)
        self._made = MadeColumns(verb, root, self._names, sees_nulls=sees_nulls)
        self.rows = resolve(root).natural.rows
        chosen = [describe(node) for node in flow(root) if not isinstance(node, Read)]
        self.digest = digest("\0".join([resolve(root).digest, *chosen]))
        self.sources = row_sources(resolve(root).first_ids, leaves(root))

    @property
    def ids(self) -> Ids:
        """The ids of all rows, as often as they come."""
        rows = resolve(self._root).natural
        return np.arange(rows.rows) if rows.is_identity else rows.ids(np.arange(rows.rows))

    def __iter__(self) -> Iterator[RowBlock]:
        resolved = resolve(self._root)
        rows, places = resolved.natural, RowPlaces(resolved.first_ids, leaves(self._root), resolved.links)
        times = None
        if rows.is_identity:
            ids: Ids | range = range(rows.rows)
        else:
            ids, times = np.unique(self.ids, return_counts=True)
            if bool((times == 1).all()):
                times = None
        done = 0
        keeps_repeated = self._keeps_repeated and self._made.are_stored
        for part in parts_of(
            self._root, self._made.needed, ids, sees_nulls=self._sees_nulls, keeps_repeated=keeps_repeated
        ):
            mine = written(ids[done : done + part.rows])
            with NamedRows(places, mine, places.own_id):
                columns = self._made.of(part.columns, part.rows)
            if times is not None:  # rows that come several times count as often
                again = np.repeat(np.arange(part.rows), times[done : done + part.rows])
                mine, columns = mine[again], {name: taken(column, again) for name, column in columns.items()}
            done += part.rows
            yield RowBlock(columns, mine, places, self.sources)
