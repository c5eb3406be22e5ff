"""The file in which rows are kept in the cache: those of `cache()`, decoded parts of tables, and iterables that are drawn once.

    head      what kind of file it is, where its facts are, and a digest of them
    pieces    bytes, each with a checksum (CRC-32C)
    facts     what is in it, as JSON

A file that is written once has blocks of rows as its pieces (`BlockFile`), and its facts at the end. `cache()` adds rows in any order
and from several processes: its facts come first, then a table of rows, and then their bytes (`row_cache.spaces`).
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core import kernels
from penstock.core.columns.spec import Bytes, Ids
from penstock.core.cpus import usable_cpus

SUFFIX = ".rows"
#: Another layout gets another number.
MAGIC = b"PSTKROW2"
#: The magic, where the facts begin, their length and digest.
_HEAD = struct.Struct("<8sqq16s")
HEAD_BYTES = _HEAD.size
_MOST_FACTS = 1 << 31
#: Blocks begin at multiples of this, as Arrow wants its buffers.
_ALIGNED = 64


def write_facts(file: BinaryIO, facts: Mapping[str, Any], at: int) -> int:
    """Writes the facts to this place, and the head; where the facts end."""
    text = json.dumps(facts).encode()
    file.seek(at)
    file.write(text)
    file.seek(0)
    file.write(_HEAD.pack(MAGIC, at, len(text), _digest(text)))
    return at + len(text)


def read_facts(file: BinaryIO) -> dict[str, Any]:
    """The facts; ValueError for a file of another kind or version, or where they are damaged."""
    head = file.read(HEAD_BYTES)
    magic, at, size, digest = _HEAD.unpack(head) if len(head) == HEAD_BYTES else (b"", 0, 0, b"")
    if magic != MAGIC or at < 0 or not 0 < size <= _MOST_FACTS:
        raise ValueError("its header is damaged, or of another version")
    file.seek(at)
    text = file.read(size)
    if _digest(text) != digest:
        raise ValueError("what says what is in it is damaged")
    found: dict[str, Any] = json.loads(text)
    return found


def _digest(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=16).digest()


def sums_of(data: Bytes, begin: Ids, length: Ids, threads: int) -> npt.NDArray[np.uint32]:
    """The checksums of pieces of `data`."""
    return kernels.crc32c_sums(data, np.ascontiguousarray(begin), np.ascontiguousarray(length), threads)


class BlockWriter:
    """Writes a file of blocks, from its beginning."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._begin = file, [_ALIGNED]
        file.write(bytes(_ALIGNED))

    @property
    def size_bytes(self) -> int:
        """Bytes written so far."""
        return self._begin[-1]

    def add(self, block: pa.RecordBatch) -> None:
        """One more block. OSError where there is no room."""
        with pa.ipc.new_stream(self._file, block.schema) as writer:
            writer.write_batch(block)
        self._file.write(bytes(-self._file.tell() % _ALIGNED))
        self._begin.append(self._file.tell())
        self._file.flush()

    def finish(self, facts: Mapping[str, Any]) -> None:
        """Writes what is in it, and ends the file there."""
        begin = np.array(self._begin, dtype=np.int64)
        sums = sums_of(np.memmap(self._file.name, np.uint8, "r"), begin[:-1], np.diff(begin), usable_cpus())
        blocks = {"begin": self._begin, "sums": sums.tolist()}
        self._file.truncate(write_facts(self._file, {**facts, "blocks": blocks}, self._begin[-1]))
        self._file.flush()


class BlockFile:
    """A file of blocks, mapped. Each block is compared with its checksum once, when it is first needed. Copies in other processes hold the bytes."""

    def __init__(self, path: str, facts: dict[str, Any], data: Bytes) -> None:
        self.path, self.facts, self._data = path, facts, data
        self._begin, self._sums = np.array(facts["blocks"]["begin"], dtype=np.int64), facts["blocks"]["sums"]
        self._opened = dict[int, pa.RecordBatch]()

    @classmethod
    def open(cls, path: str) -> BlockFile | None:
        """The file; None if it is missing, of another version, or damaged as far as its facts tell."""
        try:
            with pa.memory_map(path) as file:  # unlike Python's mmap, what it maps keeps no file open
                data = np.frombuffer(file.read_buffer(), dtype=np.uint8)
                file.seek(0)
                return cls(path, read_facts(file), data)
        except (OSError, ValueError, LookupError):
            return None

    @property
    def size_bytes(self) -> int:
        """Bytes of the file."""
        return len(self._data)

    def __reduce__(self) -> tuple[Any, ...]:
        return BlockFile, (self.path, self.facts, self._data)

    def block(self, number: int) -> pa.RecordBatch:
        """A block, as places in the file. ArrowInvalid where it is not as it was written."""
        if (found := self._opened.get(number)) is not None:
            return found
        begin, end = self._begin[number : number + 2].tolist()
        if sums_of(self._data, self._begin[number : number + 1], np.array([end - begin]), 1)[0] != self._sums[number]:
            raise pa.ArrowInvalid(f"block {number:,} has another checksum than when it was written")
        found = pa.ipc.open_stream(pa.py_buffer(self._data[begin:end])).read_next_batch()
        return self._opened.setdefault(number, found)


def binary_column(data: Bytes, rows: int, width: int) -> pa.Array:
    """Rows of fixed width as a block's column."""
    return pa.Array.from_buffers(pa.binary(width or 1), rows, [None, pa.py_buffer(data if width else bytes(rows))])


def bytes_of_binary(column: pa.Array, width: int) -> Bytes:
    """The rows of such a column side by side."""
    if not width:
        return np.empty(0, dtype=np.uint8)
    held = np.frombuffer(column.buffers()[1] or b"", dtype=np.uint8)
    return held[width * column.offset : width * (column.offset + len(column))]
