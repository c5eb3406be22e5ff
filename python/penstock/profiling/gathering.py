"""Two passes over the rows of a dataset, on all cores: what comes out does not depend on threads, blocks or their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np

from penstock.core.columns.spec import Spec
from penstock.core.cpus import usable_cpus
from penstock.profiling.columns import ColumnFigures, SomeRows, finite_of, plain
from penstock.profiling.correlations import MOST_COLUMNS, Correlations
from penstock.profiling.hashes import Hashes, Smallest, mixed

#: Different rows that are told apart exactly; beyond that, how many come again is known by so many of them.
DISTINCT_ROWS = 1 << 22


class BlocksOf(Protocol):
    """The blocks of some columns of a dataset."""

    def __call__(self, names: Sequence[str]) -> Iterable[SomeRows]: ...  # noqa: D102


class Gathered:
    """What two passes found. columns: by their order; rows: their hashes; uncompared: columns that these leave out."""

    def __init__(self, spec: Spec, *, decodes: bool) -> None:
        self.columns = [ColumnFigures(name, field, decodes=decodes) for name, field in spec.items()]
        self.rows, self.row_count = Smallest(DISTINCT_ROWS, bits=64), 0
        self.uncompared = list[str]()
        self.correlations: Correlations | None = None
        self.uncorrelated = list[str]()

    def gather(self, blocks_of: BlocksOf, progress: Callable[[int], None]) -> None:
        """Makes the passes. progress: is called with the rows of each block."""
        with ThreadPoolExecutor(usable_cpus()) as pool, ThreadPoolExecutor(1) as reader:
            for block in _ahead(reader, blocks_of([column.name for column in self.columns])):
                hashes = [*pool.map(lambda column, block=block: column.add(block), self.columns)]
                self._add_rows(hashes, len(block.ids))
                progress(len(block.ids))
            [*pool.map(lambda column: column.end_pass(), self.columns)]
            again = [column for column in self.columns if column.needs_pass]
            self._begin_correlations()
            related = [
                column for column in self.columns if self.correlations and column.name in self.correlations.names
            ]
            wanted = [column for column in self.columns if column in again or column in related]
            for block in _ahead(reader, blocks_of([column.name for column in wanted])) if wanted else ():
                columns = {column.name: plain(block.columns[column.name]) for column in wanted}
                done = [pool.submit(column.add_again, columns[column.name]) for column in again]
                if self.correlations is not None:
                    floats = pool.map(lambda column, columns=columns: finite_of(columns[column.name]), related)
                    self.correlations.add(dict(zip(self.correlations.names, floats, strict=True)))
                for one in done:
                    one.result()
                progress(len(block.ids))

    def _add_rows(self, hashes: Sequence[Hashes | None], rows: int) -> None:
        self.row_count += rows
        found = np.zeros(rows, np.uint64)
        for column, own in zip(self.columns, hashes, strict=True):
            if own is not None:
                found = mixed(found, own)
            elif column.name not in self.uncompared:
                self.uncompared.append(column.name)
        self.rows.add(found)

    def _begin_correlations(self) -> None:
        able = [column for column in self.columns if column.varies]
        self.uncorrelated = [column.name for column in able[MOST_COLUMNS:]]
        bounds = {
            column.name: (column.numbers.moments.least, column.numbers.moments.greatest)
            for column in able[:MOST_COLUMNS]
            if column.numbers is not None
        }
        if len(bounds) > 1:
            self.correlations = Correlations(bounds)


def _ahead(reader: ThreadPoolExecutor, blocks: Iterable[Any]) -> Iterator[Any]:
    """The blocks, of which the next one is read meanwhile."""
    left = iter(blocks)
    coming = reader.submit(next, left, None)
    while (block := coming.result()) is not None:
        coming = reader.submit(next, left, None)
        yield block
