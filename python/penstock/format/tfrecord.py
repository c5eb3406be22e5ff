"""TFRecord files of tf.train.Example and SequenceExample (tensorflow/core/example): plain, GZIP or ZLIB.

Frames: tensorflow/core/lib/io/record_writer.h. Missing and ragged features follow tf.io.parse_example: a record without the
feature takes the default, is empty where the column is ragged, and is an error otherwise. A SequenceExample's context is like an
Example; its lists of features are ragged columns, one step after the other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from penstock.core import kernels
from penstock.core.columns.spec import Field, Spans
from penstock.core.errors import DataError, PlanError, RowError
from penstock.core.files.byte_ranges import ByteRanges
from penstock.core.files.shards import Shards
from penstock.core.verbs.options import Column, Options
from penstock.core.warnings import warn
from penstock.source.manifest import Manifest, first_records
from penstock.source.records.index import Framing, index_shards
from penstock.source.records.native_columns import ParsedRecords, default_bytes, form_of
from penstock.source.selection import FLOATS, LATER, TEXTS, WHOLE, Selection, check_dtype, check_shape, no_column

#: What the values of a feature can become.
_BECOMES = {"bytes": TEXTS, "float32": FLOATS, "int64": (*WHOLE, *FLOATS)}

#: Among the first records, so many bad ones are left out to learn what the others hold.
_MOST_BAD = 16


@dataclass(frozen=True)
class Feature:
    """What the first records say of a feature.

    kind: "bytes", "float32", "int64", or "nothing" if no record holds a list; mixed: whether some hold another kind;
    present: records that hold it, of `records`; least, most: values in a record that holds it. is_list: whether it is a list of
    features (of a SequenceExample), so that present, least and most are those of its steps.
    """

    name: str
    kind: str
    mixed: bool
    present: int
    least: int
    most: int
    is_list: bool
    records: int


@dataclass(frozen=True)
class ExampleColumn:
    """One column of a batch: what it is called, the feature it is made of, its field, and a default as bytes."""

    name: str
    feature: str
    field: Field
    default: bytes | None
    is_list: bool = False

    def description(self, feature: int) -> tuple[int, str, str, int, str, bytes | None]:
        """The column for `kernels.ExampleParser`."""
        if self.is_list:
            form = "nested" if self.field.shape == (None, None) else "steps"
            step = math.prod(axis for axis in self.field.shape if axis is not None)
            return feature, form, self.field.dtype, step, f"{self.field}", None
        ragged = None in self.field.shape
        values = math.prod(axis for axis in self.field.shape if axis is not None)
        form = form_of(self.field)
        if ragged and form == "texts":
            values = -1
        return feature, form, self.field.dtype, values, f"{self.field}", self.default


def choose_columns(features: Mapping[str, Feature], options: Options, where: str) -> tuple[ExampleColumn, ...]:
    """The columns that the user wants of the features that the first records have.

    Raises PlanError for features that do not exist and for dtypes and shapes that they cannot have.
    """
    wanted = Selection(options.columns).columns(name for name, feature in features.items() if feature.kind != "nothing")
    if not wanted:
        raise PlanError(f"{where}: no values in the first records; name the columns with dtype and shape")
    return tuple(_column(name, column, features, where) for name, column in wanted.items())


def _column(name: str, column: Column, features: Mapping[str, Feature], where: str) -> ExampleColumn:
    feature = features.get(column.feature)
    if feature is None or feature.kind == "nothing":
        feature = _unseen(name, column, features, where)
    dtype = column.dtype or _inferred_dtype(name, feature)
    _check_dtype(name, dtype, feature)
    if feature.is_list:
        return ExampleColumn(name, column.feature, Field(dtype, _steps_shape(name, dtype, column, feature)), None, True)
    shape = _inferred_shape(column, feature) if column.shape is None else tuple(column.shape)
    _check_shape(name, dtype, shape, feature)
    field = Field(dtype, shape)
    if column.default is not None and None in shape:
        raise PlanError(f"columns[{name!r}]: a record that lacks a ragged column has no values; leave the default away")
    default = None if column.default is None else default_bytes(name, field, column.default)
    return ExampleColumn(name, column.feature, field, default)


def _steps_shape(name: str, dtype: str, column: Column, feature: Feature) -> tuple[int | None, ...]:
    """The shape of a list of features: (None,) with a value a step, (None, n) with n of them, (None, None) with any number."""
    if column.default is not None:
        raise PlanError(f"columns[{name!r}]: a record that lacks a list has no steps; leave the default away")
    step: tuple[int | None, ...] = () if feature.most == 1 else (feature.most,)
    if feature.least != feature.most or feature.most == 0:
        step = (None,)
    if column.shape is None:
        return (None, *step) if dtype not in TEXTS or step == () else (None, None)
    shape = tuple(column.shape)
    values = math.prod(axis or 0 for axis in shape[1:])
    fits = shape == (None, None) or (None not in shape[1:] and values == feature.least == feature.most)
    if shape[:1] != (None,) or not fits or (dtype in TEXTS and shape not in ((None,), (None, None))):
        found = f"{feature.least}" if feature.least == feature.most else f"{feature.least} to {feature.most}"
        raise PlanError(
            f"columns[{name!r}]: shape {shape} does not fit the list {column.feature!r}, whose steps hold {found} values; "
            "the first axis is None, for the steps; shape=(None, None) takes any number of values a step"
        )
    return shape


def _unseen(name: str, column: Column, features: Mapping[str, Feature], where: str) -> Feature:
    """A feature that the first records lack: fine where dtype and shape are given, a likely typo otherwise."""
    optional = column.default is not None or (column.shape is not None and None in column.shape)
    records = next((feature.records for feature in features.values()), 0)
    if column.dtype is None or column.shape is None or not optional:
        others = [known for known in features if known != column.feature]
        raise no_column(where, column.feature, others, among="the first records", do=LATER)
    warn(
        f"columns[{name!r}]: none of the first {records} records has the feature {column.feature!r}; "
        "rows get the default unless later records have it"
    )
    kind = column.dtype if column.dtype in ("float32", "int64") else "bytes" if column.dtype in TEXTS else "int64"
    return Feature(column.feature, kind, mixed=False, present=0, least=0, most=0, is_list=False, records=records)


def _inferred_dtype(name: str, feature: Feature) -> str:
    if feature.mixed:
        raise DataError(
            f"columns[{name!r}]: feature {feature.name!r} holds {feature.kind} in some records and other kinds in others; "
            "give the column a dtype that takes both, or leave the column out"
        )
    return feature.kind


def _check_dtype(name: str, dtype: str, feature: Feature) -> None:
    check_dtype(name, dtype, (*WHOLE, *FLOATS, *TEXTS))
    possible = _BECOMES[feature.kind]
    if feature.present and not feature.mixed and dtype not in possible:
        raise PlanError(
            f"columns[{name!r}]: feature {feature.name!r} holds {feature.kind}, which cannot become {dtype}; "
            f"it can become {', '.join(possible)}"
        )


def _inferred_shape(column: Column, feature: Feature) -> tuple[int | None, ...]:
    always = feature.present == feature.records or column.default is not None
    if feature.least != feature.most or feature.most == 0 or not always:
        return (None,)
    return () if feature.most == 1 else (feature.most,)


def _check_shape(name: str, dtype: str, shape: tuple[int | None, ...], feature: Feature) -> None:
    check_shape(name, Field(dtype, shape))
    values = math.prod(axis for axis in shape if axis is not None)
    if None not in shape and feature.present and not feature.least <= values <= feature.most:
        found = f"{feature.least}" if feature.least == feature.most else f"{feature.least} to {feature.most}"
        raise PlanError(
            f"columns[{name!r}]: shape {shape} takes {values} values, the first records hold {found} in {feature.name!r}; "
            "give the right shape; shape=(None,) takes any number of values"
        )


#: Before the name of a list of features where a feature of the context has the same one.
_LISTS = "feature_lists/"

_FRAMING = Framing(
    kind="tfrecord", version=1, index=kernels.index_tfrecords, packing=kernels.recognise_tfrecord_packing
)


def open_tfrecord(shards: Shards, read: ByteRanges, options: Options) -> ParsedRecords:
    """Indexes the shards and learns the columns from the first records.

    Raises SourceError if there is no record at all, DataError for damaged files, PlanError for columns that cannot be.
    """
    manifest = index_shards(shards, read, options, _FRAMING)
    features = _features(manifest, read, options)
    columns = choose_columns(features, options, shards.path(0))
    return _parsed(manifest, features, (options.verify, options.limits.values), columns)


def _parsed(
    manifest: Manifest, features: Mapping[str, Feature], how: tuple[bool, int], columns: tuple[ExampleColumn, ...]
) -> ParsedRecords:
    """how: whether checksums are looked at, and the most values of a record."""
    plain, lists = (
        list(dict.fromkeys(column.feature for column in columns if column.is_list == is_list))
        for is_list in (False, True)
    )
    numbers = {name: number for number, name in enumerate([*plain, *lists])}
    described = [column.description(numbers[column.feature]) for column in columns]
    named = plain, [features[name].name for name in lists]
    parser = kernels.ExampleParser(*named, described, verify=how[0], values_limit=how[1])
    parsing, of_columns = ("tfrecord", named, columns, *how), partial(_parsed, manifest, features, how)
    return ParsedRecords(manifest, columns, parser, parsing=parsing, of_columns=of_columns)


def _features(manifest: Manifest, read: ByteRanges, options: Options) -> dict[str, Feature]:
    """The features of the first records of the first shard that has any, by name in sorted order."""
    found, records = _inferred(manifest, first_records(manifest, read), options)
    features: dict[str, Feature] = {}
    for row in found:
        shown = f"{_LISTS}{row[0]}" if row[0] in features else row[0]
        features[shown] = Feature(*row, records=records)
    return features


def _inferred(
    manifest: Manifest, records: Spans, options: Options
) -> tuple[list[tuple[str, str, bool, int, int, int, bool]], int]:
    """What the native code finds in the good ones of some records, and how many these are; bad ones are errors when they are due, unless there are many of them."""
    rows, wrong = np.arange(len(records)), list[DataError]()
    while len(rows) and len(wrong) < _MOST_BAD:
        some = records.take(rows)
        try:
            found = kernels.infer_examples(list(some.buffers), some.which, some.offset, some.length, options.verify)
            return found, len(rows)
        except RowError as error:
            bad = int(rows[error.row])
            wrong.append(DataError(f"{manifest.place(bad)}: {error.found}; {error.do}"))
            rows = rows[rows != bad]
    raise wrong[0]
