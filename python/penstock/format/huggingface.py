"""Hugging Face `datasets`: folders of save_to_disk, DatasetDicts of them, and Parquet files named after their split."""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.core.columns.rows import Rows, as_rows, join_rows
from penstock.core.columns.spec import Columns, Ids, Spec
from penstock.core.errors import DataError, PlanError, SourceError
from penstock.core.files.byte_ranges import ByteRanges
from penstock.core.files.shards import Shards
from penstock.core.verbs.options import Column, Options
from penstock.format.arrow import source as arrow_ipc
from penstock.format.claims import EXPORTED
from penstock.format.parquet import source as parquet
from penstock.source.dotted_names import Path, dotted, name_of
from penstock.source.manifest import TableManifest
from penstock.source.protocol import Access, Bounds
from penstock.source.selection import Selection
from penstock.source.tables.ranged_file import RangedFile, open_shard
from penstock.source.tables.table import arrow_errors, leaf_paths

#: Features that are a struct of bytes and path on the disk, and bytes in a batch.
_FILES = ("Image", "Audio", "Video", "Pdf", "Nifti")
#: Features that are lists of others.
_LISTS = ("List", "LargeList", "Sequence")
_STATE_BYTES = 16 << 20


@dataclass(frozen=True, eq=False)
class HuggingFace:
    """A table of `datasets`. classes: the names of the first column of labels. rows: the table's row of each sample, if mixed."""

    manifest: TableManifest
    inner: arrow_ipc.ArrowBatches | parquet.Parquet
    classes: tuple[str, ...]
    rows: Ids | None = None
    access: Access = Access.BLOCKS

    @property
    def spec(self) -> Spec:
        """The columns that `load` gives."""
        return self.inner.spec

    @property
    def block_rows(self) -> int | None:
        """As the files want it."""
        return self.inner.block_rows

    @property
    def unpacked_bytes(self) -> int:
        """See `source.protocol.CompressedSource`."""
        size = (
            self.inner.unpacked_bytes
            if isinstance(self.inner, arrow_ipc.ArrowBatches)
            else self.inner.manifest.held_bytes
        )
        return size * self.manifest.samples // max(1, self.inner.manifest.samples)

    @property
    def decoded_bytes(self) -> int:
        """See `source.protocol.DecodedSource`."""
        return self.inner.decoded_bytes * self.manifest.samples // max(1, self.inner.manifest.samples)

    def keep_within(self, memory_bytes: int) -> int:
        """See `source.protocol.KeepingSource`."""
        return self.inner.keep_within(memory_bytes)

    def needed_within(self, memory_bytes: int) -> int:
        """See `source.protocol.KeepingSource`."""
        return self.inner.needed_within(memory_bytes)

    def bounds(self, names: Sequence[str]) -> list[Bounds]:
        """What Parquet files say of these columns."""
        return self.inner.bounds(names) if isinstance(self.inner, parquet.Parquet) and self.rows is None else []

    def only(self, names: Sequence[str]) -> HuggingFace:
        """The same rows with these columns alone."""
        return replace(self, inner=self.inner.only(names))

    def once(self, names: Sequence[str]) -> HuggingFace:
        """The same, of which nothing is written to the cache."""
        return replace(self, inner=self.inner.once(names))

    def load(self, first: int, rows: int) -> Columns | Rows:
        """Rows [first, first + rows); of a table with indices, run by run of neighbouring ones."""
        if self.rows is None:
            return self.inner.load(first, rows)
        wanted = self.rows[first : first + rows]
        cuts = np.flatnonzero(np.diff(wanted) != 1) + 1
        runs = [(int(run[0]), len(run)) for run in np.split(wanted, cuts)]
        return join_rows([as_rows(self.inner.load(*run), self.spec, run[1]) for run in runs])


