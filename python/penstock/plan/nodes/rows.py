"""Which rows of the input there are, and their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.core.arguments import is_one_of, is_whole
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.plan.node import Node, OrderVerb
from penstock.plan.nodes.words import LATER
from penstock.plan.tree import ends_with_data, find, find_where, lane_stage

#: Rows of a batch, or steps of an epoch: more than anybody has, and few enough that their products have room in 64 bits.
MOST_ROWS = 1 << 40


@dataclass(frozen=True, kw_only=True, eq=False)
class CountingVerb(OrderVerb):
    """A verb that counts the rows of its input."""

    def check(self) -> None:
        """PlanError where rows below have no number, or come in batches or shards already."""
        self.check_rows()
        if find_where(self.input, lambda node: node.is_batch):
            raise PlanError(f"{self.verb}: must come before batch, since it counts rows and not batches")
        if find(self.input, Shard):
            raise PlanError(f"{self.verb}: must come before shard, which says how many rows each node has")

    def check_rows(self) -> None:
        """PlanError where rows below have no number."""
        check_countable(self)


@dataclass(frozen=True, kw_only=True, eq=False)
class RowChoice(CountingVerb):
    """A verb that chooses rows of its input."""

    row_effect = "chosen"

    def none_left(self, below: int) -> str:
        """What to say where none of so many rows is left."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Repeat(CountingVerb):
    """Several epochs as one."""

    times: int
    verb: str = "repeat"

    grows = True
    own_epochs = True
    ordered_as = "repeated"
    keeps_steps = True

    def __post_init__(self) -> None:
        if not is_whole(self.times) or not 1 <= self.times < MOST_ROWS:
            raise PlanError(f"repeat({quoted(self.times)}): how often, from 1 to 2**40, in whole numbers")

    def rows_of(self, below: Sequence[int]) -> int:
        """All of each epoch."""
        return below[0] * self.times


@dataclass(frozen=True, kw_only=True, eq=False)
class Cut(RowChoice):
    """Rows of an epoch's begin, or all but these. Above a lane stage, of epochs that end with its data."""

    count: int

    keeps_ends = needs_ends = needs_all_lanes = True

    def __post_init__(self) -> None:
        if not is_whole(self.count) or not 0 <= self.count < 2**63:
            raise PlanError(f"{self.verb}({quoted(self.count)}): a number of rows, from 0 on and below 2**63")

    def check_rows(self) -> None:
        """PlanError where rows below have no number, and no end either."""
        if not ends_with_data(self.input):
            super().check_rows()


@dataclass(frozen=True, kw_only=True)
class Take(Cut):
    """The first rows."""

    verb: str = "take"

    def rows_of(self, below: Sequence[int]) -> int:
        """How many rows are left."""
        return min(below[0], int(self.count))

    def none_left(self, below: int) -> str:
        """What to say where none is."""
        return "take(0): no rows are left to make a batch of; take at least one"


@dataclass(frozen=True, kw_only=True)
class Skip(Cut):
    """All but the first rows."""

    verb: str = "skip"

    def rows_of(self, below: Sequence[int]) -> int:
        """How many rows are left."""
        return max(0, below[0] - int(self.count))

    def none_left(self, below: int) -> str:
        """What to say where none is."""
        return f"skip({self.count:,}): there are {below:,} rows, and none is left; skip fewer"


