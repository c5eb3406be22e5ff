"""Files of token ids, cut into windows: plain .bin (nanoGPT), llm.c's, .npy, and Megatron's .bin with .idx.

A window begins every `stride` tokens; where the stride is smaller than the window they overlap, and each token is still stored once. Windows never
reach from one file into the next, nor, with documents="split", from one document into the next; what is left at an end and
shorter than a window is no sample. There is no index: a window's place is arithmetic, so a terabyte of tokens opens at once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.columns.ragged import edges_of
from penstock.core.columns.spec import Ids
from penstock.core.errors import PlanError, SourceError
from penstock.core.files.byte_ranges import ByteRanges
from penstock.core.files.shards import Shards
from penstock.core.verbs.options import Options
from penstock.format.tokens.files import TokenRuns, megatron_runs, runs_of_files
from penstock.source.arrays.strided import Mapped, Records, RegularManifest, stored_column
from penstock.source.selection import Selection

_COLUMN = "tokens"


@dataclass(frozen=True, kw_only=True)
class _Cut:
    """The options: see FORMAT."""

    window: int
    stride: int
    dtype: str | None
    to_dtype: str | None
    documents: str
    mapped: bool | None

    @classmethod
    def of(cls, own: Mapping[str, Any]) -> _Cut:
        """The user's options, checked."""
        given: dict[str, Any] = {field.name: own.get(field.name) for field in fields(cls)}
        given["documents"] = given["documents"] or "join"
        given["stride"] = given["window"] if given["stride"] is None else given["stride"]
        for name in ("window", "stride"):
            if type(given[name]) is not int or not 0 < given[name] < 1 << 40:
                raise PlanError(
                    f"tokens: {name}={given[name]!r}; pass how many tokens a sample has, for example window=2049"
                )
        if given["documents"] not in ("join", "split"):
            raise PlanError(f"tokens: documents={given['documents']!r}; it is 'join' or 'split'")
        return cls(**given)


def open_tokens(shards: Shards, read: ByteRanges, options: Options) -> Records:
    """Opens token files; see FORMAT for the options. DataError for files that are not what they say."""
    cut = _Cut.of(options.own)
    runs, bins = _runs(shards, read, cut)
    manifest = _manifest(bins, runs, cut)
    if manifest.samples == 0:
        longest = int(runs.tokens.max(initial=0))
        raise SourceError(
            f"{bins.path(0)}: the longest run has {longest:,} tokens, fewer than window={cut.window}; choose a smaller one"
        )
    column = stored_column(runs.dtype, (cut.window,), to_dtype=_wanted(runs.dtype, cut.to_dtype))
    features = Selection(options.columns).choose_stored({_COLUMN: column.field}, bins.path(0))
    mapped = bins.is_local if cut.mapped is None else cut.mapped
    files = Mapped(bins, read) if mapped else None
    return Records(manifest, dict.fromkeys(features, column), files)


def _runs(shards: Shards, read: ByteRanges, cut: _Cut) -> tuple[TokenRuns, Shards]:
    """Where tokens lie, and the files that hold them."""
    paths = shards.paths.to_pylist()
    place = {path: shard for shard, path in enumerate(paths)}
    bins = [path for path in paths if not path.endswith(".idx")]
    chosen = shards.take(np.array([place[path] for path in bins], dtype=np.int64))
    indices = [path.removesuffix(".bin") + ".idx" for path in bins]
    if not bins or not (indices[0] in place or _is_file(indices[0])):
        if cut.documents == "split":
            raise PlanError(
                f"{paths[0]}: documents='split' needs Megatron's index (.idx) beside the .bin, to know where they begin"
            )
        return runs_of_files(chosen if bins else shards, read, cut.dtype), chosen if bins else shards
    for path in indices:
        if path not in place and not _is_file(path):
            raise SourceError(f"{path}: missing, and {indices[0]} is there; every .bin needs its own .idx")
    listed = (
        shards.take(np.array([place[path] for path in indices], dtype=np.int64))
        if indices[0] in place
        else _local(indices)
    )
    return megatron_runs(chosen, listed, read, cut.dtype, split=cut.documents == "split"), chosen


def _is_file(path: str) -> bool:
    return os.path.isabs(path) and os.path.isfile(path)


def _local(paths: list[str]) -> Shards:
    """Local files that were not listed: indices beside the files that were."""
    found = [os.stat(path) for path in paths]
    sizes, times = ([getattr(one, name) for one in found] for name in ("st_size", "st_mtime_ns"))
    stamps = np.array([(one.st_mtime_ns, one.st_ctime_ns, one.st_ino) for one in found], dtype=np.uint64).view(np.int64)
    return Shards(
        pa.array(paths, pa.large_string()),
        np.array(sizes, dtype=np.int64),
        np.array(times, dtype=np.int64),
        stamps=stamps,
    )


def _manifest(bins: Shards, runs: TokenRuns, cut: _Cut) -> RegularManifest:
    windows: Ids = np.maximum(0, (runs.tokens - cut.window) // cut.stride + 1)
    kept = np.flatnonzero(windows)  # an empty run would stand where another begins
    first_of_run = edges_of(windows[kept])
    per_shard = np.bincount(runs.shard, weights=None, minlength=len(bins)) * 0
    np.add.at(per_shard, runs.shard, windows)
    size = runs.dtype.itemsize
    return RegularManifest(
        format=f"tokens {runs.dtype.str}",
        shards=bins,
        first_sample=edges_of(per_shard),
        first_of_run=first_of_run,
        run_start=runs.start[kept],
        record_bytes=cut.window * size,
        stride_bytes=cut.stride * size,
    )


def _wanted(stored: np.dtype[Any], to_dtype: str | None) -> str:
    """The dtype of the column; PlanError for one that cannot hold every token."""
    if to_dtype is None:
        return stored.newbyteorder("=").name
    wanted = {"int64", "int32", "uint32", stored.newbyteorder("=").name}
    if to_dtype not in wanted or not np.can_cast(stored, to_dtype):
        held = sorted(name for name in wanted if np.can_cast(stored, name))
        raise PlanError(f"tokens: to_dtype={to_dtype!r} cannot be made of {stored}; one of {', '.join(held)} can")
    return to_dtype