def open_huggingface(shards: Shards, read: ByteRanges, options: Options) -> HuggingFace:
    """Opens one split; `options.columns` names features, of which images and audio are bytes."""
    own = dict(options.own)
    split = own.pop("split", None)
    paths: list[str] = shards.paths.to_pylist()
    folders = {posixpath.dirname(path): number for number, path in enumerate(paths) if _is_state(path)}
    if folders:
        if own:
            raise PlanError("filters=… is for Parquet files; of a folder of save_to_disk all rows are read")
        data, indices = _saved(shards, read, folders, split)
        schema = _schema(data, read)
        inner: arrow_ipc.ArrowBatches | parquet.Parquet = arrow_ipc.open_arrow(
            data, read, _with_features(options, own, schema), "huggingface"
        )
        rows = None if indices is None else _indices(indices, read, inner.manifest.samples)
    else:
        data, rows = shards.take(_exported(paths, split)), None
        schema = _schema(data, read)
        inner = parquet.open_parquet(data, read, _with_features(options, own, schema))
    return HuggingFace(_manifest(inner.manifest, rows), inner, _classes(_features(schema), options), rows)


def _is_state(path: str) -> bool:
    return posixpath.basename(path) == "state.json"


def _saved(shards: Shards, read: ByteRanges, folders: Mapping[str, int], split: Any) -> tuple[Shards, Shards | None]:
    """The data files of a saved split, and the files of its indices."""
    names = {posixpath.basename(folder): folder for folder in folders}
    folder = _choose(names, split) if split is not None or len(folders) > 1 else next(iter(folders))
    place = shards.path(folders[folder])
    numbers = {path: number for number, path in enumerate(shards.paths.to_pylist())}
    state = _read_json(shards, folders[folder], read)

    def files(*keys: str) -> list[int]:
        listed: Any = next((state[key] for key in keys if state.get(key)), [])
        found = []
        for entry in listed if isinstance(listed, list) else [listed]:
            name = entry.get("filename") if isinstance(entry, dict) else None
            if not isinstance(name, str) or f"{folder}/{name}" not in numbers:
                raise DataError(f"{place}: the data file {name!r} is not in the folder; copy the whole folder again")
            found.append(numbers[f"{folder}/{name}"])
        return found

    data, indices = files("_data_files"), files("_indices_files", "_indices_data_files")
    if not data:
        raise DataError(f"{place}: it lists no data files; save the dataset again with save_to_disk")
    taken = shards.take(np.array(indices)) if indices else None
    return shards.take(np.array(data)), taken


def _read_json(shards: Shards, shard: int, read: ByteRanges) -> dict[str, Any]:
    place, size = shards.path(shard), int(shards.sizes[shard])
    if size > _STATE_BYTES:
        raise DataError(f"{place}: {size:,} bytes, where a few are expected; it is no state of a dataset")
    try:
        state = json.loads(RangedFile(shards, shard, read).read())
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: no JSON ({error}); save the dataset again with save_to_disk") from None
    if not isinstance(state, dict):
        raise DataError(f"{place}: {type(state).__name__} where an object belongs; save the dataset again")
    return state


def _exported(paths: list[str], split: Any) -> Ids:
    """The Parquet files of a split."""
    found: dict[str, list[int]] = {}
    for number, path in enumerate(paths):
        if match := re.search(EXPORTED, path):
            found.setdefault(match[1], []).append(number)
    if not found:
        raise SourceError(
            f"{paths[0]}: neither a folder of save_to_disk nor Parquet files named like train-00000-of-00001.parquet"
        )
    numbers = _choose(found, split) if split is not None or len(found) > 1 else next(iter(found.values()))
    folders = sorted({posixpath.dirname(paths[number]) for number in numbers})
    if len(folders) > 1:
        raise SourceError(f"files of one split lie in {', '.join(folders[:8])}; read one of these folders")
    return np.array(numbers, dtype=np.int64)


def _choose(splits: Mapping[str, Any], split: Any) -> Any:
    if split in splits:
        return splits[split]
    listed = ", ".join(repr(name) for name in splits)
    raise PlanError(f"split={split!r}: there are the splits {listed}; choose one with split=…")


def _schema(shards: Shards, read: ByteRanges) -> pa.Schema:
    place = shards.path(0)
    with arrow_errors(place), open_shard(shards, 0, read) as file:
        if place.endswith(".parquet"):
            return pq.read_schema(file)
        return pa.ipc.open_stream(file).schema


def _features(schema: pa.Schema) -> dict[str, Any]:
    """What the library noted of each column; nothing where it noted nothing that can be read."""
    try:
        noted = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    known = noted.items() if isinstance(noted, dict) else ()
    return {name: feature for name, feature in known if isinstance(feature, dict | list) and name in schema.names}


