"""Checksums of files in the user's cache: one file a folder, with the CRC-32C of every 64 KiB of the files in it.

A file's checksums count as long as it has the size and the version (modification time, or hash of the ETag) that it had when
they were made. Like every entry of the cache they appear whole or not at all, and damaged ones are as good as none.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.columns import compute as pc
from penstock.core.columns.ragged import edges_of
from penstock.core.columns.spec import Ids
from penstock.core.files.cache_dirs import cache_folder, found_folder
from penstock.core.files.shards import Shards
from penstock.derived.file_indexes import load_checked, write_checked

#: Bytes of a file that share a checksum: 4 bytes in the cache for each, 64 MB for a terabyte.
CHUNK_BITS = 16
CHUNK_BYTES = 1 << CHUNK_BITS

_MAGIC = b"PSTKCS01"
#: Bytes of the checksums, which follow; then names, sizes and versions as an Arrow stream.
_HEADER = struct.Struct("<q")
_FOLDER = "checksums"

Checksums = npt.NDArray[np.uint32]


def chunks_of(sizes: Ids) -> Ids:
    """How many checksums files of these sizes have."""
    chunks: Ids = -(-sizes // CHUNK_BYTES)
    return chunks


@dataclass(frozen=True, eq=False)
class FolderChecksums:
    """The files of a folder: names, sizes, versions, and the checksums of file i at first[i] … first[i + 1] - 1."""

    names: pa.LargeStringArray
    sizes: Ids
    versions: Ids
    sums: Checksums

    @property
    def first(self) -> Ids:
        """Where each file's checksums begin."""
        return edges_of(chunks_of(self.sizes))

    def find(self, names: pa.LargeStringArray, sizes: Ids, versions: Ids) -> Ids:
        """The number of each file that is here as it is now; -1 for the others."""
        found: Ids = pc.fill_null(pc.index_in(names, value_set=self.names), -1).to_numpy().astype(np.int64)
        if len(self.names):
            same = (self.sizes[found] == sizes) & (self.versions[found] == versions)
            found[~same] = -1
        return found

    def with_files(self, other: FolderChecksums) -> FolderChecksums:
        """These files and others, which replace those of their names."""
        stay = pc.invert(pc.is_in(self.names, value_set=other.names)).to_numpy(zero_copy_only=False)
        kept = np.repeat(stay, chunks_of(self.sizes))
        return FolderChecksums(
            pa.concat_arrays([self.names.filter(pa.array(stay)), other.names]),
            np.append(self.sizes[stay], other.sizes),
            np.append(self.versions[stay], other.versions),
            np.append(self.sums[kept], other.sums),
        )


def by_folder(paths: pa.LargeStringArray) -> Iterator[tuple[str, Ids]]:
    """Every folder, and the numbers of the files in it."""
    encoded = pc.replace_substring_regex(paths, "[^/]*$", "").dictionary_encode()
    codes = encoded.indices.to_numpy()
    turn = np.argsort(codes, kind="stable")
    edges = np.searchsorted(codes[turn], np.arange(len(encoded.dictionary) + 1))
    for number, folder in enumerate(encoded.dictionary.to_pylist()):
        yield folder, turn[edges[number] : edges[number + 1]]


def names_of(paths: pa.LargeStringArray) -> pa.LargeStringArray:
    """The last part of each path."""
    return pc.replace_substring_regex(paths, "^.*/", "")


def has_any() -> bool:
    """Whether this user has checksums of any file."""
    return found_folder(_FOLDER) is not None


def load_folder(folder: str) -> FolderChecksums | None:
    """The checksums of a folder's files; None if there are none that are whole."""
    cache = found_folder(_FOLDER)
    found = None if cache is None else load_checked(_path(cache, folder), _MAGIC, _HEADER)
    if found is None:
        return None
    (sums_bytes,), content = found
    try:
        sums = np.frombuffer(content[:sums_bytes], dtype="<u4")
        batch = pa.ipc.open_stream(pa.py_buffer(content[sums_bytes:])).read_next_batch()
        batch.validate(full=True)
        files = FolderChecksums(batch["name"], batch["size"].to_numpy(), batch["version"].to_numpy(), sums)
    except (pa.ArrowException, KeyError, ValueError, OSError, StopIteration):
        return None
    is_possible = not (files.sizes < 0).any() and chunks_of(files.sizes).sum(dtype=np.float64) == len(sums)
    return files if is_possible else None


def store_files(shards: Shards, sums: Checksums) -> bool:
    """Store the checksums of files, file after file; False if there is no place for them."""
    cache = cache_folder(_FOLDER)
    first = edges_of(chunks_of(shards.sizes))
    kept = cache is not None
    for folder, numbers in by_folder(shards.paths) if cache is not None else ():
        part = shards.take(numbers)
        mine = np.concatenate([sums[first[number] : first[number + 1]] for number in numbers.tolist()])
        made = FolderChecksums(names_of(part.paths), part.sizes, part.versions, mine)
        before = load_folder(folder)
        kept &= _store(_path(str(cache), folder), made if before is None else before.with_files(made))
    return kept


def _store(path: str, files: FolderChecksums) -> bool:
    batch = pa.record_batch({"name": files.names, "size": pa.array(files.sizes), "version": pa.array(files.versions)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    sums = files.sums.astype("<u4").tobytes()
    return write_checked(path, _MAGIC, _HEADER.pack(len(sums)), sums, sink.getvalue().to_pybytes())


def _path(cache: str, folder: str) -> str:
    return os.path.join(cache, hashlib.blake2b(folder.encode(), digest_size=16).hexdigest() + ".sums")
