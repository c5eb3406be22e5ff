"""What a file of token ids says of itself: plain files nothing, llm.c's and NumPy's a header, Megatron's an index beside them.

A layout is where tokens lie: runs of one dtype. Runs are whole files, or the documents of Megatron's index.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core.columns.ragged import edges_of
from penstock.core.columns.spec import Ids
from penstock.core.errors import DataError, PlanError
from penstock.core.files.byte_ranges import ByteRanges, first_bytes, read_range
from penstock.core.files.shards import Shards
from penstock.format.claims import LLMC_DTYPES
from penstock.format.numpy.npy import MAGIC as NPY_MAGIC
from penstock.format.numpy.npy import read_headers

#: Megatron-LM, megatron/core/datasets/indexed_dataset.py: magic, version, dtype, sequences, entries of the list of documents.
_INDEX_MAGIC = b"MMIDIDX\x00\x00"
_INDEX_HEADER = struct.Struct("<9sQBQQ")
_INDEX_DTYPES = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2"}

#: llm.c, dev/data/data_common.py: 256 int32, of which the first three are magic, version, tokens; then the tokens.
_LLMC_HEADER_BYTES = 1024


@dataclass(frozen=True)
class TokenRuns:
    """Where tokens lie: run r are tokens[r] values of a dtype from byte start[r] of shard[r] on; runs ascend by shard."""

    dtype: np.dtype[Any]
    shard: Ids
    start: Ids
    tokens: Ids


def token_dtype(name: str) -> np.dtype[Any]:
    """The dtype of an option; PlanError if it is none of integers."""
    try:
        found = np.dtype(name)
    except TypeError:
        found = None
    if found is None or found.kind not in "iu":
        raise PlanError(f"dtype={name!r} is no type of integers; tokens are usually 'uint16' or 'uint32'")
    return found


def runs_of_files(shards: Shards, read: ByteRanges, dtype: str | None) -> TokenRuns:
    """Every file as one run; `dtype` is needed for plain files, and must agree with files that say theirs."""
    heads = first_bytes(shards, read, 12)
    npy = [shard for shard, head in enumerate(heads) if head.startswith(NPY_MAGIC)]
    if npy:
        if len(npy) < len(shards):
            raise DataError(f"{shards.path(npy[0])} is a .npy file and others are not; read them apart")
        return _npy_runs(shards, read, dtype)
    said = [_llmc(head, int(size)) for head, size in zip(heads, shards.sizes.tolist(), strict=True)]
    named = {kind for kind in said if kind is not None}
    if len(named) > 1 or (named and None in said):
        raise DataError(
            f"{shards.path(said.index(None) if None in said else 0)}: not all files have one header; read them apart"
        )
    if not named and dtype is None:
        raise PlanError(
            f"{shards.path(0)}: plain token files do not say what they hold; pass dtype='uint16', or what it is"
        )
    kind = _agreed(named.pop() if named else None, dtype, shards.path(0))
    start = _LLMC_HEADER_BYTES if said[0] is not None else 0
    numbers = np.arange(len(shards), dtype=np.int64)
    if (odd := np.flatnonzero((shards.sizes - start) % kind.itemsize)).size:
        raise DataError(
            f"{shards.path(int(odd[0]))}: {int(shards.sizes[odd[0]]):,} bytes are no whole number of {kind}; "
            f"the dtype is another, or the file is cut"
        )
    return TokenRuns(kind, numbers, np.full_like(numbers, start), (shards.sizes - start) // kind.itemsize)


def _llmc(head: bytes, size: int) -> str | None:
    """The dtype of a file with llm.c's header, which must say the file's size as well."""
    if len(head) < 12:
        return None
    magic, version, tokens = struct.unpack("<iii", head)
    kind = LLMC_DTYPES.get((magic, version))
    if kind is None or size != _LLMC_HEADER_BYTES + tokens * np.dtype(kind).itemsize:
        return None
    return kind


def _agreed(said: str | None, dtype: str | None, where: str) -> np.dtype[Any]:
    """The dtype that file and user agree on."""
    asked = None if dtype is None else token_dtype(dtype)
    if said is None:
        assert asked is not None
        return asked
    if asked is not None and asked != np.dtype(said):
        raise PlanError(
            f"{where} says that it holds {np.dtype(said)}, and dtype={dtype!r} was asked for; leave dtype out"
        )
    return np.dtype(said)


def _npy_runs(shards: Shards, read: ByteRanges, dtype: str | None) -> TokenRuns:
    headers = read_headers(shards, read)
    for shard, header in enumerate(headers):
        if len(header.shape) != 1 or header.dtype.kind not in "iu" or header.dtype != headers[0].dtype:
            raise DataError(
                f"{shards.path(shard)}: {header.dtype} of shape {header.shape}; tokens are one axis of integers, of one dtype in all files"
            )
    kind = _agreed(headers[0].dtype.str, dtype, shards.path(0))
    starts, tokens = ([getattr(header, name) for header in headers] for name in ("start", "shape"))
    return TokenRuns(
        kind,
        np.arange(len(shards), dtype=np.int64),
        np.array(starts, dtype=np.int64),
        np.array([shape[0] for shape in tokens], dtype=np.int64),
    )


def megatron_runs(bins: Shards, indices: Shards, read: ByteRanges, dtype: str | None, *, split: bool) -> TokenRuns:
    """Megatron's files by their indices, one for each: whole files as runs, or (split) every document as one."""
    found = [_one_index(bins, indices, shard, read) for shard in range(len(bins))]
    if len({one.dtype for one in found}) > 1:
        raise DataError(f"{indices.path(0)} and others differ in dtype; read them apart")
    kind = _agreed(found[0].dtype.str, dtype, indices.path(0))
    if not split:
        tokens = np.array([int(one.tokens.sum()) for one in found], dtype=np.int64)
        return TokenRuns(kind, np.arange(len(bins), dtype=np.int64), np.zeros(len(bins), dtype=np.int64), tokens)
    return TokenRuns(
        kind,
        np.repeat(np.arange(len(bins), dtype=np.int64), [len(one.tokens) for one in found]),
        np.concatenate([one.start for one in found]),
        np.concatenate([one.tokens for one in found]),
    )


