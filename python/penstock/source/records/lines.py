"""What formats of lines share: files indexed natively, line by line, and the first records to learn columns from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from penstock.core import kernels
from penstock.core.columns.spec import Spans
from penstock.core.files.byte_ranges import ByteRanges
from penstock.core.files.shards import Shards
from penstock.core.verbs.options import Options
from penstock.source.manifest import Manifest, first_records
from penstock.source.records.index import Framing, index_shards


@dataclass(frozen=True, kw_only=True)
class LineStyle:
    """What a record is.

    blank: which lines are no records: "kept" (all are), "empty" or "white" (of white space only); they belong to the record
    that follows. quoted: the byte between fields, where newlines inside quotes end no record; header: whether the first
    record of every file is left out.
    """

    blank: str = "kept"
    quoted: int | None = None
    header: bool = False


def open_lines(
    shards: Shards, read: ByteRanges, options: Options, style: LineStyle, format: str, settings: str = ""
) -> Manifest:
    """The manifest of files of lines, packed ones unpacked; `settings` are the options that change what the same bytes mean.

    Raises SourceError where there is no record at all, DataError for files that are damaged or are UTF-16.
    """
    wanted = "records behind a header" if style.header else "lines"
    framing = Framing(
        kind=format,
        version=1,
        index=partial(kernels.index_lines, **vars(style)),
        packing=kernels.recognise_packing,
        settings=f" {style.blank} {style.quoted} {style.header}",
        empty=f"no {wanted} in {{files}} file(s); write some, point to others, or convert files whose lines end with \\r alone",
    )
    return replace(index_shards(shards, read, options, framing), settings=settings)


def first_lines(manifest: Manifest, read: ByteRanges) -> Spans:
    """The first lines of the first file that has any, to learn columns from: at least one, at most 1,000."""
    return first_records(manifest, read, 1_000, 16 << 20)
