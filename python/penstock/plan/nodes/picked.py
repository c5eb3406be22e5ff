"""Verbs that chose rows of their input when they were written: by a predicate, a key, a class, by chance, or in another order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

from penstock.core.columns.picked_rows import RowNumbers
from penstock.plan.nodes.rows import RowChoice


@dataclass(frozen=True, kw_only=True, eq=False)
class PickedRows(RowChoice):
    """Rows of the input by their places, those of its natural order. picked: which; in a state, how many and a digest of them."""

    picked: RowNumbers
    verb: str = ""

    @property
    def keeps_places(self) -> bool:
        """Whether each row comes once."""
        return not self.picked.repeats

    def rows_of(self, below: Sequence[int]) -> int:
        """How many rows are left."""
        return len(self.picked)

    def said(self) -> Iterator[tuple[str, str]]:
        """How they were picked, and which they are."""
        for field in fields(self):
            if field.name not in ("input", "verb"):
                yield field.name, str(getattr(self, field.name))

    def none_left(self, below: int) -> str:
        """What to say where none is."""
        return f"{self.verb}: of {below:,} rows none is left"


@dataclass(frozen=True, kw_only=True, eq=False)
class Filter(PickedRows):
    """Rows for which a predicate is true. predicate: as text."""

    predicate: str
    verb: str = "filter"


@dataclass(frozen=True, kw_only=True, eq=False)
class Deduplicate(PickedRows):
    """One row of each set of those that are alike. by: an expression as text; how: and by which settings."""

    by: str
    how: str
    keep: str = "first"
    verb: str = "deduplicate"


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

    reads_by_number = True


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample(PickedRows):
    """Rows drawn by weights. weights: an expression as text, or a digest."""

    count: int
    weights: str = ""
    replacement: bool = False
    seed: int = 0
    verb: str = "sample"

    reads_by_number = True


@dataclass(frozen=True, kw_only=True, eq=False)
class Sort(PickedRows):
    """All rows, by a value."""

    by: str
    descending: bool = False
    verb: str = "sort"

    reads_by_number = True


@dataclass(frozen=True, kw_only=True, eq=False)
class Subset(PickedRows):
    """Rows by their numbers, in any order."""

    verb: str = "subset"

    reads_by_number = True


@dataclass(frozen=True, kw_only=True, eq=False)
class Exclude(RowChoice):
    """All rows of a source but some. picked: these, in ascending order; in a state, how many and a digest of them."""

    picked: RowNumbers
    verb: str = "exclude"

    def rows_of(self, below: Sequence[int]) -> int:
        """How many rows are left."""
        return below[0] - len(self.picked)

    def none_left(self, below: int) -> str:
        """What to say where none is."""
        return f"exclude: all {below:,} rows are bad samples; look at the quarantine file"
