"""Verbs that chose rows of their input when they were written: by a predicate, a key, a class, by chance, or in another order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.core.picked import Picked
from penstock.plan.row_choice import RowChoice

if TYPE_CHECKING:
    from penstock.plan.nodes import Node


@dataclass(frozen=True, kw_only=True, eq=False)
class PickedRows(RowChoice):
    """Rows of the input by their places, those of its natural order. picked: which; in a state, how many and a digest of them."""

    input: Node
    picked: Picked
    verb: str = ""

    def rows(self, _: int) -> int:
        """How many rows are left."""
        return len(self.picked)

    def none_left(self, below: int) -> str:
        """What to say where none is."""
        return f"{self.verb}: of {below:,} rows none is left"


@dataclass(frozen=True, kw_only=True, eq=False)
class Filter(PickedRows):
    """Rows for which a predicate is true. predicate: as text."""

    predicate: str
    verb: str = "filter"


@dataclass(frozen=True, kw_only=True, eq=False)
class Split(PickedRows):
    """One of the parts that rows were divided into. parts: names and shares; by, stratify: expressions as texts."""

    part: str
    parts: tuple[tuple[str, float], ...]
    by: str = ""
    stratify: str = ""
    seed: int = 0
    verb: str = "split"

    def none_left(self, below: int) -> str:
        """What to say where none is."""
        return f"split: part {self.part!r} has none of the {below:,} rows; give it a larger share, or another seed="


@dataclass(frozen=True, kw_only=True, eq=False)
class Balance(PickedRows):
    """As many rows of every class."""

    by: str
    mode: str
    seed: int = 0
    verb: str = "balance"


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample(PickedRows):
    """Rows drawn by weights. weights: an expression as text, or a digest."""

    count: int
    weights: str = ""
    replacement: bool = False
    seed: int = 0
    verb: str = "sample"


@dataclass(frozen=True, kw_only=True, eq=False)
class Sort(PickedRows):
    """All rows, by a value."""

    by: str
    descending: bool = False
    verb: str = "sort"


@dataclass(frozen=True, kw_only=True, eq=False)
class Subset(PickedRows):
    """Rows by their numbers, in any order."""

    verb: str = "subset"


@dataclass(frozen=True, kw_only=True, eq=False)
class Exclude(RowChoice):
    """All rows of a source but some. picked: these, in ascending order; in a state, how many and a digest of them."""

    input: Node
    picked: Picked
    verb: str = "exclude"

    def rows(self, below: int) -> int:
        """How many rows are left of so many."""
        return below - len(self.picked)

    def none_left(self, below: int) -> str:
        """What to say where none is."""
        return f"exclude: all {below:,} rows are bad samples; look at the quarantine file"


#: These verbs, and their names.
PICKED = (Filter, Split, Balance, Sample, Sort, Subset)
PICKING = tuple(kind.verb for kind in PICKED)
#: Those that may give rows in another order than they come, or several times.
REORDERING = (Balance, Sample, Sort, Subset)
