"""What follows from a plan before anything runs: of every node its rows, the ids of its sources, which rows belong together, columns and seed. Arithmetic, no I/O."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any, Generic, TypeVar

import numpy as np

from penstock.core.columns.spec import Ids, Spec
from penstock.core.errors import PlanError
from penstock.order.blocks import default_block_rows
from penstock.order.protocol import RowOrder
from penstock.order.rows.chosen import ChosenRows
from penstock.order.rows.mixed import Stop, mixed_rows
from penstock.order.rows.segments import Segments
from penstock.order.rows.zipped import FollowedRows, Zipped
from penstock.plan.columns import known_columns, spec_of
from penstock.plan.node import Known
from penstock.plan.nodes import Mix, Node, Origin, Read, Shuffle
from penstock.plan.tree import lane_stage, leaves, origins
from penstock.resolve.cut import cut
from penstock.resolve.orders import Below, chosen_of_kind
from penstock.source.manifest import digest_of
from penstock.source.nulls import stored
from penstock.source.protocol import Access, CompressedSource

_Value = TypeVar("_Value")


class _Once(Generic[_Value]):
    """A property that is found out once for each node, and lies there; nothing that it holds leads back to the node."""

    def __init__(self, find: Callable[[Any], _Value]) -> None:
        self._find, self._name, self.__doc__ = find, find.__name__, find.__doc__

    def __get__(self, of: Resolved, _: type | None = None) -> _Value:
        kept = vars(of.node).setdefault("_resolved", {})
        if self._name not in kept:
            kept[self._name] = self._find(of)
        value: _Value = kept[self._name]
        return value


class Resolved:
    """What follows from a node and all below it: found out when it is first asked for, of its inputs first, and then known to whoever resolves a plan that holds the node.

    Ids are counted from the node's first origin on. What a lane stage gives is one, whose ids have room for as many rows as ever come.
    """

    def __init__(self, node: Node) -> None:
        self.node = node

    @property
    def inputs(self) -> tuple[Resolved, ...]:
        """The same of its inputs."""
        return tuple(map(Resolved, self.node.below))

    @_Once
    def rows(self) -> int:
        """Rows of an epoch; PlanError where only a lane stage knows."""
        node = self.node
        if node.row_effect == "counted":
            raise PlanError(
                f"{node.verb}: the number of rows that it gives is not known in advance; say how long an epoch is: batch(…, steps=…)"
            )
        if node.epoch_rows is not None:
            return node.epoch_rows
        rows = [one.rows for one in self.inputs]
        return mixed_rows(node.quotas, rows, Stop(node.stop), None) if isinstance(node, Mix) else node.rows_of(rows)

    @property
    def origins(self) -> tuple[Origin, ...]:
        """Where rows come from: the sources, and what the topmost lane stages give."""
        return origins(cut(self.node))

    @_Once
    def first_ids(self) -> Ids:
        """The id of the first row of every origin, and the end of all: see `order.protocol.RowOrder`."""
        if self._is_like_input:
            return self.inputs[0].first_ids
        return np.cumsum([0, *(origin.samples for origin in self.origins)], dtype=np.int64)

    @property
    def numbered_sources(self) -> list[tuple[Read, int, int]]:
        """The sources, without what lane stages give: each with its number among all origins, and the id of its first row."""
        numbered = enumerate(zip(self.origins, self.first_ids[:-1].tolist(), strict=True))
        return [(origin, number, first_id) for number, (origin, first_id) in numbered if isinstance(origin, Read)]

    @property
    def ids(self) -> int:
        """How many ids its origins have."""
        return int(self.first_ids[-1])

    @property
    def begins(self) -> tuple[int, ...]:
        """The first id of every input."""
        return tuple(np.cumsum([0, *(one.ids for one in self.inputs)])[:-1].tolist())

    @_Once
    def block_rows(self) -> int:
        """Rows that are worth reading together: what suits the source, or the least of what suits several that are read."""
        return self.inputs[0].block_rows if self._is_like_input else self._least(_block_rows)

    @_Once
    def read_rows(self) -> int:
        """The same where nothing is shuffled, so that no order depends on it: fewer of what takes more unpacked."""
        return self.inputs[0].read_rows if self._is_like_input else self._least(_read_rows)

    def _least(self, rows_of: Callable[[Origin], int]) -> int:
        every = self.origins
        read = [origin for origin in every if origin.access is not Access.MEMORY or origin.files]
        rows = list(map(rows_of, read or every))
        if self.is_zipped:  # files of a row each are read one by one there, whatever others like
            rows = [some for some in rows if some > 1] or rows
        return min(rows)

    @_Once
    def is_zipped(self) -> bool:
        """Whether rows come of several sources side by side."""
        if self.node.row_effect == "counted":
            return False
        return self.node.joins == "columns" or any(one.is_zipped for one in self.inputs)

    @property
    def _is_like_input(self) -> bool:
        """Whether it has the sources of its one input."""
        return len(self.node.below) == 1 and self.node.row_effect != "counted"

    @_Once
    def chosen(self) -> ChosenRows | None:
        """The ids of its rows in their natural order; None where it has an order of its own."""
        if self.node.row_effect == "counted" or any(one.chosen is None for one in self.inputs):
            return None
        return chosen_of_kind(self.node, Below(self, None))

    @property
    def natural(self) -> ChosenRows:
        """The same of a plan in which nothing has an order of its own, as rows that are read in blocks; PlanError if there are none."""
        rows = self.chosen
        assert rows is not None, "the plan's checks say so before"
        if not rows.rows:
            raise PlanError(f"{self.node.verb}: there are no rows")
        return rows.read_by(self.block_rows, self.first_ids)

    @_Once
    def links(self) -> tuple[FollowedRows, ...]:
        """How rows follow those of other sources, by the `zip`s below; outer ones first."""
        if self.node.row_effect == "counted":
            return ()
        inner = [_moved(link, begin) for one, begin in zip(self.inputs, self.begins, strict=True) for link in one.links]
        if self.node.joins != "columns":
            return tuple(inner)
        ids = [(begin, begin + one.ids) for one, begin in zip(self.inputs, self.begins, strict=True)]
        made = any(lane_stage(one.node) is not None for one in self.inputs)
        leader, *others = [Segments(((0, one.ids, 1),)) if made else one.natural for one in self.inputs]
        mine = [
            FollowedRows(leader=leader, follower=other, leads=ids[0], follows=follows)
            for other, follows in zip(others, ids[1:], strict=True)
        ]
        return (*mine, *inner)

    def with_links(self, rows: RowOrder) -> RowOrder:
        """An order of its rows, also of those that follow others. Beside blocks of these, files of a row each are still read one by one."""
        if not self.links:
            return rows
        ranges = zip(self.origins, pairwise(self.first_ids.tolist()), strict=True)
        single = tuple(ids for origin, ids in ranges if _block_rows(origin) == 1)
        return Zipped(input=rows, links=self.links, single=single)

    @property
    def access(self) -> set[Access | None]:
        """How the rows of its origins are reached; None for those that a lane stage makes."""
        return {origin.access for origin in self.origins}

    @property
    def spec(self) -> Spec:
        """The columns that its sources offer."""
        return spec_of(self.node)

    @property
    def columns(self) -> Known:
        """The columns that come out, and their types."""
        return known_columns(self.node)

    @_Once
    def shuffle_seed(self) -> int | None:
        """The seed of the first shuffle; None if nothing is shuffled."""
        seeds = (one.shuffle_seed for one in self.inputs)
        own = self.node.seed if isinstance(self.node, Shuffle) else None
        return next((seed for seed in seeds if seed is not None), own)

    @property
    def seed(self) -> int:
        """The seed of random ops: that of the first shuffle, else 0."""
        return self.shuffle_seed or 0

    @property
    def digest(self) -> str:
        """32 hex digits that identify the data."""
        digests = [leaf.digest for leaf in leaves(self.node)]
        return digests[0] if len(digests) == 1 else digest_of(" ".join(digests))

    def runs_of_order(self, first: int = 0) -> list[tuple[int, int]]:
        """Runs of sources [low, high) that together make all of each other's rows: what joins them and lies below is order alone. first: the number of its first source."""
        if self.is_order_alone:
            return [(first, first + len(self.origins))]
        found = list[tuple[int, int]]()
        for one in self.inputs:
            found += one.runs_of_order(found[-1][1] if found else first)
        return found

    @_Once
    def is_order_alone(self) -> bool:
        """Whether only the order works on the rows of its sources."""
        node = self.node
        if node.row_effect == "counted" or not node.below:
            return True
        return (node.is_order or node.joins == "rows") and all(one.is_order_alone for one in self.inputs)


