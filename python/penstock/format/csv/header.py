"""The names of CSV's columns: what the files' headers say, or the user."""

from __future__ import annotations

import codecs
import csv
import re
from typing import Literal

import numpy as np

from penstock.core.columns.spec import Spans
from penstock.core.errors import DataError, PlanError
from penstock.core.files.byte_ranges import ByteRanges, read_ranges
from penstock.core.verbs.options import Options
from penstock.core.warnings import warn
from penstock.format.csv.table import CsvDialect, has_long
from penstock.source.manifest import Manifest

#: Excel's note of the delimiter, before the header.
_EXCEL_NOTE = re.compile(r'"?sep=(.?)"?')
#: What a header of one name is looked at for: the delimiters that people use.
_DELIMITERS = ";\t|,"
#: A header of more bytes is none.
_LONGEST_HEADER_BYTES = 16 << 20


def names_of(manifest: Manifest, read: ByteRanges, records: Spans, options: Options, dialect: CsvDialect) -> list[str]:
    """The columns' names, checked against every file's header."""
    first = int(manifest.shard_of(np.zeros(1, dtype=np.int64))[0])
    if not dialect.header:
        names = [f"f{number}" for number in range(len(_fields(records[0], dialect, manifest.place(0))))]
    else:
        headers = _headers(manifest, read)
        names = _fields(headers[first], dialect, manifest.shards.path(first))
        _check_excel_note(headers[first], manifest.shards.path(first))
        if len(names) == 1 and "delimiter" not in options.own and not has_long(records):
            found = _fields(records[0], dialect, manifest.place(0))
            _warn_of_one_name(names[0], found, dialect, manifest.shards.path(first))
        for shard, header in headers.items():
            if header != headers[first] and (other := _fields(header, dialect, manifest.shards.path(shard))) != names:
                raise DataError(
                    f"{manifest.shards.path(shard)}: the header is {other}, that of {manifest.shards.path(first)} is {names}; "
                    "read files of one kind together, or pass header=False where they have none"
                )
    given = options.own.get("names")
    if given is not None:
        if len(given) != len(names):
            raise PlanError(f"read: names has {len(given)} names, {manifest.place(0)} has {len(names)} fields")
        names = [str(name) for name in given]
    if len(set(names)) < len(names):
        raise PlanError(f"{manifest.shards.path(first)}: columns with the same name: {names}; pass names=[…]")
    return names


def _check_excel_note(header: bytes, where: str) -> None:
    """DataError where the first line tells Excel the delimiter, and the header is the next."""
    line = header.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace").strip("\r\n")
    if note := _EXCEL_NOTE.fullmatch(line):
        raise DataError(
            f"{where}: the first line is {line!r}, which tells Excel the delimiter, and is no header; "
            f"remove the line (tail -n +2), and pass delimiter={note[1]!r}"
        )


def _warn_of_one_name(name: str, record: list[str], dialect: CsvDialect, where: str) -> None:
    """A warning where header and first record hold another delimiter equally often."""
    for other in _DELIMITERS.replace(dialect.delimiter, ""):
        if 0 < name.count(other) == "".join(record).count(other):
            warn(
                f"{where}: one column, named {name!r}; if its fields end at {other!r}, pass delimiter={other!r}, "
                f"and delimiter={dialect.delimiter!r} if they do not"
            )
            return


def _headers(manifest: Manifest, read: ByteRanges) -> dict[int, bytes]:
    """What stands before the first record of every file that has one."""
    assert manifest.offset is not None
    shards = np.flatnonzero(np.diff(manifest.first_sample) > 0)
    length = manifest.offset[manifest.first_sample[shards]]
    if (length > _LONGEST_HEADER_BYTES).any():
        longest = int(np.argmax(length))
        raise DataError(
            f"{manifest.shards.path(int(shards[longest]))}: a header of {length[longest]:,} bytes; repair the file, or pass header=False"
        )
    found = read_ranges(read, manifest.stored, shards, np.zeros_like(shards), length)
    return {shard: found[number] for number, shard in enumerate(shards.tolist())}


def _fields(record: bytes, dialect: CsvDialect, where: str) -> list[str]:
    text = record.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace").strip("\r\n")
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if dialect.quotes else csv.QUOTE_NONE
    csv.field_size_limit(max(csv.field_size_limit(), len(text) + 1))
    try:
        return next(csv.reader([text], delimiter=dialect.delimiter, quoting=quoting), [""])
    except csv.Error as error:
        raise DataError(f"{where}: {text[:40]!r} is no record of CSV ({error}); repair the file") from None
