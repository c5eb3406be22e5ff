"""Records of fields (see rust/src/records/fields.rs): the source that RecordIO, MDS and LitData share, and how users choose among fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.core import kernels
from penstock.core.columns.spec import Columns, Ids, Spans, Spec
from penstock.core.errors import DataError, PlanError, RowError
from penstock.core.files.byte_ranges import ByteRanges
from penstock.core.messages import quoted
from penstock.core.verbs.options import Column, Options
from penstock.source.fields.codec import Leaf
from penstock.source.manifest import Manifest, first_records
from penstock.source.protocol import Access, Allocate
from penstock.source.selection import Selection

#: Makes the leaf of a field from the field's bytes in the first records.
MakeLeaf = Callable[[Spans], Leaf]


#: The places of each field in records, by name; RowError for the first record that is damaged.
Split = Callable[[Spans], Mapping[str, Spans]]


@dataclass(frozen=True, eq=False)
class FieldsSource:
    """Columns of records of fields: for each the name of its field, and how it is made."""

    manifest: Manifest
    spec: Spec
    split: Split
    leaves: Mapping[str, tuple[str, Leaf]]
    access: Access = Access.RECORDS

    def only(self, names: Sequence[str]) -> FieldsSource:
        """The same records with these columns alone."""
        return replace(self, spec={n: self.spec[n] for n in names}, leaves={n: self.leaves[n] for n in names})

    def parse(self, samples: Ids, records: Spans, allocate: Allocate, *, threads: int = 1) -> Columns:
        """One column a field of `spec`. Raises RowError for the first row that is damaged."""
        fields = self.split(records)
        return {
            name: leaf.column(name, fields[field], allocate, threads) for name, (field, leaf) in self.leaves.items()
        }


def split_fields(widths: Mapping[str, int], records: Spans) -> dict[str, Spans]:
    """The places of fields of these widths, -1 where the record states them; RowError for the first record of another length."""
    buffers, which, rows = records.buffers, records.which, len(records)
    offset, length = kernels.split_fields(list(buffers), which, records.offset, records.length, list(widths.values()))
    parts = [slice(number * rows, number * rows + rows) for number in range(len(widths))]
    return {name: Spans(buffers, which, offset[part], length[part]) for name, part in zip(widths, parts, strict=True)}


def one_field(name: str, records: Spans) -> dict[str, Spans]:
    """Records that are one field, and nothing else."""
    return {name: records}


def first_fields(manifest: Manifest, read: ByteRanges, split: Split) -> Mapping[str, Spans]:
    """The fields of the first records; DataError for one that is damaged."""
    try:
        return split(first_records(manifest, read, across=True))
    except RowError as error:
        raise DataError(f"{manifest.place(error.row)}: {error.found}; {error.do}") from None


def fields_source(
    manifest: Manifest,
    split: Split,
    makers: Mapping[str, MakeLeaf | str],
    fields: Mapping[str, Spans],
    options: Options,
    where: str,
) -> FieldsSource:
    """The columns that a user wants. makers: how each field becomes one, or why it cannot. fields: of the first records."""
    offered = {name: maker if isinstance(maker, str) else "" for name, maker in makers.items()}
    leaves = {}
    for name, column in choose(options, offered, where).items():
        maker = makers[column.feature]
        assert not isinstance(maker, str)
        leaves[name] = (column.feature, leaf_of(name, column, maker, fields[column.feature], manifest, where))
    return FieldsSource(manifest, {name: leaf.field for name, (_, leaf) in leaves.items()}, split, leaves)


def choose(options: Options, offered: Mapping[str, str], where: str) -> dict[str, Column]:
    """The columns that a user wants of those that are offered (name -> why it cannot be had, "" if it can).

    Raises PlanError for names that are not there, and for those that cannot be had; without `columns` all of them must be,
    since leaving some out silently would lose data.
    """
    chosen = Selection(options.columns).choose(offered, where)
    for name, column in chosen.items():
        if column.default is not None:
            raise PlanError(
                f"columns[{quoted(name)}]: every record has {quoted(column.feature)}; leave the default away"
            )
        if why := offered[column.feature]:
            rest = ", ".join(repr(name) for name, why in offered.items() if not why)
            raise PlanError(f"{where}: column {quoted(column.feature)}: {why}; leave it out with columns=[{rest}]")
    return chosen


def leaf_of(name: str, column: Column, make: MakeLeaf, spans: Spans, manifest: Manifest, where: str) -> Leaf:
    """The leaf of a column, as the first records and the user's wishes for dtype and shape say."""
    try:
        return make(spans).as_field(column.dtype, column.shape)
    except RowError as error:
        raise DataError(
            f"{manifest.place(error.row)}: column {quoted(column.feature)}: {error.found}; {error.do}"
        ) from None
    except PlanError as error:
        raise PlanError(f"{where}: columns[{quoted(name)}]: {error}") from None
