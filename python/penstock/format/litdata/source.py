"""LitData chunks: a folder with an index.json and chunk-*.bin; every serialiser but pickles, packed chunks, rows in Arrow, tokens in windows.

Format: litdata, streaming/writer.py. A plain chunk is a table of offsets and the items; an item is a u32 for the size of each leaf, then all leaves. Chunks of
the TokensLoader hold tokens alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from penstock.core.columns.ragged import edges_of
from penstock.core.columns.spec import Field, Ids
from penstock.core.errors import DataError, PlanError, SourceError
from penstock.core.files.byte_ranges import ByteRanges
from penstock.core.files.shards import Shards
from penstock.core.verbs.options import Options
from penstock.derived.decompressed_shards import ShardCompression, Unpack, codec, unpack_shards
from penstock.format.litdata.compressed import unpack_frames, unpack_items
from penstock.format.litdata.fields import dtype_of, maker_of, names_of
from penstock.format.litdata.rows import is_rows, open_rows
from penstock.format.mds.index import MdsShard, entries_of, read_json
from penstock.source.fields.codec import ValuesLeaf
from penstock.source.fields.records import FieldsSource, MakeLeaf, fields_source, first_fields, one_field, split_fields
from penstock.source.manifest import Manifest
from penstock.source.protocol import AnySource
from penstock.source.records.offset_table import read_tables

#: What a column of tokens is called.
TOKENS = "tokens"


def open_litdata(shards: Shards, read: ByteRanges, options: Options) -> AnySource:
    """Opens the chunks that the index names, in its order.

    Raises SourceError without an index or items, DataError for an index or chunks that are damaged or disagree, PlanError for columns that
    cannot be, pickles among them.
    """
    indexes = read_json(shards, read, "LitData")
    config = _config(indexes)
    chunks = [chunk for index in indexes for chunk in entries_of(index, "chunks")]
    chosen = shards.take(np.array([_file(chunk) for chunk in chunks], dtype=np.int64))
    records = np.array([chunk.number("chunk_size") for chunk in chunks], dtype=np.int64)
    if not records.sum():
        raise SourceError(f"{config.where}: no items in {len(chunks):,} chunk(s); write some, or point to others")
    packing = _packing(config, chunks)
    _check_sizes(chunks, chosen, packing)
    if not packing and is_rows(chosen, 0, read):
        if "window" in options.own:
            raise PlanError(f"read: window=… is for chunks of tokens, and {config.where} has rows; leave it away")
        is_packed = bool(config.values.get("ipc_compression"))
        return open_rows(chosen, records, read, options, config.where, is_packed=is_packed)
    unpacked = unpack_shards(chosen, packing, read, options)
    manifest = read_tables("litdata", chosen, unpacked, records, read, options.limits, whole=False)
    if config.text("item_loader") == "TokensLoader":
        return _tokens(manifest, config, read, options)
    return _items(manifest, config, read, options)


def _config(indexes: Sequence[MdsShard]) -> MdsShard:
    """What all indexes say of their items."""
    found: MdsShard | None = None
    for index in indexes:
        values = index.values.get("config")
        if not isinstance(values, dict):
            raise index.damaged("no config")
        config = MdsShard(index.where, values, index.files, index.folder)
        loader = values.setdefault("item_loader", "PyTreeLoader")
        if loader not in ("PyTreeLoader", "TokensLoader"):
            raise SourceError(
                f"{index.where}: chunks of {loader!r} are not read; read Parquet files with format='parquet'"
            )
        if values.get("encryption"):
            raise SourceError(
                f"{index.where}: the chunks are encrypted, and such are not read; write them without encryption"
            )
        if found is not None and any(values.get(key) != found.values.get(key) for key in ("data_format", "data_spec")):
            raise index.damaged(f"other leaves than {found.where} has")
        found = found or config
    assert found is not None
    return found


def _file(chunk: MdsShard) -> int:
    name = chunk.text("filename")
    shard = chunk.file(name)
    if shard is None:
        raise SourceError(
            f"{chunk.where}: it names the chunk {name!r}, which is not there; copy it, or write all again"
        )
    return shard


def _packing(config: MdsShard, chunks: Sequence[MdsShard]) -> dict[int, ShardCompression]:
    """How each chunk is packed, by its number; only those that are."""
    compression, level = config.values.get("compression"), config.values.get("compression_level")
    if not compression:
        return {}
    if str(compression).partition(":")[0] != "zstd":
        raise config.damaged(f"compression {compression!r} is not known")
    whole = codec("zstd")
    known: dict[Any, Unpack | None] = {None: whole, "chunk": whole, "batch": unpack_frames, "sample": unpack_items}
    unpack = known.get(level) if level is None or isinstance(level, str) else None
    if unpack is None:
        raise config.damaged(f"compression_level {level!r} is not known")
    stated = [chunk.number("chunk_bytes") if unpack is whole else None for chunk in chunks]
    return {
        number: ShardCompression(unpack=unpack, name=f"litdata {level or 'chunk'}", unpacked_bytes=size)
        for number, size in enumerate(stated)
    }


def _check_sizes(chunks: Sequence[MdsShard], shards: Shards, packing: dict[int, ShardCompression]) -> None:
    for number, chunk in enumerate(chunks):
        stated, found = chunk.number("chunk_bytes"), int(shards.sizes[number])
        if stated != found and (number not in packing or packing[number].unpacked_bytes is None):
            raise DataError(
                f"{shards.path(number)}: {found:,} bytes, its index says {stated:,}; copy or write it again"
            )


def _items(manifest: Manifest, config: MdsShard, read: ByteRanges, options: Options) -> FieldsSource:
    """The source of chunks whose items have leaves."""
    if "window" in options.own:
        raise PlanError(
            f"read: window=… is for chunks of tokens, and {config.where} has items of leaves; leave it away"
        )
    serializers, names = config.texts("data_format"), names_of(config)
    if len(names) != len(serializers):
        raise config.damaged(f"{len(serializers)} leaves in data_format and {len(names)} in data_spec")
    split = partial(split_fields, dict.fromkeys(names, -1))
    makers = dict(zip(names, map(maker_of, serializers), strict=True))
    return fields_source(manifest, split, makers, first_fields(manifest, read, split), options, config.where)


def _tokens(manifest: Manifest, config: MdsShard, read: ByteRanges, options: Options) -> FieldsSource:
    """Items of tokens; with `window`, runs of so many tokens, whatever the items, within each chunk."""
    serializers = config.texts("data_format")
    kind, _, argument = (serializers or ("",))[0].partition(":")
    dtype = dtype_of(kind, argument) if kind in ("no_header_numpy", "no_header_tensor") else None
    if len(serializers) != 1 or dtype is None:
        raise config.damaged(f"tokens of {serializers} are not known")
    window = options.own.get("window")
    makers: dict[str, MakeLeaf | str] = {TOKENS: maker_of(serializers[0])}
    if window is not None:
        if not isinstance(window, int) or isinstance(window, bool) or window < 1:
            raise PlanError(f"read: window={window!r}; it is a number of tokens, at least 1")
        manifest = _windows(manifest, window * np.dtype(dtype).itemsize)
        makers = {TOKENS: lambda _: ValuesLeaf(Field(dtype, (window,)), dtype)}
    if manifest.samples == 0:
        raise SourceError(f"{config.where}: no chunk has {window} tokens; take a smaller window")
    split = partial(one_field, TOKENS)
    return fields_source(manifest, split, makers, first_fields(manifest, read, split), options, config.where)


def _windows(items: Manifest, window_bytes: int) -> Manifest:
    """Windows in place of items: those that fit between a chunk's first token and its last."""
    assert items.offset is not None
    assert items.length is not None
    holds = np.diff(items.first_sample) > 0
    begin, end = np.zeros(len(holds), dtype=np.int64), np.zeros(len(holds), dtype=np.int64)
    begin[holds] = items.offset[items.first_sample[:-1][holds]]
    last = items.first_sample[1:][holds] - 1
    end[holds] = items.offset[last] + items.length[last]
    counts = (end - begin) // window_bytes
    first_sample = edges_of(counts)
    within: Ids = np.arange(first_sample[-1], dtype=np.int64) - np.repeat(first_sample[:-1], counts)
    offset = np.repeat(begin, counts) + within * window_bytes
    return replace(items, first_sample=first_sample, offset=offset, length=np.full_like(offset, window_bytes))
