"""What formats of lines share: files indexed natively, line by line, and the first records to learn columns from."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

from penstock.core import kernels
from penstock.core.byte_ranges import ByteRanges
from penstock.core.errors import SourceError
from penstock.core.options import Options
from penstock.core.shards import Shards
from penstock.core.spec import Ids, Spans
from penstock.source.manifest import Manifest
from penstock.source.records.index import Framing, index_shards
from penstock.source.records.native_columns import read_first_records

#: Records that are looked at to learn columns, and how many bytes of them at most.
INFER_RECORDS = 1_000
INFER_BYTES = 16 << 20


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


@dataclass(frozen=True, eq=False)
class LineManifest(Manifest):
    """A manifest of lines; `settings` are the options that change what the same bytes mean."""

    settings: str = ""

    @cached_property
    def digest(self) -> str:
        """As for other data, and the settings."""
        state = hashlib.blake2b(super().digest.encode(), digest_size=16)
        state.update(self.settings.encode())
        return state.hexdigest()


def open_lines(
    shards: Shards, read: ByteRanges, options: Options, style: LineStyle, format: str, settings: str = ""
) -> LineManifest:
    """The manifest of files of lines, packed ones unpacked.

    Raises SourceError where there is no record at all, DataError for files that are damaged or are UTF-16.
    """
    if len(shards) == 0:
        raise SourceError(f"no {format} files to read")
    index = index_shards(shards, read, options, _framing(style, format))
    if index.first_sample[-1] == 0:
        raise SourceError(f"{shards.path(0)}: no lines in {len(shards):,} file(s); write some, or point to others")
    manifest = Manifest(format, shards, index.first_sample, index.offset, index.length, index.unpacked)
    return LineManifest(**vars(manifest), settings=settings)


def _framing(style: LineStyle, format: str) -> Framing:
    def index(
        paths: list[str], sizes: Ids, *, record_bytes: int, threads: int, progress: kernels.WorkProgress
    ) -> tuple[Ids, Ids, Ids]:
        return kernels.index_lines(
            paths,
            sizes,
            blank=style.blank,
            quoted=style.quoted,
            header=style.header,
            record_bytes=record_bytes,
            threads=threads,
            progress=progress,
        )

    settings = f" {style.blank} {style.quoted} {style.header}"
    return Framing(kind=format, version=1, index=index, packing=kernels.recognise_packing, settings=settings)


def first_records(manifest: Manifest, read: ByteRanges) -> Spans:
    """The first records of the first file that has any: at least one, at most `INFER_RECORDS`."""
    return read_first_records(manifest, read, INFER_RECORDS, INFER_BYTES)
