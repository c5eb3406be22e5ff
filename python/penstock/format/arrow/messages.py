"""Where the record batches of Arrow IPC files and streams lie, from the messages' own headers.

A stream is messages behind each other; each says how long it is, so that bodies are passed over. Of a file, only the footer says where its
messages lie: writers differ in what stands before the first (pyarrow a schema, arrow-rs zeros up to 64 bytes, Polars a schema without its
length). Headers are flatbuffers: https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa

FILE_MAGIC = b"ARROW1"
_CONTINUES = b"\xff\xff\xff\xff"
#: Bytes of a header at most; it grows with the number of columns.
_HEADER_BYTES = 64 << 20
_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3
_KINDS = {_SCHEMA: "schema", _DICTIONARY: "dictionary", _BATCH: "batch"}


class BigEndian(Exception):
    """Numbers lie as big-endian machines write them."""


@dataclass(frozen=True)
class Message:
    """A message of a stream: its first byte, its bytes with prefix and body, and the rows of a record batch.

    kind: "schema", "dictionary" or "batch". packed: whether its buffers are compressed; buffers: offset and length of each in
    the body, which begins `body` bytes after `start`. nulls: how many each node of a record batch has (see `nodes`). of_views: how many
    buffers hold the values of each column of views.
    """

    kind: str
    start: int
    length: int
    body: int
    rows: int = 0
    packed: bool = False
    buffers: tuple[tuple[int, ...], ...] = ()
    nulls: tuple[int, ...] = ()
    of_views: tuple[int, ...] = ()


def read_stream(file: pa.NativeFile, size: int) -> list[Message]:
    """All messages of a stream of `size` bytes, bodies passed over; ArrowInvalid for what is none, BigEndian."""
    at = 0
    found: list[Message] = []
    while at < size:
        message = _read_one(file, at, size)
        if message is None:
            return found
        if (message.kind == "schema") != (not found):
            raise pa.ArrowInvalid(
                f"byte {at:,}: a {message.kind} message, where a stream has its schema first and only there"
            )
        found.append(message)
        at += message.length
    return found


def read_file(file: pa.NativeFile, size: int) -> list[Message]:
    """The dictionaries of a file of `size` bytes, then its batches, as its footer lists them; ArrowInvalid for what is none, BigEndian."""
    ending = 4 + len(FILE_MAGIC)
    if size < 2 * ending:
        raise pa.ArrowInvalid(f"a file of {size:,} bytes")
    file.seek(size - ending)
    length, magic = struct.unpack(f"<i{len(FILE_MAGIC)}s", file.read(ending))
    if magic != FILE_MAGIC or not 0 < length <= min(size - 2 * ending, _HEADER_BYTES):
        raise pa.ArrowInvalid("the footer is not there")
    file.seek(size - ending - length)
    footer = _Table.root(file.read(length))
    _check_order(footer.table(1))
    # Of a block of the footer, the first 8 of 24 bytes say where its message begins.
    listed = [(kind, at) for kind, field in ((_DICTIONARY, 2), (_BATCH, 3)) for (at,) in footer.structs(field, "<q16x")]
    found = [_read_listed(file, at, size, kind) for kind, at in listed]
    turn = sorted(found, key=lambda message: message.start)
    for one, after in pairwise(turn):
        if one.start + one.length > after.start:
            raise pa.ArrowInvalid(f"byte {after.start:,}: a message that begins inside another")
    return found


def _read_listed(file: pa.NativeFile, at: int, size: int, kind: int) -> Message:
    if not 0 < at < size:
        raise pa.ArrowInvalid(f"byte {at:,}: a message outside the file of {size:,} bytes")
    message = _read_one(file, at, size)
    if message is None or message.kind != _KINDS[kind]:
        raise pa.ArrowInvalid(f"byte {at:,}: no {_KINDS[kind]} message, where the footer says that one begins")
    return message


def _check_order(schema: _Table) -> None:
    if schema.number(0, "h"):
        raise BigEndian


def _read_one(file: pa.NativeFile, at: int, size: int) -> Message | None:
    """The message at a place; None where the stream ends."""
    file.seek(at)
    prefix = file.read(8)
    old = prefix[:4] != _CONTINUES  # before Arrow 0.15 the length came first
    if len(prefix) < 4 + 4 * (not old):
        raise pa.ArrowInvalid(f"byte {at:,}: the file ends in the middle of a message")
    prefix_bytes = 4 if old else 8
    (length,) = struct.unpack("<i", prefix[:4] if old else prefix[4:])
    if length == 0:
        return None
    left = size - at - prefix_bytes
    if not 0 < length <= min(left, _HEADER_BYTES):
        raise pa.ArrowInvalid(
            f"byte {at:,}: a message header of {length:,} bytes, with {left:,} bytes left in the file"
        )
    file.seek(at + prefix_bytes)
    header = _Table.root(file.read(length))
    body_bytes = header.number(3, "q")
    if not 0 <= body_bytes <= left - length:
        raise pa.ArrowInvalid(
            f"byte {at:,}: a message of {body_bytes:,} bytes, with {left - length:,} bytes left in the file"
        )
    body = prefix_bytes + length
    kind = header.number(1, "B")
    if kind == _SCHEMA:
        _check_order(header.table(2))
        return Message("schema", at, body + body_bytes, body)
    if kind not in (_DICTIONARY, _BATCH):
        raise pa.ArrowInvalid(f"byte {at:,}: a message of kind {kind}, which no table has")
    batch = header.table(2) if kind == _BATCH else header.table(2).table(1)
    rows = batch.number(0, "q")
    if rows < 0:
        raise pa.ArrowInvalid(f"byte {at:,}: a batch of {rows:,} rows")
    packed = batch.has(3)
    buffers = tuple(batch.structs(2, "<qq")) if packed else ()
    nulls = tuple(count for (count,) in batch.structs(1, "<8xq")) if kind == _BATCH else ()
    of_views = tuple(count for (count,) in batch.structs(4, "<q")) if packed else ()
    return Message(_KINDS[kind], at, body + body_bytes, body, rows, packed, buffers, nulls, of_views)


def unpacked_bytes(message: Message, data: pa.Buffer) -> int:
    """Bytes of a message's buffers once decompressed: each says it in its first 8 bytes (-1: it is stored as it is)."""
    view, total = memoryview(data), 0
    for offset, length in message.buffers:
        place = message.body + offset
        if length >= 8:
            if not message.body <= place <= len(view) - 8:
                raise pa.ArrowInvalid(
                    f"byte {message.start:,}: a buffer at {offset:,} of {length:,} bytes lies outside its message"
                )
            (size,) = struct.unpack_from("<q", view, place)
            if size < -1:
                raise pa.ArrowInvalid(f"byte {message.start:,}: a buffer of {size:,} bytes")
            total += length if size == -1 else size
    return total