def _with_features(options: Options, own: dict[str, Any], schema: pa.Schema) -> Options:
    """The options with features' columns for the names that the user knows."""
    offered = _offered(schema)
    if options.columns is None and all(known == Column(feature=name) for name, known in offered.items()):
        return replace(options, own=own)
    columns = {}
    for name, wish in Selection(options.columns).columns(offered).items():
        known = offered.get(wish.feature)
        shape = known.shape if known is not None and wish.shape is None else wish.shape
        columns[name] = wish if known is None else replace(wish, feature=known.feature, shape=shape)
    return replace(options, columns=columns, own=own)


def _offered(schema: pa.Schema) -> dict[str, Column]:
    """The features by the names that users know: images, audio and video by their own, in structs and lists as well."""
    features: Any = _features(schema)
    found = [known for path in leaf_paths(schema) if (known := _known(path, features)) is not None]
    return {name: known for name, (_, known) in dotted(found).items()}


def _known(path: Path, features: Any) -> tuple[Path, Column] | None:
    """The name of a column, and how it is made; None for the path of a file, whose bytes are the column."""
    axes: tuple[int | None, ...] = ()
    node = features
    for number, name in enumerate(path):
        node = node.get(name) if isinstance(node, Mapping) else None
        node, more = _without_lists(node)
        axes += more
        if _kind(node) in _FILES and path[number + 1 :] == ("bytes",):
            return path[: number + 1], Column(feature=name_of(path))
        if _kind(node) in _FILES and path[number + 1 :] == ("path",):
            return None
    shape = _array_shape(node)
    return path, Column(feature=name_of(path), shape=None if shape is None else (*axes, *shape))


def _without_lists(node: Any) -> tuple[Any, tuple[int | None, ...]]:
    """What a feature's lists hold, and how long they are."""
    axes: tuple[int | None, ...] = ()
    while isinstance(node, list) or _kind(node) in _LISTS:
        length = -1 if isinstance(node, list) else node.get("length", -1)
        node = (node[0] if node else None) if isinstance(node, list) else node.get("feature")
        axes += (length if isinstance(length, int) and length >= 0 else None,)
    return node, axes


def _array_shape(node: Any) -> tuple[int | None, ...] | None:
    """The shape of an Array2D … Array5D, whose first axis may vary; None for other features."""
    shape = node.get("shape") if re.fullmatch(r"Array\dD", _kind(node)) else None
    if not isinstance(shape, list) or not shape or not all(isinstance(axis, int) for axis in shape[1:]):
        return None
    return tuple(shape) if shape[0] is None or isinstance(shape[0], int) else None


def _kind(node: Any) -> str:
    return str(node.get("_type", "")) if isinstance(node, Mapping) and isinstance(node.get("_type"), str) else ""


def _classes(features: Mapping[str, Any], options: Options) -> tuple[str, ...]:
    """The names of the first column of labels among those that are read."""
    for column in Selection(options.columns).columns(features).values():
        feature = features.get(column.feature, {})
        if _kind(feature) == "ClassLabel" and isinstance(feature.get("names"), list):
            return tuple(str(name) for name in feature["names"])
    return ()


def _indices(shards: Shards, read: ByteRanges, samples: int) -> Ids:
    """The table's row of each sample of a shuffled or filtered dataset."""
    rows = arrow_ipc.open_arrow(shards, read, Options(columns={"row": Column(feature="indices", dtype="int64")}))
    count = rows.manifest.samples
    numbers: Ids = as_rows(rows.load(0, count), rows.spec, count).fixed.reshape(-1).view(np.int64)
    if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < samples:
        raise DataError(f"{shards.path(0)}: an index outside the {samples:,} rows of the table; save the dataset again")
    return numbers


def _manifest(manifest: TableManifest, rows: Ids | None) -> TableManifest:
    if rows is None:
        return replace(manifest, format="huggingface")
    held = manifest.held_bytes * len(rows) // max(1, manifest.samples)
    first_sample = np.zeros(len(manifest.shards) + 1, dtype=np.int64)
    first_sample[1:] = len(rows)
    digest = hashlib.blake2b(np.ascontiguousarray(rows).data, digest_size=16).hexdigest()
    return TableManifest("huggingface", manifest.shards, first_sample, held_bytes=held, choice=f"indices {digest}")
