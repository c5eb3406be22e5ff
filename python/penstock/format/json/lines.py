"""JSON lines (jsonlines.org, ndjson): every line is an object, whose values are taken out by native code.

Keys of objects in objects are joined by dots: "box.left". Lists of numbers and of text are ragged columns. A missing key and null
are the same: the column's default, an empty list where the column is ragged, an error otherwise.
"""

from __future__ import annotations

from functools import partial

from penstock.core import kernels
from penstock.core.errors import DataError, RowError
from penstock.core.files.byte_ranges import ByteRanges
from penstock.core.files.shards import Shards
from penstock.core.verbs.options import Options
from penstock.format.json.features import JsonColumn, ValueKind, choose_columns, finish, learn, may_be_missing
from penstock.source.manifest import Manifest
from penstock.source.records.lines import LineStyle, first_lines, open_lines
from penstock.source.records.native_columns import ParsedRecords
from penstock.source.records.optional import OptionalRecords, seeing_nulls, with_optional


def open_jsonl(shards: Shards, read: ByteRanges, options: Options) -> ParsedRecords | OptionalRecords:
    """Indexes the files and learns the columns from the first lines of the first file.

    Raises SourceError if there is no line at all, DataError for lines that are no objects, PlanError for columns that
    cannot be.
    """
    manifest = open_lines(shards, read, options, LineStyle(blank="white"), "jsonl")
    kinds = _learn(manifest, read)
    columns = may_be_missing(choose_columns(kinds, options, shards.path(0)), kinds, options)
    return with_optional(columns, partial(_parsed, manifest, options.limits.values))


def _parsed(manifest: Manifest, values_limit: int, columns: tuple[JsonColumn, ...]) -> ParsedRecords:
    parser = kernels.JsonParser([column.description for column in columns], values_limit=values_limit)
    parsing, of_columns = ("jsonl", columns, values_limit), partial(_parsed, manifest, values_limit)
    optional = partial(seeing_nulls, of_columns=of_columns)
    return ParsedRecords(manifest, columns, parser, finish, parsing=parsing, of_columns=of_columns, optional=optional)


def _learn(manifest: Manifest, read: ByteRanges) -> dict[tuple[str, ...], ValueKind]:
    records = first_lines(manifest, read)
    first = records[0].lstrip()
    if first.startswith(b"["):
        raise DataError(
            f"{manifest.place(0)}: begins with '[': a JSON array and not one object a line; write the array's items as lines, "
            "for example with: jq -c '.[]' data.json > data.jsonl (a SageMaker manifest is read with format='manifest')"
        )
    try:
        return learn(records[row] for row in range(len(records)))
    except RowError as error:
        raise DataError(f"{manifest.place(error.row)}: not JSON lines ({error.found}); {error.do}") from None
