"""Neighbouring sources that are read as one: their sample ids count on from one to the next."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from penstock.core.rows import Rows
from penstock.core.spec import Columns
from penstock.engine.read.blocks import Blocks
from penstock.engine.read.parts import Parts
from penstock.engine.read.reader import Reader, Reading
from penstock.source.protocol import BlockSource


class JoinedBlocks:
    """Sources of blocks with the same columns; no block lies in two of them. Names places as they do."""

    def __init__(self, sources: Sequence[BlockSource]) -> None:
        self._sources, self.spec = sources, sources[0].spec
        self._first = [0, *accumulate(source.manifest.samples for source in sources)]
        self.manifest = self
        self.access, self.block_rows = sources[0].access, None

    def _at(self, sample: int) -> tuple[BlockSource, int]:
        number = bisect_right(self._first, sample) - 1
        return self._sources[number], sample - self._first[number]

    def load(self, first: int, rows: int) -> Columns | Rows:
        """Rows [first, first + rows), of one source."""
        source, first = self._at(first)
        return source.load(first, rows)

    def place(self, sample: int) -> str:
        """Where a row lies, for messages."""
        source, sample = self._at(sample)
        return source.manifest.place(sample)


def _blocks(reading: Reading, *sources: Any) -> Reader:
    return Blocks(reading, JoinedBlocks(sources))  # type: ignore[arg-type]  # no more of its manifest is asked for


#: What reads several sources as one, by what reads each.
_JOIN: dict[type, Callable[..., Reader]] = {Parts: Parts, Blocks: _blocks}


def read_together(readings: Sequence[Reading], readers: Sequence[Reader]) -> Reader | None:
    """One reader for sources that all have the same columns, and are reached in the same way; None where that is not so."""
    first, join = readers[0], _JOIN.get(type(readers[0]))
    if join is None or len(readers) == 1:
        return None
    columns = list(first.spec.items())
    if any(type(reader) is not type(first) or list(reader.spec.items()) != columns for reader in readers):
        return None
    sources = [reading.leaf.opened.source for reading in readings]
    reads_at_once = max(reading.reads_at_once for reading in readings)
    return join(replace(readings[0], reads_at_once=reads_at_once), *sources)
