"""Where rows come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.core.columns.spec import Spec
from penstock.core.files.byte_ranges import ByteRanges
from penstock.core.limits import DEFAULT_LIMITS, Limits
from penstock.plan.node import Known, Node
from penstock.source.nulls import stored
from penstock.source.protocol import Access, AnySource, BlockSource, CompressedSource, DecodedSource


@dataclass(frozen=True, eq=False, kw_only=True)
class Opened:
    """An opened source, how its bytes are read, and the storage that they lie in. asked: which columns were asked for, and as what."""

    source: AnySource
    read_ranges: ByteRanges
    storage: Any = None
    asked: str = ""


@dataclass(frozen=True, kw_only=True)
class Read(Node):
    """Where the samples come from. limits: what their bytes may ask for, which changes no sample."""

    opened: Opened
    where: str
    format: str
    columns: tuple[tuple[str, str], ...]
    limits: Limits = field(default=DEFAULT_LIMITS, metadata={"affects_result": False})
    verb: str = "read"

    may_fail = True

    @property
    def samples(self) -> int:
        """How many rows the source has."""
        return self.opened.source.manifest.samples

    @property
    def size_bytes(self) -> int:
        """Bytes of all of them."""
        return self.opened.source.manifest.size_bytes

    @property
    def open_bytes(self) -> int:
        """Bytes of all of them where blocks of them are open: what is compressed is unpacked there, what repeats may stand once.

        A source that `reads_columns_alone` may have fewer columns than its manifest counts: those of fixed shape say what they take.
        """
        source: AnySource = stored(self.opened.source)
        fields = [*self.opened.source.spec.values()]
        if not isinstance(source, BlockSource) and not getattr(source, "lies_across", False):
            return self.opened.source.manifest.open_bytes
        required = [field.required for field in fields]
        if getattr(source, "reads_columns_alone", False) and all(field.is_fixed for field in required):
            return self.samples * sum(field.row_bytes for field in required)
        unpacked_bytes = source.unpacked_bytes if isinstance(source, CompressedSource) else 0
        return max(self.size_bytes, unpacked_bytes, self.samples * sum(field.row_bytes for field in fields))

    @property
    def decoded_bytes(self) -> int:
        """Bytes of all of them as batches hold them, about: every value written out."""
        source = stored(self.opened.source)
        return max(self.open_bytes, source.decoded_bytes if isinstance(source, DecodedSource) else 0)

    @property
    def files(self) -> int:
        """In how many files they lie."""
        return len(self.opened.source.manifest.shards)

    @property
    def access(self) -> Access:
        """How they are reached."""
        return self.opened.source.access

    @property
    def block_rows(self) -> int | None:
        """Rows that are worth reading together, where the source says so itself."""
        rows: int | None = getattr(self.opened.source, "block_rows", None)
        return rows

    @property
    def digest(self) -> str:
        """32 hex digits that identify the data."""
        return self.opened.source.manifest.digest

    def place(self, sample: int) -> str:
        """Where a row lies, for messages."""
        return self.opened.source.manifest.place(sample)

    def file_of(self, sample: int) -> tuple[str | None, int | None]:
        """The file of a row, and the row's number there; None for both where there are no files."""
        manifest = self.opened.source.manifest
        if not self.files:
            return None, None
        shard = int(manifest.shard_of(np.array([sample]))[0])
        return manifest.shards.path(shard), sample - int(manifest.first_sample[shard])

    def rows_of(self, below: Sequence[int]) -> int:
        """Those of the source."""
        return self.samples

    def spec_of_inputs(self, below: Sequence[Spec]) -> Spec:
        """The fields of the source."""
        return dict(self.opened.source.spec)

    def known_of(self, below: Sequence[Known]) -> Known:
        """The columns of the source."""
        return {name: str(field) for name, field in self.opened.source.spec.items()}

    def said(self) -> Iterator[tuple[str, str]]:
        """What is read of which format; not where it lies."""
        yield "format", self.format
        yield "columns", ", ".join(f"{new}: {old}" if new != old else new for new, old in self.columns)
