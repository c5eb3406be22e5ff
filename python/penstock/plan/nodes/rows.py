"""Which rows of the input there are, and their order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.core.errors import PlanError
from penstock.core.given import is_one_of, is_whole
from penstock.core.quoted import quoted
from penstock.plan.nodes.words import LATER
from penstock.plan.row_choice import RowChoice

if TYPE_CHECKING:
    from penstock.plan.nodes import Node

#: Rows of a batch, or steps of an epoch: more than anybody has, and few enough that their products have room in 64 bits.
MOST_ROWS = 1 << 40


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """Several epochs as one."""

    input: Node
    times: int
    verb: str = "repeat"

    def __post_init__(self) -> None:
        if not is_whole(self.times) or not 1 <= self.times < MOST_ROWS:
            raise PlanError(f"repeat({quoted(self.times)}): how often, from 1 to 2**40, in whole numbers")


@dataclass(frozen=True, kw_only=True)
class Take(RowChoice):
    """The first rows."""

    input: Node
    count: int
    verb: str = "take"

    def __post_init__(self) -> None:
        _check_count(self)

    def rows(self, below: int) -> int:
        """How many rows are left of so many."""
        return min(below, int(self.count))

    def none_left(self, below: int) -> str:
        """What to say where none is."""
        return "take(0): no rows are left to make a batch of; take at least one"


@dataclass(frozen=True, kw_only=True)
class Skip(RowChoice):
    """All but the first rows."""

    input: Node
    count: int
    verb: str = "skip"

    def __post_init__(self) -> None:
        _check_count(self)

    def rows(self, below: int) -> int:
        """How many rows are left of so many."""
        return max(0, below - int(self.count))

    def none_left(self, below: int) -> str:
        """What to say where none is."""
        return f"skip({self.count:,}): there are {below:,} rows, and none is left; skip fewer"


@dataclass(frozen=True, kw_only=True)
class Every(RowChoice):
    """Every n-th row, from the first on."""

    input: Node
    count: int
    verb: str = "every"

    def __post_init__(self) -> None:
        if not is_whole(self.count) or not 1 <= self.count < 2**63:
            raise PlanError(f"every({quoted(self.count)}): a distance in rows, from 1 to 2**63")

    def rows(self, below: int) -> int:
        """How many rows are left of so many."""
        return -(-below // int(self.count))

    def none_left(self, below: int) -> str:
        """What to say where none is."""
        return "every: there are no rows"


@dataclass(frozen=True, kw_only=True)
class Shuffle:
    """Another order for every epoch. mode "block" mixes blocks and windows, "global" single samples.

    window: how many rows are mixed of sources that can only be read in one order.
    """

    input: Node
    seed: int = 0
    mode: str = "block"
    block_rows: int | None = None
    window_blocks: int | None = None
    window: int | None = field(default=None, metadata=LATER)
    verb: str = "shuffle"

    def __post_init__(self) -> None:
        if not is_one_of(self.mode, ("block", "global")):
            raise PlanError(f"shuffle: mode={quoted(self.mode)}; choose 'block' or 'global'")
        check_seed("shuffle", self.seed)
        for name in ("block_rows", "window_blocks", "window"):
            value = getattr(self, name)
            if value is not None and (not is_whole(value) or not 1 <= value < 2**63):
                raise PlanError(f"shuffle: {name}={quoted(value)}; it must be at least 1, and a whole number")


@dataclass(frozen=True, kw_only=True)
class Shard:
    """Every node has files of its own; `samples` counts those of each."""

    input: Node
    samples: tuple[int, ...]
    verb: str = "shard"

    def __post_init__(self) -> None:
        if not self.samples or not all(is_whole(count) and count > 0 for count in self.samples):
            raise PlanError(
                f"shard: samples={quoted(self.samples)}; pass len(dataset) of every node, none of them empty"
            )


def _check_count(node: Take | Skip) -> None:
    if not is_whole(node.count) or not 0 <= node.count < 2**63:
        raise PlanError(f"{node.verb}({quoted(node.count)}): a number of rows, from 0 on and below 2**63")


def check_seed(verb: str, seed: Any) -> None:
    """PlanError for what is no seed."""
    if not is_whole(seed) or not 0 <= seed < 2**64:
        raise PlanError(f"{verb}: seed={quoted(seed)}; a seed is a number from 0 to 2**64 - 1")
