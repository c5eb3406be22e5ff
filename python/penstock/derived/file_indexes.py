"""Indexes of files in the user's cache: where records lie, and how files are compressed.

The cache is a folder of this user's (see `penstock.core.files.cache_dirs`). An entry's name is a digest of the
format, its version, and the file's path or URL, size and modification time or ETag, so a changed file has another entry. Entries
appear whole or not at all, and a damaged one is ignored. Several processes may write the same entry at once.
"""

from __future__ import annotations

import hashlib
import os
import struct
import uuid
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core.columns.spec import Ids
from penstock.core.files.scratch import whole_file
from penstock.core.files.shards import Shards

#: The start of every entry; another layout gets another number.
_MAGIC = b"PSTKIX02"
#: Start, packing, unpacked size (-1: not packed), bytes of one length, records.
_HEADER = struct.Struct("<qqqqq")
#: Behind what names the content, and its digest.
_CHECKED_FROM = 24
#: Part of keys that no other process may know.
_OURS = uuid.uuid4().hex


@dataclass(frozen=True, eq=False)
class IndexedFile:
    """One file's index.

    length: int64, bytes of each record with its frame; records lie without gaps from byte `start` on. packing: 0 for a plain file, else the
    compression; unpacked_bytes: its decompressed size, -1 for a plain file.
    """

    length: Ids
    start: int = 0
    packing: int = 0
    unpacked_bytes: int = -1

    def fits(self, file_bytes: int) -> bool:
        """Whether all records lie in a file of this size, or in what it unpacks to."""
        size = self.unpacked_bytes if self.packing else file_bytes
        return self.start + float(self.length.sum(dtype=np.float64)) <= size


def entry_key(kind: str, version: int, path: str, size: int, modified_ns: int, changed_ns: int = 0) -> str:
    """32 hex digits that name the entry of this version of a file.

    changed_ns: when anything of a local file last changed, which also happens to one that is replaced with its size and time.
    """
    place = path if "://" in path else os.path.abspath(path)
    text = f"{kind}\0{version}\0{place}\0{size}\0{modified_ns}" + (f"\0{changed_ns}" if changed_ns else "")
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


def shard_key(kind: str, version: int, shards: Shards, shard: int) -> str | None:
    """The same for a shard; None if its name does not identify its storage, or if it may be replaced unnoticed."""
    path = shards.path(shard)
    is_elsewhere = "://" in path
    if not (is_elsewhere or os.path.isabs(path)) or (is_elsewhere and not shards.has_version(shard)):
        return None
    changed_ns = 0 if shards.stamps is None else int(shards.stamps[shard, 1])
    return entry_key(kind, version, path, int(shards.sizes[shard]), int(shards.versions[shard]), changed_ns)


def part_key(kind: str, version: int, shards: Shards, shard: int) -> str:
    """The same for a part of a shard; a key for this process alone if `shard_key` has none."""
    found = shard_key(kind, version, shards, shard)
    return found or entry_key(f"{kind} {_OURS}", version, shards.path(shard), int(shards.sizes[shard]), 0)


def load_entry(folder: str | None, key: str) -> IndexedFile | None:
    """The entry; None if it is missing or damaged."""
    found = None if folder is None else load_checked(os.path.join(folder, key + ".index"), _MAGIC, _HEADER)
    if found is None:
        return None
    (start, packing, unpacked_bytes, width, records), lengths = found
    if width not in (4, 8) or len(lengths) != width * records:
        return None
    length = np.frombuffer(lengths, dtype=f"<u{width}").astype(np.int64)
    is_possible = start >= 0 and unpacked_bytes >= -1 and not (length.size and int(length.min()) < 0)
    return IndexedFile(length, start, packing, unpacked_bytes) if is_possible else None


def store_entry(folder: str | None, key: str, entry: IndexedFile) -> None:
    """Store an entry. Without room or permission it is not stored, and the file is indexed again next time."""
    if folder is None:
        return
    width = 4 if entry.length.size == 0 or int(entry.length.max()) < 1 << 32 else 8
    lengths = entry.length.astype(f"<u{width}").tobytes()
    header = _HEADER.pack(entry.start, entry.packing, entry.unpacked_bytes, width, entry.length.size)
    write_checked(os.path.join(folder, key + ".index"), _MAGIC, header, lengths)


def write_checked(path: str, magic: bytes, *parts: bytes) -> bool:
    """Writes 8 bytes that name what follows, a digest of it, and the parts, whole or not at all; False without room or permission."""
    try:
        with whole_file(path) as scratch, open(scratch, "wb") as file:
            file.writelines([magic, _digest(*parts), *parts])
    except OSError:
        return False
    return True


def load_checked(
    path: str, magic: bytes, header: struct.Struct, *, mapped: bool = False
) -> tuple[tuple[Any, ...], memoryview] | None:
    """The header and the rest of what `write_checked` was given; None for a file that is missing, of another kind, or damaged."""
    try:
        with open(path, "rb") as file:
            content = np.memmap(file, np.uint8, "r").data if mapped else memoryview(file.read())
    except (OSError, ValueError):  # an empty file cannot be mapped
        return None
    rest = content[_CHECKED_FROM:]
    is_whole = bytes(content[:8]) == magic and bytes(content[8:_CHECKED_FROM]) == _digest(rest)
    return (header.unpack_from(rest), rest[header.size :]) if is_whole and len(rest) >= header.size else None


def _digest(*parts: bytes | memoryview) -> bytes:
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        state.update(part)
    return state.digest()