def resolve(root: Node) -> Resolved:
    """What follows from a plan, for its root and by `inputs` for every node: arithmetic that is done once for each node."""
    return Resolved(root)


def keeps_all_rows(node: Node) -> bool:
    """Whether a node gives all rows of the one below it, in whatever order."""
    return len(node.below) == 1 and (node.row_effect == "same" or isinstance(node, Shuffle))


def below_all_rows(root: Node) -> Node:
    """The plan below all that keeps its rows, if not their order."""
    while keeps_all_rows(root):
        (root,) = root.below
    return root


def _block_rows(origin: Origin) -> int:
    """Rows that are worth reading together."""
    if origin.block_rows is not None:
        return origin.block_rows
    return default_block_rows(origin.samples, origin.size_bytes, origin.files)


def _read_rows(origin: Origin) -> int:
    """Rows that are worth reading together, unpacked."""
    rows = _block_rows(origin)
    if not isinstance(origin, Read) or not isinstance(stored(origin.opened.source), CompressedSource):
        return rows
    return min(rows, max(2, default_block_rows(origin.samples, origin.open_bytes, origin.files)))


def _moved(link: FollowedRows, by: int) -> FollowedRows:
    if not by:
        return link
    (first, end), (begin, last) = link.leads, link.follows
    return replace(link, leads=(first + by, end + by), follows=(begin + by, last + by))
