"""WebDataset: tar archives in which neighbouring files of one name are a sample (github.com/webdataset/webdataset).

Nothing is extracted: a member's name is its sample's key and a column's name, never a path. Archives are read at any place by
an index of their samples, made once by a walk over the members' headers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from penstock.core import kernels
from penstock.core.columns.spec import Columns, Ids, Spans, Spec
from penstock.core.errors import DataError, RowError
from penstock.core.files.byte_ranges import ByteRanges
from penstock.core.files.shards import Shards
from penstock.core.limits import DEFAULT_LIMITS
from penstock.core.verbs.options import Options
from penstock.format.tar.columns import MemberColumn, Members, choose_columns
from penstock.format.tar.json_members import JsonMember, open_members
from penstock.source.manifest import Manifest, first_records
from penstock.source.protocol import Access, Allocate
from penstock.source.records.index import Framing, index_shards
from penstock.source.records.native_columns import parse_records
from penstock.source.selection import Selection

_FRAMING = Framing(
    kind="webdataset",
    version=1,
    index=kernels.index_tar_samples,
    packing=kernels.recognise_tar_packing,
    empty="no samples in {files} archive(s); a sample's files are named like 000.jpg and 000.cls",
)


@dataclass(frozen=True, eq=False)
class WebDatasetSource:
    """Samples of tar archives; a record is a sample's members with their headers.

    columns: members. json_members: those of which keys are columns. values_limit: see `Limits`.
    """

    manifest: Manifest
    spec: Spec
    columns: tuple[MemberColumn, ...]
    parser: kernels.TarParser = field(repr=False)
    json_members: Sequence[JsonMember] = ()
    access: Access = Access.RECORDS
    parsing: object = None
    values_limit: int = DEFAULT_LIMITS.values

    def only(self, names: Sequence[str]) -> WebDatasetSource:
        """The same samples, of which only these columns are parsed; all of them where some are keys of a JSON member."""
        if self.json_members:
            return self
        known = {column.name: column for column in self.columns}
        columns, spec = tuple(known[name] for name in names), {name: self.spec[name] for name in names}
        parser = kernels.TarParser([column.description() for column in columns], values_limit=self.values_limit)
        parsing = ("webdataset", columns, spec, self.values_limit)
        return replace(self, spec=spec, columns=columns, parser=parser, parsing=parsing)

    def parse(self, samples: Ids, records: Spans, allocate: Allocate, *, threads: int = 1) -> Columns:
        """One column a field of `spec`; RowError for the first sample that is damaged or lacks a member."""
        found = parse_records(self.parser, self.columns, records, allocate, threads)
        for member in self.json_members:
            contents = found[member.name]
            assert isinstance(contents, Spans)
            found |= member.parse(contents, allocate, threads)
        return {name: found[name] for name in self.spec}


def open_webdataset(shards: Shards, read: ByteRanges, options: Options) -> WebDatasetSource:
    """Indexes the archives and learns the columns from the first samples.

    Raises SourceError if there is no sample at all, DataError for damaged files and JSON, PlanError for columns that cannot be.
    """
    manifest = index_shards(shards, read, options, _FRAMING)
    samples = _first_samples(manifest, read)
    wanted, json_members = open_members(samples, options, manifest)
    columns = choose_columns(samples, wanted, shards.path(0))
    parser = kernels.TarParser([column.description() for column in columns], values_limit=options.limits.values)
    fields = {column.name: column.field for column in columns}
    fields |= {column.name: column.field for member in json_members for column in member.columns}
    spec = {name: fields[name] for name in Selection(options.columns).columns(fields)}
    parsing = None if json_members else ("webdataset", columns, spec, options.limits.values)
    limit = options.limits.values
    return WebDatasetSource(manifest, spec, columns, parser, json_members, parsing=parsing, values_limit=limit)


def _first_samples(manifest: Manifest, read: ByteRanges) -> list[Members]:
    """The members of the first samples."""
    records = first_records(manifest, read)
    samples: list[Members] = []
    for row in range(len(records)):
        record = records[row]
        try:
            members = kernels.tar_sample_members(record)
        except RowError as error:
            raise DataError(f"{manifest.place(row)}: {error.found}; {error.do}") from None
        samples.append({extension: record[first : first + size] for extension, first, size in members})
    return samples