def _one_index(bins: Shards, indices: Shards, shard: int, read: ByteRanges) -> TokenRuns:
    """The documents of one file; DataError where the index is damaged, or does not fit its file."""
    path, size = indices.path(shard), int(indices.sizes[shard])
    content = read_range(read, indices, shard, 0, min(size, _INDEX_HEADER.size)).tobytes()
    if len(content) < _INDEX_HEADER.size or not content.startswith(_INDEX_MAGIC):
        raise DataError(
            f"{path}, byte 0: {content[:9].hex(' ') or 'nothing'} where Megatron's MMIDIDX belongs; make the index again"
        )
    _, version, code, sequences, entries = _INDEX_HEADER.unpack(content)
    needed = _INDEX_HEADER.size + 12 * sequences + 8 * entries
    modes = needed + sequences  # a multimodal index says a mode for every sequence
    if version != 1 or code not in _INDEX_DTYPES or size not in (needed, modes):
        raise DataError(
            f"{path}, byte 9: version {version}, dtype code {code}, {sequences:,} sequences and {entries:,} documents in "
            f"{size:,} bytes, which take {needed:,}; version 1 of integers is read; make the index again"
        )
    body = read_range(read, indices, shard, 0, needed)[_INDEX_HEADER.size :]
    sizes = body[: 4 * sequences].view("<i4").astype(np.int64)
    start = body[4 * sequences : 12 * sequences].view("<i8").astype(np.int64)
    documents = body[12 * sequences :].view("<i8").astype(np.int64)
    return _documents(
        path,
        np.dtype(_INDEX_DTYPES[code]),
        (sizes, start, documents),
        (bins.path(shard), int(bins.sizes[shard])),
        shard,
    )


def _documents(
    path: str, kind: np.dtype[Any], arrays: tuple[Ids, Ids, Ids], bin_file: tuple[str, int], shard: int
) -> TokenRuns:
    """Documents out of sequences, which must fill the file of tokens without gaps."""
    sizes, start, documents = arrays
    name, size = bin_file
    ends = np.cumsum(sizes) * kind.itemsize
    if (sizes < 0).any() or (start != ends - sizes * kind.itemsize).any() or (ends[-1] if len(ends) else 0) != size:
        raise DataError(
            f"{path}: its sequences do not fill {name} ({size:,} bytes of {kind}) one after the other; the two belong not "
            f"together, or one is damaged"
        )
    bounds = documents if len(documents) and documents[0] == 0 else np.append(0, documents)
    if len(bounds) < 2 or bounds[-1] != len(sizes) or (np.diff(bounds) < 0).any():
        raise DataError(
            f"{path}: the list of documents does not cover the {len(sizes):,} sequences; make the index again"
        )
    edges = edges_of(sizes)[bounds]
    tokens = np.diff(edges)
    return TokenRuns(kind, np.full(len(tokens), shard, dtype=np.int64), edges[:-1] * kind.itemsize, tokens)
