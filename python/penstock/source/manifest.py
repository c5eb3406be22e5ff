"""The manifest: which shards a dataset has, how many records, and where each record lies.

Sample ids are the records' numbers in manifest order: shard after shard, record after record.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, TypeVar

import numpy as np
import pyarrow as pa

from penstock.core.columns import compute as pc
from penstock.core.columns.spec import Ids, Spans
from penstock.core.errors import DataError
from penstock.core.files.byte_ranges import ByteRanges, read_ranges
from penstock.core.files.shards import Shards, joined_shards

#: Row ids are int64.
MOST_IDS = (1 << 63) - 1

_Manifest = TypeVar("_Manifest", bound="Manifest")


@dataclass(frozen=True, eq=False)
class Manifest:
    """Shards and records of a dataset.

    Args:
        format: the format's name.
        shards: the files.
        first_sample: int64, shards + 1 entries: shard s holds the sample ids first_sample[s] … first_sample[s + 1] - 1.
        offset: int64, one entry a record: the first byte of the record (its frame included) in its shard. None, the default, where every shard is one
            record, and where records have no bytes of their own (in memory, in columns).
        length: int64, one entry a record: the record's bytes. None where `offset` is.
        unpacked: the files in which the records lie if the shards are packed as a whole, one a shard; they are made from the shards and no part of the
            data's identity. Default: None.
        scattered: whether neighbouring records may lie anywhere in their shard, so that each is read by its own range. Default: False.
        settings: the options that change what the same bytes mean. Default: None, there are none.
        first_of_source: where several sources are read as one, the first sample of each, and the end. Default: None.

    Example:
        manifest = ps.read("examples.tfrecord").source.manifest
        manifest.samples == len(manifest.offset)
    """

    format: str
    shards: Shards
    first_sample: Ids
    offset: Ids | None = None
    length: Ids | None = None
    unpacked: Shards | None = None
    scattered: bool = False
    settings: str | None = None
    first_of_source: Ids | None = None

    @property
    def samples(self) -> int:
        """Number of records in the dataset."""
        return int(self.first_sample[-1])

    @property
    def stored(self) -> Shards:
        """The files to read: offset and length are places in them."""
        return self.shards if self.unpacked is None else self.unpacked

    @property
    def listings(self) -> tuple[Shards, ...]:
        """All files that samples are read from: the shards, and what they were unpacked to."""
        return (self.shards,) if self.unpacked is None else (self.shards, self.unpacked)

    @property
    def size_bytes(self) -> int:
        """Bytes of all records together."""
        return int(self.stored.sizes.sum())

    @property
    def open_bytes(self) -> int:
        """Bytes of all records in memory: files whose records are scattered may have room for more, or be sparse."""
        return (
            min(self.size_bytes, int(self.length.sum()))
            if self.scattered and self.length is not None
            else self.size_bytes
        )

    @cached_property
    def one_record_each(self) -> bool:
        """Whether every shard is one record, so that a sample's id is its shard's number."""
        if self.offset is not None or len(self.shards) != self.samples:
            return False
        return bool((np.diff(self.first_sample) == 1).all())

    def shard_of(self, samples: Ids) -> Ids:
        """The shard of each sample id."""
        if self.one_record_each:
            return samples
        return np.searchsorted(self.first_sample, samples, side="right") - 1

    def extents(self, samples: Ids) -> tuple[Ids, Ids, Ids]:
        """Shard, offset and length (int64) of each record that has bytes of its own."""
        shard = self.shard_of(samples)
        if self.offset is None or self.length is None:
            return shard, np.zeros(len(samples), dtype=np.int64), self.shards.sizes[samples]
        return shard, self.offset[samples], self.length[samples]

    def parts(self, first: int, rows: int) -> Iterator[tuple[int, int, int]]:
        """The shards that hold samples [first, first + rows): for each its number, the first row in it, and how many rows."""
        edges, end = self.first_sample, first + rows
        shard = int(np.searchsorted(edges, first, side="right")) - 1
        while first < end:
            stop = min(end, int(edges[shard + 1]))
            if stop > first:
                yield shard, first - int(edges[shard]), stop - first
            first, shard = stop, shard + 1

    def place(self, sample: int) -> str:
        """Where a record lies, for messages: "train-3.tfrecord, record 17, byte 120,413"."""
        if len(self.shards) == 0:
            return f"sample {sample}"
        shard = int(self.shard_of(np.array([sample]))[0])
        path = self.shards.path(shard)
        if self.one_record_each:
            return path
        record = f"{path}, record {sample - int(self.first_sample[shard]):,}"
        return record if self.offset is None else f"{record}, byte {int(self.offset[sample]):,}"

    def own_id(self, sample: int) -> int:
        """A sample's id in its source: the same, unless several sources are read as one."""
        first = self.first_of_source
        return sample if first is None else sample - int(first[np.searchsorted(first, sample, side="right") - 1])

    @cached_property
    def digest(self) -> str:
        """32 hex digits that identify the data: names below the root, sizes, record counts and record lengths.

        Modification times are left out, so that a copy of the data on another machine is the same data.
        """
        state = hashlib.blake2b(digest_size=16)
        state.update(self.format.encode())
        below_root = pc.utf8_slice_codeunits(self.shards.paths, len(self.shards.root))
        for buffer in below_root.buffers()[1:]:
            state.update(buffer or b"")
        for numbers in (self.shards.sizes, self.first_sample, self.length):
            state.update(b"-" if numbers is None else np.ascontiguousarray(numbers).data)
        return state.hexdigest() if self.settings is None else digest_of(state.hexdigest() + self.settings)


