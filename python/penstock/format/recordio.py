"""MXNet RecordIO files (.rec), with or without .idx: records with an IRHeader, or plain ones (`header=False`).

Frames: dmlc-core, include/dmlc/recordio.h; records of several parts are put together. Header: mxnet.recordio.IRHeader, a u32 flag,
a float32 label, and the u64 id and id2; where the flag is not 0, so many float32 labels follow.
"""

from __future__ import annotations

import numpy as np

from penstock.core import kernels
from penstock.core.columns.spec import Field, Ids, Spans
from penstock.core.errors import PlanError, RowError, SourceError
from penstock.core.files.byte_ranges import ByteRanges, read_ranges
from penstock.core.files.shards import Shards
from penstock.core.verbs.options import Options
from penstock.derived.decompressed_shards import read_whole
from penstock.source.fields.arrays import NoHeader, array_leaf, peek
from penstock.source.fields.codec import BytesLeaf, ValuesLeaf
from penstock.source.fields.records import FieldsSource, MakeLeaf, fields_source, first_fields
from penstock.source.records.index import Framing, index_shards

_MAGIC = 0xCED7230A
_HEADER_BYTES = 8
#: Bytes that a line has at most on average; a longer file is none of positions.
_LINE_BYTES = 64
#: Records whose headers are looked at.
_PROBES = 64


def stated_lengths(shards: Shards, shard: int, read: ByteRanges, options: Options) -> Ids | None:
    """The length of every record, in the file's order; None where there is no .idx file, or it does not fit the records."""
    path, size = shards.path(shard), int(shards.sizes[shard])
    if options.locate is None or not path.endswith(".rec"):
        return None
    try:
        beside, read_beside = options.locate([path.removesuffix("rec") + "idx"])
    except SourceError:
        return None
    if beside.sizes[0] > (size // _HEADER_BYTES + 1) * _LINE_BYTES:
        return None
    starts = _parse(read_whole(beside, 0, read_beside).tobytes())
    if starts is None or not starts.size or starts[0] != 0:
        return None
    length = np.diff(starts, append=size)
    sound = (starts % 4 == 0).all() and (length >= _HEADER_BYTES).all() and length.max() <= options.limits.record_bytes
    return length if sound and _agree(shards, shard, read, starts, length) else None


def _parse(text: bytes) -> Ids | None:
    """The numbers at the end of each line, ascending."""
    try:
        return np.sort(np.array([line.split()[-1] for line in text.split(b"\n") if line.strip()]).astype(np.int64))
    except ValueError:
        return None


def _agree(shards: Shards, shard: int, read: ByteRanges, starts: Ids, length: Ids) -> bool:
    """Whether records begin where they should, and those of one part end there as well."""
    probe = np.unique(np.linspace(0, len(starts) - 1, min(_PROBES, len(starts))).astype(np.int64))
    found = read_ranges(read, shards, np.full_like(probe, shard), starts[probe], np.full_like(probe, _HEADER_BYTES))
    magic, word = found.buffers[0].view("<u4").reshape(-1, 2).T.astype(np.int64)
    kind, data = word >> 29, word & 0x1FFFFFFF
    whole = _HEADER_BYTES + (data + 3) // 4 * 4
    fits = np.where(kind == 0, whole == length[probe], (kind == 1) & (whole < length[probe]))
    return bool(((magic == _MAGIC) & fits).all())


#: Bytes of an IRHeader.
HEADER_BYTES = 24
_NOT_HEADED = "the record is damaged; records that are plain bytes, without an IRHeader, are read with header=False"


_FRAMING = Framing(kind="recordio", version=1, index=kernels.index_recordio, stated=stated_lengths)


def payloads(records: Spans) -> Spans:
    """The data of records without their framing; those of several parts are copied together."""
    buffers = list(records.buffers)
    *places, joined = kernels.recordio_payloads(buffers, records.which, records.offset, records.length)
    return Spans((*buffers, joined), *places)


def plain_fields(records: Spans) -> dict[str, Spans]:
    """The data of plain records."""
    return {"data": payloads(records)}


def headed_fields(records: Spans) -> dict[str, Spans]:
    """What an IRHeader states, and what follows it; RowError for the first record that has none."""
    data = payloads(records)
    flag = peek(data, 0, "<u4", 1)[:, 0].astype(np.int64)
    begin = HEADER_BYTES + 4 * flag
    if (short := np.flatnonzero(data.length < begin)).size:
        row = int(short[0])
        found = f"a header with {flag[row]} labels takes {begin[row]} bytes, the record has {data.length[row]}"
        raise RowError(row, found, _NOT_HEADED)

    def part(skip: Ids | int, length: Ids | int) -> Spans:
        return Spans(data.buffers, data.which, data.offset + skip, np.zeros_like(flag) + length)

    return {
        "data": part(begin, data.length - begin),
        "label": part(np.where(flag == 0, 4, HEADER_BYTES), np.where(flag == 0, 4, 4 * flag)),
        "id": part(8, 8),
        "id2": part(16, 8),
    }


def open_recordio(shards: Shards, read: ByteRanges, options: Options) -> FieldsSource:
    """Indexes the shards and learns from the first records how many labels there are.

    Raises SourceError if there is no record at all, DataError for damaged files, PlanError for columns that cannot be.
    """
    headed = options.own.get("header", True)
    if not isinstance(headed, bool):
        raise PlanError(
            f"read: header={headed!r}; it is True (records begin with an IRHeader) or False (plain records)"
        )
    manifest, where = index_shards(shards, read, options, _FRAMING), shards.path(0)
    split = headed_fields if headed else plain_fields
    fields = first_fields(manifest, read, split)
    makers: dict[str, MakeLeaf] = {"data": lambda _: BytesLeaf()}
    if headed:  # labels are one number where all records have it in the header itself
        alone, number = (fields["label"].offset < fields["id"].offset).all(), ValuesLeaf(Field("float32"), "float32")
        makers["label"] = lambda spans: number if alone else array_leaf(NoHeader("float32"), spans)
        makers["id"] = makers["id2"] = lambda _: ValuesLeaf(Field("uint64"), "uint64")
    return fields_source(manifest, split, makers, fields, options, where)
