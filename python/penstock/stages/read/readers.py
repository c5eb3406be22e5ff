"""The table of readers, and the stages that read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.source.nulls import stored
from penstock.source.protocol import Access
from penstock.stages.read.blocks import BlockReader
from penstock.stages.read.forward import ForwardReader
from penstock.stages.read.memory import MemoryReader
from penstock.stages.read.null_rows import NullRows
from penstock.stages.read.parts import PartReader
from penstock.stages.read.reader import AnyReader, Reading
from penstock.stages.read.records import SingleRecords, WindowedRecords
from penstock.stages.read.single_rows import SingleRows


def _records(reading: Reading, source: Any) -> AnyReader:
    is_single = reading.block_rows == 1 or source.manifest.scattered
    return (SingleRecords if is_single else WindowedRecords)(reading, source, reading.read)


def _parts(reading: Reading, source: Any) -> AnyReader:
    return (
        PartReader(reading, source)
        if reading.block_rows == 1 or source.stays_in_memory
        else BlockReader(reading, source)
    )


def _blocks(reading: Reading, source: Any) -> AnyReader:
    return SingleRows(reading, source) if reading.block_rows == 1 else BlockReader(reading, source)


#: A reader for each way to reach a source's rows.
READERS: dict[Access, Callable[[Reading, Any], AnyReader]] = {
    Access.RECORDS: _records,
    Access.MEMORY: MemoryReader,
    Access.BLOCKS: _blocks,
    Access.PARTS: _parts,
    Access.FORWARD: ForwardReader,
}


def reader_of(reading: Reading) -> AnyReader:
    """The reader of a source."""
    source = reading.leaf.opened.source
    reader = READERS[source.access](reading, stored(source))
    return reader if source is stored(source) else NullRows(reader, source)