def joined_manifest(several: Sequence[_Manifest]) -> _Manifest:
    """Of several datasets whose places are arithmetic, one after the other, read as one; all else is the first one's."""
    return replace(
        several[0],
        shards=joined_shards([one.shards for one in several]),
        first_sample=joined_edges([one.first_sample for one in several]),
        first_of_source=np.cumsum([0, *(one.samples for one in several)]),
    )


def joined_edges(several: Sequence[Ids]) -> Ids:
    """Edges that begin at 0, one after the other: joined_edges([[0, 2], [0, 1, 4]]) is [0, 2, 3, 6]."""
    before = np.cumsum([0, *(edges[-1] for edges in several)])
    return np.concatenate([*(edges[:-1] + first for edges, first in zip(several, before, strict=False)), before[-1:]])


def check_countable(manifest: Manifest, where: str) -> None:
    """DataError where shards have more rows together than ids can count, as headers of arrays without bytes may say."""
    counts = np.diff(manifest.first_sample)  # right even where the sums are not
    if counts.sum(dtype=np.float64) >= MOST_IDS:
        raise DataError(
            f"{where}: {sum(counts.tolist()):,} rows in all, and ids are counted in 63 bits; look at the shapes that the files say, and leave wrong ones out"
        )


@dataclass(frozen=True, eq=False)
class StatedManifest(Manifest):
    """The manifest of data that lies in no files: what gives it says its digest and size."""

    stated_digest: str = ""
    stated_bytes: int = 0

    @classmethod
    def of(cls, format: str, samples: int, digest: str, size_bytes: int, **more: Any) -> Self:
        """A manifest without shards."""
        none = np.empty(0, dtype=np.int64)
        shards = Shards(pa.nulls(0, pa.large_string()), none, none)
        return cls(format, shards, np.array([0, samples]), stated_digest=digest, stated_bytes=size_bytes, **more)

    @property
    def digest(self) -> str:
        """32 hex digits that identify the data."""
        return self.stated_digest

    @property
    def size_bytes(self) -> int:
        """Bytes of all samples together, as far as they are known."""
        return self.stated_bytes


def digest_of(identity: str) -> str:
    """32 hex digits of a text that names data."""
    return hashlib.blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


@dataclass(frozen=True, eq=False)
class TableManifest(Manifest):
    """A manifest of rows in columns.

    held_bytes: bytes of all rows in memory, in the columns that were chosen, as far as it is known beforehand. choice: what
    besides the files decides which rows there are (a filter, a split), a part of the data's identity.
    """

    held_bytes: int = 0
    choice: str = ""

    @property
    def size_bytes(self) -> int:
        """Bytes of all rows in memory."""
        return self.held_bytes

    @cached_property
    def digest(self) -> str:
        """32 hex digits that identify the data: the files, and the choice among their rows."""
        if not self.choice:
            return super().digest
        return digest_of(f"{super().digest} {self.choice}")


def first_records(
    manifest: Manifest, read: ByteRanges, most: int = 100, most_bytes: int = 64 << 20, *, across: bool = False
) -> Spans:
    """The first records: so many at most, of up to so many bytes together, but at least one.

    across: whether those of several shards; else they are of the first shard that has any.
    """
    assert manifest.length is not None
    if not across:
        most = min(most, int(manifest.first_sample[manifest.first_sample > 0][0]))
    ends = np.cumsum(manifest.length[:most])
    rows = max(1, int(np.searchsorted(ends, most_bytes, side="right")))
    return read_ranges(read, manifest.stored, *manifest.extents(np.arange(rows, dtype=np.int64)))
