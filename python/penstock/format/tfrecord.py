"""TFRecord files of tf.train.Example (tensorflow/core/example): plain, GZIP or ZLIB.

Frames: tensorflow/core/lib/io/record_writer.h. Missing and ragged features follow tf.io.parse_example: a record without the
feature takes the default, is empty where the column is ragged, and is an error otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock import kernels
from penstock.errors import DataError, RowError, SourceError
from penstock.format.example import ExampleColumn, Feature, choose_columns
from penstock.format.manifest import Manifest
from penstock.format.protocol import Allocate, Format, Options, ReadRanges
from penstock.format.record_index import Framing, index_shards
from penstock.shards import Shards
from penstock.spec import Bytes, Columns, Ids, Spans, Spec

#: Records that are looked at to learn the features, and how many bytes of them at most.
INFER_RECORDS = 100
INFER_BYTES = 64 << 20


def _index_files(
    paths: list[str], sizes: Ids, *, record_bytes: int, threads: int, progress: kernels.WorkProgress
) -> tuple[Ids, Ids, Ids]:
    counts, length = kernels.index_tfrecords(
        paths, sizes, record_bytes=record_bytes, threads=threads, progress=progress
    )
    return np.zeros_like(counts), counts, length


_FRAMING = Framing(kind="tfrecord", version=1, index=_index_files, packing=kernels.recognise_tfrecord_packing)


@dataclass(frozen=True, eq=False)
class TFRecordSource:
    """Columns of tf.train.Example records.

    Numbers of a fixed shape are arrays, one value of bytes a row is `Spans` in the records' buffers, everything else is an
    Arrow array (large_list, large_binary, large_string).
    """

    manifest: Manifest
    spec: Spec
    columns: tuple[ExampleColumn, ...]
    parser: kernels.ExampleParser = field(repr=False)
    random_access: bool = False

    def parse(self, samples: Ids, records: Spans, allocate: Allocate, *, threads: int = 1) -> Columns:
        """One column a field of `spec`, with one row a record (a span with its frame).

        Raises RowError for the first row that is damaged or does not have the columns' features.
        """
        arrays: dict[str, Any] = {
            column.name: allocate(column.name, column.field, len(records))
            for column in self.columns
            if column.form == "fixed"
        }
        outs = [_bytes_of(arrays[column.name]) if column.name in arrays else None for column in self.columns]
        filled = self.parser.parse(list(records.buffers), records.which, records.offset, records.length, outs, threads)
        return {
            column.name: arrays[column.name] if column.name in arrays else column.finish(part, records)
            for column, part in zip(self.columns, filled, strict=True)
        }


def _bytes_of(array: Any) -> Bytes:
    """The bytes of a contiguous array, without a copy."""
    if not array.flags.c_contiguous:
        raise ValueError("allocate must give contiguous arrays")
    flat: Bytes = array.reshape(-1).view(np.uint8)
    return flat


def open_tfrecord(shards: Shards, read: ReadRanges, options: Options) -> TFRecordSource:
    """Indexes the shards and learns the columns from the first records.

    Raises SourceError if there is no record at all, DataError for damaged files, PlanError for columns that cannot be.
    """
    if len(shards) == 0:
        raise SourceError("no TFRecord files to read")
    index = index_shards(shards, options, _FRAMING)
    manifest = Manifest("tfrecord", shards, index.first_sample, index.offset, index.length, index.unpacked)
    if manifest.samples == 0:
        raise SourceError(f"{shards.path(0)}: no records in {len(shards):,} file(s); write some, or point to others")
    columns = choose_columns(_features(manifest, read, options), options, shards.path(0))
    names = list(dict.fromkeys(column.feature for column in columns))
    parser = kernels.ExampleParser(
        names,
        [column.description(names.index(column.feature)) for column in columns],
        verify=options.verify,
        values_limit=options.limits.values,
    )
    return TFRecordSource(manifest, {column.name: column.field for column in columns}, columns, parser)


def _features(manifest: Manifest, read: ReadRanges, options: Options) -> dict[str, Feature]:
    """The features of the first records of the first shard that has any, by name in sorted order."""
    first = 0
    shard = int(manifest.shard_of(np.array([first], dtype=np.int64))[0])
    last = min(int(manifest.first_sample[shard + 1]), first + INFER_RECORDS)
    assert manifest.offset is not None
    assert manifest.length is not None
    ends = manifest.offset[first:last] + manifest.length[first:last]
    records = max(1, int(np.searchsorted(ends, INFER_BYTES, side="right")))
    numbers = np.zeros(records, dtype=np.int64)
    buffer = np.empty(int(ends[records - 1]), dtype=np.uint8)
    start, size = np.array([0], dtype=np.int64), np.array([buffer.size], dtype=np.int64)
    read(manifest.stored, np.array([shard], dtype=np.int64), start, size, buffer, start)
    offset, length = manifest.offset[:records], manifest.length[:records]
    try:
        found = kernels.infer_examples([buffer], numbers, offset, length, options.verify)
    except RowError as error:
        raise DataError(f"{manifest.place(error.row)}: {error.found}; {error.do}") from None
    return {row[0]: Feature(*row, records=records) for row in found}


FORMAT = Format(
    name="tfrecord",
    suffixes=(".tfrecord", ".tfrecords", ".tfrec", ".tfrecord.gz", ".tfrecords.gz", ".tfrec.gz"),
    matches=kernels.is_tfrecord,
    access="by its own bytes",
    detects="any flipped bit (two CRC-32C a record), truncation",
    open=open_tfrecord,
)