class _Table:
    """A table of a flatbuffer; fields by number. ArrowInvalid for places outside the bytes."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at
        self._fields = at - self._read("i", at)
        self._fields_bytes = self._read("H", self._fields)

    @classmethod
    def root(cls, data: bytes) -> _Table:
        """The table that a flatbuffer is."""
        if len(data) < 4:
            raise pa.ArrowInvalid(f"a message header of {len(data)} bytes")
        return cls(data, struct.unpack_from("<I", data)[0])

    def has(self, field: int) -> bool:
        """Whether a field is there."""
        return self._place(field) is not None

    def number(self, field: int, code: str) -> int:
        """A number, 0 if it is left out."""
        place = self._place(field)
        return 0 if place is None else self._read(code, place)

    def table(self, field: int) -> _Table:
        """A table inside this one."""
        place = self._place(field)
        if place is None:
            raise pa.ArrowInvalid("a message header without its content")
        return _Table(self._data, place + self._read("I", place))

    def structs(self, field: int, code: str) -> list[tuple[int, ...]]:
        """A vector of structs."""
        place = self._place(field)
        if place is None:
            return []
        start = place + self._read("I", place)
        count, size = self._read("I", start), struct.calcsize(code)
        if start + 4 + size * count > len(self._data):
            raise pa.ArrowInvalid("a list in a message header or footer that does not fit into it")
        return list(struct.iter_unpack(code, self._data[start + 4 : start + 4 + size * count]))

    def _place(self, field: int) -> int | None:
        entry = 4 + 2 * field
        offset = self._read("H", self._fields + entry) if entry < self._fields_bytes else 0
        return self._at + offset if offset else None

    def _read(self, code: str, at: int) -> int:
        if not 0 <= at <= len(self._data) - struct.calcsize(code):
            raise pa.ArrowInvalid("a message header that points outside itself")
        value: int = struct.unpack_from(f"<{code}", self._data, at)[0]
        return value
