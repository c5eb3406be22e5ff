"""Rows of HDF5 datasets, from chunks that never become more than their shape takes.

libhdf5 unpacks a chunk to its end, a thousand times its shape if it was made so, one chunk at a time and with the interpreter held. Chunks of plain
values that went through deflate (gzip) and shuffle alone are unpacked here instead, by many threads at once. Other packed ones are looked at first.
"""

from __future__ import annotations

import itertools
import math
import os
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core.cancel import check

#: Numbers of filters (H5Zpublic.h).
_DEFLATE, _SHUFFLE, _FLETCHER32, _SZIP = 1, 2, 3, 4
#: Chunks that h5py reads in one call: it holds the interpreter meanwhile, and nobody sees Ctrl-C.
_CHUNKS_TOGETHER = 4096
#: Chunks across a row that are unpacked here; the steps for one take longer in Python than libhdf5 takes for a small chunk.
_MOST_ACROSS = 64
#: A byte of deflate becomes 1032 at most.
_DEFLATE_RATIO = 1_032
#: Chunks that become no more than this, however they were made, are left to libhdf5.
_HARMLESS_BYTES = 256 << 20


class BlockedDataset:
    """A dataset, read by blocks of rows. libhdf5 does one thing at a time: `take` is for one thread at a time, what it returns for any."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self.dtype: np.dtype[Any] = dataset.dtype
        self._shape: tuple[int, ...] = dataset.shape
        self._chunk: tuple[int, ...] = dataset.chunks or self._shape
        grid = zip(self._shape[1:], self._chunk[1:], strict=True)
        self._across = [range(0, size, max(1, one)) for size, one in grid]
        across = math.prod(map(len, self._across))
        self._together = max(1, self._chunk[0]) * max(1, _CHUNKS_TOGETHER // max(1, across))
        self._filters = _filters(dataset)
        self._element_bytes = _element_bytes(dataset.id.get_type())
        self._width = _width(dataset)
        self._chunk_bytes = math.prod(self._chunk) * self._width
        self._can_unpack = self._filters in ([], [_DEFLATE], [_SHUFFLE, _DEFLATE])
        self._is_packed = bool(self._filters) and self._can_unpack and _is_plain(dataset)
        self._is_ours = self._is_packed and across <= _MOST_ACROSS

    def take(self, first: int, last: int) -> Callable[[], npt.NDArray[Any]]:
        """Reads rows [first, last); the call that unpacks them."""
        if self._is_ours:
            chunks = [(corner, self._taken(corner, first, last)) for corner in self.corners(first, last)]
            return partial(self._unpacked, chunks, first, last)
        self._check_packed(first, last)
        self._check_lengths(first, last)
        values = self._read(first, last)
        return lambda: values

    @property
    def chunk_bytes(self) -> int:
        """Bytes of a chunk's values."""
        return int(self._chunk_bytes)

    def piece(self, corner: tuple[int, ...]) -> Callable[[], tuple[tuple[slice, ...], npt.NDArray[Any]]]:
        """Reads a chunk; the call that unpacks it: which of the dataset's values, and these."""
        rows = self._shape[0]
        if self._is_packed:
            return partial(self._placed, corner, self._taken(corner, 0, rows))
        self._check_chunk(corner)
        places = self._places(corner, 0, rows)
        return partial(_as_they_are, places, self._dataset[places])

    def _placed(
        self, corner: tuple[int, ...], found: bytes | npt.NDArray[Any]
    ) -> tuple[tuple[slice, ...], npt.NDArray[Any]]:
        places = self._places(corner, 0, self._shape[0])
        if not isinstance(found, bytes):
            return places, found
        return places, self._values(found)[tuple(slice(one.stop - one.start) for one in places)]

    def corners(self, first: int, last: int) -> Iterator[tuple[int, ...]]:
        """Where the chunks of rows [first, last) begin."""
        for begin in range(first - first % self._chunk[0], last, self._chunk[0]):
            check()
            yield from itertools.product([begin], *self._across)

    def _read(self, first: int, last: int) -> npt.NDArray[Any]:
        edge = min(last, (first // self._together + 1) * self._together)
        values: npt.NDArray[Any] = self._dataset[first:edge]
        if edge == last:
            return values
        made = np.empty((last - first, *values.shape[1:]), values.dtype)
        made[: edge - first] = values
        for begin in range(edge, last, self._together):
            check()
            end = min(begin + self._together, last)
            made[begin - first : end - first] = self._dataset[begin:end]
        return made

    def _taken(self, corner: tuple[int, ...], first: int, last: int) -> bytes | npt.NDArray[Any]:
        """A chunk as it is stored; its values among rows [first, last) where it was never written, or stored unlike the others."""
        if size := self._size(corner):
            skipped, packed = self._dataset.id.read_direct_chunk(corner)
            if not skipped and (size != self._chunk_bytes or _is_deflate(packed, self._chunk_bytes)):
                return bytes(packed)
        values: npt.NDArray[Any] = self._dataset[self._places(corner, first, last)]
        return values

    def _places(self, corner: tuple[int, ...], first: int, last: int) -> tuple[slice, ...]:
        """Which of the dataset's values a chunk has, among rows [first, last)."""
        ends = [min(at + one, size) for at, one, size in zip(corner, self._chunk, self._shape, strict=True)]
        return slice(max(corner[0], first), min(ends[0], last)), *map(slice, corner[1:], ends[1:])

    def _unpacked(self, chunks: list[tuple[tuple[int, ...], Any]], first: int, last: int) -> npt.NDArray[Any]:
        made = np.empty((last - first, *self._shape[1:]), self.dtype)
        for corner, found in chunks:
            check()
            places = self._places(corner, first, last)
            into = made[(slice(places[0].start - first, places[0].stop - first), *places[1:])]
            if isinstance(found, bytes):
                inside = [slice(one.start - at, one.stop - at) for one, at in zip(places, corner, strict=True)]
                into[...] = self._values(found)[tuple(inside)]
            else:
                into[...] = found
        return made

    def _values(self, packed: bytes) -> npt.NDArray[Any]:
        """A chunk's values; ValueError where it does not have the bytes of its shape."""
        return self._stored(packed).view(self.dtype).reshape(self._chunk)

    def _stored(self, packed: bytes) -> npt.NDArray[np.uint8]:
        """The bytes of a chunk's values, a row each."""
        unpacked = _inflated(packed, self._chunk_bytes) if self._filters else packed
        if len(unpacked) != self._chunk_bytes:
            raise ValueError(f"a chunk of {len(unpacked):,} bytes, where its values take {self._chunk_bytes:,}")
        found = np.frombuffer(unpacked, np.uint8)
        if _SHUFFLE in self._filters and self._width > 1:  # all first bytes of values come first, then all second ones
            return np.ascontiguousarray(found.reshape(self._width, -1).T)
        return found.reshape(-1, self._width)

    def _check_lengths(self, first: int, last: int) -> None:
        """ValueError for text or a list that says it is longer than the file: libhdf5 asks for that much memory before it looks."""
        if not self._element_bytes:
            return
        file_bytes = os.path.getsize(self._dataset.file.filename)
        for stored in self._references(first, last):
            lengths = stored[:, :4].copy().view("<u4")
            if lengths.size and (most := int(lengths.max()) * self._element_bytes) > file_bytes:
                raise ValueError(f"text or a list that says it has {most:,} bytes, in a file of {file_bytes:,}")

    def _references(self, first: int, last: int) -> Iterator[npt.NDArray[np.uint8]]:
        """What is stored of rows of varying length: how long they are, and where; nothing where filters hide it."""
        if self._dataset.chunks is None:
            if (start := self._dataset.id.get_offset()) is not None:
                row_bytes = math.prod(self._shape[1:]) * self._width
                with open(self._dataset.file.filename, "rb") as file:
                    file.seek(start + first * row_bytes)
                    found = np.frombuffer(file.read((last - first) * row_bytes), np.uint8)
                yield found[: len(found) // self._width * self._width].reshape(-1, self._width)
            return
        for corner in self.corners(first, last) if self._can_unpack else ():
            if self._size(corner):
                skipped, packed = self._dataset.id.read_direct_chunk(corner)
                if not skipped:
                    yield self._stored(packed)

    def _check_packed(self, first: int, last: int) -> None:
        """ValueError for a chunk that libhdf5 would make more of than its shape takes."""
        if self._filters and self._filters[-1] in (_DEFLATE, _FLETCHER32, _SZIP):
            for corner in self.corners(first, last):
                self._check_chunk(corner)

    def _check_chunk(self, corner: tuple[int, ...]) -> None:
        if not self._filters or self._filters[-1] not in (_DEFLATE, _FLETCHER32, _SZIP):
            return
        if self._size(corner) * _DEFLATE_RATIO <= _HARMLESS_BYTES and _SZIP not in self._filters:
            return
        skipped, packed = self._dataset.id.read_direct_chunk(corner)
        if skipped:
            return
        if _SZIP in self._filters:
            _check(int.from_bytes(packed[:4], "little"), self._chunk_bytes)
        elif _DEFLATE in self._filters:
            _is_deflate(packed, self._chunk_bytes)

    def _size(self, corner: tuple[int, ...]) -> int:
        """Bytes of a chunk in the file, 0 where it was never written; ValueError for more than its values take at worst."""
        size: int = self._dataset.id.get_chunk_info_by_coord(corner).size
        _check(size, self._chunk_bytes + self._chunk_bytes // 1_000 + 1_024)
        return size


def _as_they_are(places: tuple[slice, ...], values: npt.NDArray[Any]) -> tuple[tuple[slice, ...], npt.NDArray[Any]]:
    return places, values


def _filters(dataset: Any) -> list[int]:
    pipeline = dataset.id.get_create_plist()
    return [pipeline.get_filter(number)[0] for number in range(pipeline.get_nfilters())]


def _element_bytes(stored: Any) -> int:
    """Bytes of an element of text or lists of any length; 0 for other types."""
    from h5py import h5t

    if isinstance(stored, h5t.TypeStringID):
        return 1 if stored.is_variable_str() else 0
    return stored.get_super().get_size() if isinstance(stored, h5t.TypeVlenID) else 0


def _width(dataset: Any) -> int:
    """Bytes of a value in its chunk; no fewer, for records and arrays of text or lists of any length."""
    in_memory: int = dataset.id.get_type().get_size()
    if not dataset.dtype.hasobject:
        return in_memory
    if dataset.dtype.names is not None or dataset.dtype.subdtype is not None:
        return 2 * in_memory
    address_bytes: int = dataset.file.id.get_create_plist().get_sizes()[0]
    return 4 + address_bytes + 4  # its length, and the heap and number where it lies


def _is_plain(dataset: Any) -> bool:
    """Whether the values lie in chunks as NumPy has them."""
    from h5py import h5t

    dtype = dataset.dtype
    same: bool = dataset.id.get_type().equal(h5t.py_create(dtype, logical=True))
    return same and not dtype.hasobject and dtype.subdtype is None and dtype.itemsize > 0


def _inflated(packed: bytes, most: int) -> bytes:
    """The unpacked bytes; ValueError for more than `most`, and for what is no deflate."""
    stream = zlib.decompressobj()
    try:
        found = stream.decompress(packed, most + 1)
    except zlib.error as error:
        raise ValueError(f"a chunk that deflate cannot unpack ({error})") from None
    _check(len(found), most)
    if not stream.eof:
        raise ValueError("a chunk that ends in the middle of its packed bytes")
    return found


def _is_deflate(packed: bytes, most: int) -> bool:
    """Whether it can be unpacked; ValueError if it becomes more than `most`."""
    try:
        _inflated(packed, most)
    except _TooLarge:
        raise
    except ValueError:
        return False
    return True


class _TooLarge(ValueError):
    """More bytes than a chunk's values take."""


def _check(size: int, most: int) -> None:
    if size > most:
        raise _TooLarge(
            f"a chunk of {size:,} bytes or more, where its values take {most:,} at most; it is damaged, or made to fill the memory"
        )
