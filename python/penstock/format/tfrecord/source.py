"""TFRecord files of tf.train.Example and SequenceExample (tensorflow/core/example): plain, GZIP or ZLIB.

Frames: tensorflow/core/lib/io/record_writer.h. Missing and ragged features follow tf.io.parse_example: a record without the
feature takes the default, is empty where the column is ragged, and is an error otherwise. A SequenceExample's context is like an
Example; its lists of features are ragged columns, one step after the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.core import kernels
from penstock.core.byte_ranges import ByteRanges
from penstock.core.errors import DataError, RowError
from penstock.core.options import Options
from penstock.core.shards import Shards
from penstock.core.spec import Columns, Ids, Spans, Spec
from penstock.format.tfrecord.example import ExampleColumn, Feature, choose_columns
from penstock.source.manifest import Manifest, first_records
from penstock.source.protocol import Access, Allocate, Format
from penstock.source.records.index import Framing, index_shards
from penstock.source.records.native_columns import parse_records

#: Before the name of a list of features where a feature of the context has the same one.
_LISTS = "feature_lists/"

_FRAMING = Framing(
    kind="tfrecord", version=1, index=kernels.index_tfrecords, packing=kernels.recognise_tfrecord_packing
)


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
    access: Access = Access.RECORDS

    def parse(self, samples: Ids, records: Spans, allocate: Allocate, *, threads: int = 1) -> Columns:
        """One column a field of `spec`, with one row a record (a span with its frame).

        Raises RowError for the first row that is damaged or does not have the columns' features.
        """
        return parse_records(self.parser, self.columns, records, allocate, threads)


def open_tfrecord(shards: Shards, read: ByteRanges, options: Options) -> TFRecordSource:
    """Indexes the shards and learns the columns from the first records.

    Raises SourceError if there is no record at all, DataError for damaged files, PlanError for columns that cannot be.
    """
    manifest = index_shards(shards, read, options, _FRAMING)
    features = _features(manifest, read, options)
    columns = choose_columns(features, options, shards.path(0))
    plain, lists = (
        list(dict.fromkeys(column.feature for column in columns if column.is_list == is_list))
        for is_list in (False, True)
    )
    numbers = {name: number for number, name in enumerate([*plain, *lists])}
    parser = kernels.ExampleParser(
        plain,
        [features[name].name for name in lists],
        [column.description(numbers[column.feature]) for column in columns],
        verify=options.verify,
        values_limit=options.limits.values,
    )
    return TFRecordSource(manifest, {column.name: column.field for column in columns}, columns, parser)


def _features(manifest: Manifest, read: ByteRanges, options: Options) -> dict[str, Feature]:
    """The features of the first records of the first shard that has any, by name in sorted order."""
    records = first_records(manifest, read)
    try:
        found = kernels.infer_examples(
            list(records.buffers), records.which, records.offset, records.length, options.verify
        )
    except RowError as error:
        raise DataError(f"{manifest.place(error.row)}: {error.found}; {error.do}") from None
    features: dict[str, Feature] = {}
    for row in found:
        shown = f"{_LISTS}{row[0]}" if row[0] in features else row[0]
        features[shown] = Feature(*row, records=len(records))
    return features


FORMAT = Format(
    name="tfrecord",
    suffixes=(".tfrecord", ".tfrecords", ".tfrec", ".tfrecord.gz", ".tfrecords.gz", ".tfrec.gz"),
    matches=kernels.is_tfrecord,
    access="by its own bytes",
    detects="any flipped bit (two CRC-32C a record), truncation",
    open=open_tfrecord,
)
