"""The heaps in which HDF5 keeps text and lists of any length, looked at before libhdf5 is: over some damage it loops for ever, and nobody can stop it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO

from penstock.core.errors import DataError

#: How a heap begins: its name and version; then its size comes, and its objects.
_BEGIN = b"GCOL\x01\0\0\0"
_SIZE = struct.Struct("<Q")
#: An object's number (0 for what is free), its uses, and its size.
_OBJECT = struct.Struct("<H6xQ")
_FEWEST_BYTES = 4_096
_PIECE_BYTES = 16 << 20
#: Files above this are not looked through.
_MOST_BYTES = 1 << 30


def check_heaps(path: str, size: int) -> None:
    """DataError for a file of `size` bytes with a heap of objects that cannot be; one of more than 1 GiB is believed."""
    if size > _MOST_BYTES:
        return
    with open(path, "rb") as file:
        for at in [*_begins(file)]:
            file.seek(at + len(_BEGIN))
            content = file.read(_SIZE.size)
            heap_bytes = _SIZE.unpack(content)[0] if len(content) == _SIZE.size else 0
            if _FEWEST_BYTES <= heap_bytes <= size - at and (wrong := _wrong(file.read(heap_bytes - 16))) is not None:
                raise DataError(
                    f"{path}, byte {at + 16 + wrong:,}: an object in the heap of text and lists with a size that cannot be; "
                    f"the file is damaged, write it again"
                )


def _begins(file: BinaryIO) -> Iterator[int]:
    """Where heaps begin."""
    first, kept = 0, b""
    while piece := file.read(_PIECE_BYTES):
        piece, at = kept + piece, -1
        while (at := piece.find(_BEGIN, at + 1)) >= 0:
            yield first + at
        kept = piece[1 - len(_BEGIN) :]
        first += len(piece) - len(kept)


def _wrong(objects: bytes) -> int | None:
    """Where the first object begins whose size cannot be; None if all can."""
    at = 0
    while at + _OBJECT.size <= len(objects):
        number, size = _OBJECT.unpack_from(objects, at)
        taken = _OBJECT.size + -(-size // 8) * 8 if number else size
        if not _OBJECT.size <= taken <= len(objects) - at:
            return at
        at += taken
    return None
