"""MosaicML MDS: a folder with an index.json and its shards, plain or packed; every encoding but pickles.

Format: mosaicml-streaming, streaming/base/format/mds. A shard is a table of offsets, its columns as JSON, and the samples; a sample is a u32
for the size of each column that has no fixed one, then all columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from penstock.core.columns.spec import Spans
from penstock.core.errors import DataError, SourceError
from penstock.core.files.byte_ranges import ByteRanges
from penstock.core.files.shards import Shards
from penstock.core.verbs.options import Options
from penstock.derived.decompressed_shards import ShardCompression, codec, unpack_shards
from penstock.format.mds.encoding import encoding_of
from penstock.format.mds.index import MdsShard, NamedFile, entries_of, read_json
from penstock.source.fields.records import FieldsSource, fields_source, first_fields, split_fields
from penstock.source.manifest import Manifest
from penstock.source.records.offset_table import read_tables
from penstock.source.selection import Selection

_OTHERS = "read shards of JSON lines, CSV or TSV as the files that they are, with format='jsonl' or 'csv'"


@dataclass(frozen=True)
class _Columns:
    """What every shard of a dataset must state alike."""

    names: tuple[str, ...]
    encodings: tuple[str, ...]
    sizes: tuple[int | None, ...]


def open_mds(shards: Shards, read: ByteRanges, options: Options) -> FieldsSource:
    """Opens the shards that the index names, in its order.

    Raises SourceError without an index or samples, DataError for an index or shards that are damaged or disagree, PlanError for columns
    that cannot be, pickles among them.
    """
    entries = [entry for index in read_json(shards, read, "MDS") for entry in entries_of(index, "shards")]
    columns = _columns(entries)
    numbers, packing = [], {}
    for place, entry in enumerate(entries):
        shard, packed = _file(entry, shards)
        numbers.append(shard)
        if packed is not None:
            packing[place] = packed
    chosen = shards.take(np.array(numbers, dtype=np.int64))
    records = np.array([entry.number("samples") for entry in entries], dtype=np.int64)
    unpacked = unpack_shards(chosen, packing, read, options)
    manifest = read_tables("mds", chosen, unpacked, records, read, options.limits, whole=True)
    where = entries[0].where
    if manifest.samples == 0:
        raise SourceError(f"{where}: no samples in {len(entries):,} shard(s); write some, or point to others")
    return _source(manifest, columns, read, options, where)


def _source(manifest: Manifest, columns: _Columns, read: ByteRanges, options: Options, where: str) -> FieldsSource:
    encodings = dict(zip(columns.names, map(encoding_of, columns.encodings), strict=True))
    for (name, encoding), size in zip(encodings.items(), columns.sizes, strict=True):
        if not encoding.refused and (size or None) != encoding.size:
            raise DataError(
                f"{where}: column {name!r} of encoding {encoding.name!r} has size {size}, which is {encoding.size}; "
                "the index is damaged: write it again"
            )
    widths = dict(zip(columns.names, (size or -1 for size in columns.sizes), strict=True))
    wanted = Selection(options.columns).features(encodings)
    looks = any(encoding.looks for name, encoding in encodings.items() if name in wanted)
    split = partial(split_fields, widths)
    nothing = np.empty(0, dtype=np.int64)
    fields = first_fields(manifest, read, split) if looks else dict.fromkeys(widths, Spans((), *[nothing] * 3))
    makers = {name: encoding.refused or encoding.make for name, encoding in encodings.items()}
    return fields_source(manifest, split, makers, fields, options, where)


def _columns(entries: Sequence[MdsShard]) -> _Columns:
    """The columns of all shards."""
    found: _Columns | None = None
    for entry in entries:
        kind, version = entry.text("format"), entry.number("version")
        if kind != "mds" or version != 2:
            raise SourceError(
                f"{entry.where}: shard of format {kind!r}, version {version}, where MDS 2 is read; {_OTHERS}"
            )
        names, encodings = entry.texts("column_names"), entry.texts("column_encodings")
        columns = _Columns(names, encodings, entry.sizes("column_sizes"))
        if not names or len(set(names)) != len(names) or {len(names)} != {len(encodings), len(columns.sizes)}:
            raise entry.damaged("column_names, column_encodings and column_sizes do not belong together")
        if found is not None and columns != found:
            raise entry.damaged(
                f"columns {names} of {encodings} where the first shard has {found.names} of {found.encodings}"
            )
        found = columns
    assert found is not None
    return found


def _file(entry: MdsShard, shards: Shards) -> tuple[int, ShardCompression | None]:
    """The file of a shard, and how it is packed; the unpacked one where both are there."""
    raw = entry.place("raw_data")
    if raw is None:
        raise entry.damaged("a shard without raw_data")
    zipped = entry.place("zip_data")
    if raw.shard is not None or zipped is None:
        _check_size(entry, raw, shards)
        assert raw.shard is not None
        return raw.shard, None
    _check_size(entry, zipped, shards)
    assert zipped.shard is not None
    name = entry.text("compression").partition(":")[0]
    unpack = codec(name)
    if unpack is None:
        raise entry.damaged(f"compression {name!r} is not known")
    packing = ShardCompression(
        unpack=unpack,
        name=name,
        unpacked_bytes=raw.bytes,
        packed_hashes=zipped.hashes,
        unpacked_hashes=raw.hashes,
    )
    return zipped.shard, packing


def _check_size(entry: MdsShard, place: NamedFile, shards: Shards) -> None:
    if place.shard is None:
        raise SourceError(
            f"{entry.where}: it names the shard {place.name!r}, which is not there; copy it, or write all again"
        )
    if (found := int(shards.sizes[place.shard])) != place.bytes:
        raise DataError(
            f"{shards.path(place.shard)}: {found:,} bytes, its index says {place.bytes:,}; copy or write it again"
        )