@dataclass(frozen=True, kw_only=True)
class Every(RowChoice):
    """Every n-th row, from the first on."""

    count: int
    verb: str = "every"

    def __post_init__(self) -> None:
        if not is_whole(self.count) or not 1 <= self.count < 2**63:
            raise PlanError(f"every({quoted(self.count)}): a distance in rows, from 1 to 2**63")

    def rows_of(self, below: Sequence[int]) -> int:
        """How many rows are left."""
        return -(-below[0] // int(self.count))

    def none_left(self, below: int) -> str:
        """What to say where none is."""
        return "every: there are no rows"


@dataclass(frozen=True, kw_only=True)
class Shuffle(OrderVerb):
    """Another order for every epoch. mode "block" mixes blocks and windows, "global" single samples.

    window: how many rows are mixed of sources that can only be read in one order.
    """

    seed: int = 0
    mode: str = "block"
    block_rows: int | None = None
    window_blocks: int | None = None
    window: int | None = field(default=None, metadata=LATER)
    verb: str = "shuffle"

    ordered_as = "shuffled"
    keeps_steps = True

    def __post_init__(self) -> None:
        if not is_one_of(self.mode, ("block", "global")):
            raise PlanError(f"shuffle: mode={quoted(self.mode)}; choose 'block' or 'global'")
        check_seed("shuffle", self.seed)
        for name in ("block_rows", "window_blocks", "window"):
            value = getattr(self, name)
            if value is not None and (not is_whole(value) or not 1 <= value < 2**63):
                raise PlanError(f"shuffle: {name}={quoted(value)}; it must be at least 1, and a whole number")

    def check(self) -> None:
        """PlanError where rows are shuffled already, or something chose rows of a mix, whose datasets it shuffles."""
        check_countable(self)
        if find(self.input, Shuffle):
            raise PlanError("shuffle: the plan shuffles already; once is enough, every epoch has another order")
        _check_shuffled_inputs(self.input)
        if find_where(self.input, lambda node: node.is_batch):
            raise PlanError("shuffle: must come before batch, since it decides which samples make a batch")


@dataclass(frozen=True, kw_only=True)
class Shard(OrderVerb):
    """Every node has files of its own; `samples` counts those of each."""

    samples: tuple[int, ...]
    verb: str = "shard"

    fixes_epoch = True
    keeps_steps = True

    def __post_init__(self) -> None:
        if not self.samples or not all(is_whole(count) and count > 0 for count in self.samples):
            raise PlanError(
                f"shard: samples={quoted(self.samples)}; pass len(dataset) of every node, none of them empty"
            )

    def check(self) -> None:
        """PlanError where rows below are counted by lanes, or are in batches already."""
        check_countable(self)
        mixed = find_where(self.input, lambda node: node.joins == "rows" and node.own_epochs)
        if mixed is not None and mixed.epoch_rows is None:
            raise PlanError(
                "shard: nodes agree on rows before they have lanes, and a mix ends by its lanes; write mix(…, rows=…)"
            )
        if find(self.input, Shard) or find_where(self.input, lambda node: node.is_batch):
            raise PlanError("shard: once, and before batch, since it decides which samples make a batch")


def check_countable(new: OrderVerb) -> None:
    """PlanError for a verb that counts rows of which only a lane stage knows how many there are."""
    if (staged := lane_stage(new.input)) is not None:
        raise PlanError(
            f"{new.verb}: cannot follow {staged.verb}, whose number of rows is not known in advance; write {new.verb}(…) before {staged.verb}(…)"
        )


def _check_shuffled_inputs(node: Node) -> None:
    """A shuffle of a mix, or of what is repeated, shuffles each dataset below; so nothing may choose rows of the whole before."""
    found = _with_own_epochs(node)
    if found is None:
        return
    if found is not node and (node.row_effect == "chosen" or node.joins == "rows"):
        raise PlanError(
            f"shuffle: {node.verb} stands between it and {found.verb}, whose datasets it shuffles; write {found.verb}(…).shuffle(…)."
            f"{node.verb}(…), or shuffle the datasets before"
        )
    for below in node.below:
        _check_shuffled_inputs(below)


def _with_own_epochs(node: Node) -> Node | None:
    """The node, if its inputs are in epochs of their own, else one below it: a mix, or what is repeated."""
    if node.own_epochs:
        return node
    return find_where(node, lambda one: one.own_epochs and one.joins) or find_where(node, lambda one: one.own_epochs)


def check_seed(verb: str, seed: Any) -> None:
    """PlanError for what is no seed."""
    if not is_whole(seed) or not 0 <= seed < 2**64:
        raise PlanError(f"{verb}: seed={quoted(seed)}; a seed is a number from 0 to 2**64 - 1")
