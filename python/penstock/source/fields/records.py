"""Records of fields (see rust/src/fields.rs): the source that MDS and LitData share, and how users choose among fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from penstock.core import kernels
from penstock.core.errors import DataError, PlanError, RowError
from penstock.core.options import Column, Options
from penstock.core.spec import Columns, Ids, Spans, Spec
from penstock.source.fields.codec import Leaf
from penstock.source.manifest import Manifest
from penstock.source.protocol import Access, Allocate
from penstock.source.selection import Selection

#: Makes the leaf of a field from the field's bytes in the first records.
MakeLeaf = Callable[[Spans], Leaf]


@dataclass(frozen=True, eq=False)
class FieldsSource:
    """Columns of records of fields.

    widths: bytes of each field of a record, -1 where the record states them; None if a record is one field, and nothing else. leaves: for each column the number of its field
    and how it is made.
    """

    manifest: Manifest
    spec: Spec
    widths: tuple[int, ...] | None
    leaves: Mapping[str, tuple[int, Leaf]]
    access: Access = Access.RECORDS

    def parse(self, samples: Ids, records: Spans, allocate: Allocate, *, threads: int = 1) -> Columns:
        """One column a field of `spec`. Raises RowError for the first row that is damaged."""
        fields = [records] if self.widths is None else split(records, self.widths)
        return {
            name: leaf.column(name, fields[number], allocate, threads) for name, (number, leaf) in self.leaves.items()
        }


def split(records: Spans, widths: tuple[int, ...]) -> list[Spans]:
    """The places of each field; RowError for the first record that is not exactly as long as its fields."""
    buffers, which = records.buffers, records.which
    offset, length = kernels.split_fields(list(buffers), which, records.offset, records.length, list(widths))
    rows = len(records)
    return [
        Spans(buffers, which, offset[number * rows : (number + 1) * rows], length[number * rows : (number + 1) * rows])
        for number in range(len(widths))
    ]


def no_records() -> Spans:
    """What columns are made by that are as the index says."""
    nothing = np.empty(0, dtype=np.int64)
    return Spans((), nothing, nothing, nothing)


def choose(options: Options, offered: Mapping[str, str], where: str) -> dict[str, Column]:
    """The columns that a user wants of those that are offered (name -> why it cannot be had, "" if it can).

    Raises PlanError for names that are not there, and for those that cannot be had; without `columns` all of them must be,
    since leaving some out silently would lose data.
    """
    chosen = Selection(options.columns).choose(offered, where)
    for name, column in chosen.items():
        if column.default is not None:
            raise PlanError(f"columns[{name!r}]: every record has {column.feature!r}; leave the default away")
        if why := offered[column.feature]:
            rest = ", ".join(repr(name) for name, why in offered.items() if not why)
            raise PlanError(f"{where}: column {column.feature!r}: {why}; leave it out with columns=[{rest}]")
    return chosen


def leaf_of(name: str, column: Column, make: MakeLeaf, spans: Spans, manifest: Manifest, where: str) -> Leaf:
    """The leaf of a column, as the first records and the user's wishes for dtype and shape say."""
    try:
        return make(spans).as_field(column.dtype, column.shape)
    except RowError as error:
        raise DataError(f"{manifest.place(error.row)}: column {column.feature!r}: {error.found}; {error.do}") from None
    except PlanError as error:
        raise PlanError(f"{where}: columns[{name!r}]: {error}") from None
