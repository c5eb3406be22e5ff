"""Plain text: every line is a sample, empty ones included, as tf.data's TextLineDataset has it."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core import kernels
from penstock.core.columns.ragged import texts_of
from penstock.core.columns.spec import Columns, Field, Ids, Spans, Spec
from penstock.core.errors import PlanError
from penstock.core.files.byte_ranges import ByteRanges
from penstock.core.files.shards import Shards
from penstock.core.verbs.options import Options
from penstock.source.manifest import Manifest
from penstock.source.protocol import Access, Allocate
from penstock.source.records.lines import LineStyle, open_lines
from penstock.source.selection import Selection


@dataclass(frozen=True, eq=False)
class TextLines:
    """One column of text, under the name that was asked for; lines come without their ends."""

    manifest: Manifest
    name: str
    access: Access = Access.RECORDS

    @property
    def spec(self) -> Spec:
        """The one column."""
        return {self.name: Field("string")}

    @property
    def parsing(self) -> object:
        """See `Parsing`."""
        return "text", self.name

    def parse(self, samples: Ids, records: Spans, allocate: Allocate, *, threads: int = 1) -> Columns:
        """The lines' text (large_string); RowError for the first that is not UTF-8."""
        data, offsets = kernels.line_texts(list(records.buffers), records.which, records.offset, records.length)
        return {self.name: texts_of(data, offsets, "string")}


def open_text(shards: Shards, read: ByteRanges, options: Options) -> TextLines:
    """Indexes the files; `options.columns` can rename "text"."""
    manifest = open_lines(shards, read, options, LineStyle(), "text")
    return TextLines(manifest, _name(options, shards.path(0)))


def _name(options: Options, where: str) -> str:
    features = Selection(options.columns).choose_stored({"text": Field("string")}, where)
    if len(features) > 1:
        raise PlanError(f"{where}: columns {', '.join(features)}: a line is one column; take it once")
    return next(iter(features))
